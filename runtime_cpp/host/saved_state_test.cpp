// Tests saving and restoring the state of a program as bytes: mutable buffers of methods, and state of backends.
#include <gtest/gtest.h>

#include <cstring>

#include "edgecore/module.h"
#include "null_backend.h"
#include "pte_builder.h"

namespace edgecore {
namespace {

using Floats = std::vector<float>;

// The null backend under another name, whose import_state refuses everything.
const edgecore_backend *stubborn_backend() {
  static edgecore_backend table;
  table = *null_backend(0);
  table.backend_id = {"StubbornBackend", 15};
  table.import_state = [](edgecore_program *, edgecore_bytes, edgecore_error *) -> int32_t {
    return EDGECORE_INVALID_STATE;
  };
  return &table;
}

// The null backend without export_state: it has state that it can reset but not export.
const edgecore_backend *closed_backend() {
  static edgecore_backend table;
  table = *null_backend(0);
  table.export_state = nullptr;
  return &table;
}

// A program with a method "forward": it has a buffer of `size` floats, and a delegate that sums its inputs.
std::vector<uint8_t> program(int32_t size, bool stubborn = false) {
  NullBlob blob;
  blob.flags = kNullState;
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  const std::vector<uint8_t> sum(bytes, bytes + sizeof(blob));
  PteBuilder pte;
  pte.arenas = {64};
  (void)pte.add_state({size}, {1, 0}, Floats(static_cast<size_t>(size), 10));
  const int32_t x = pte.add_tensor({1}), y = pte.add_tensor({1});
  pte.delegate(pte.add_delegate("NullBackend", sum), {x, y});
  if (stubborn) pte.delegate(pte.add_delegate("StubbornBackend", sum), {x, y});
  pte.inputs = {x};
  pte.outputs = {y};
  return pte.finish();
}

class Opened : private StateVisitor {
 public:
  explicit Opened(const std::vector<uint8_t> &bytes, std::vector<const edgecore_backend *> tables = {null_backend(0)}) {
    bool ok = module_.open({bytes.data(), bytes.size()}, error_).ok();
    for (const edgecore_backend *table : tables) ok = ok && module_.add_backend(table, {}, error_).ok();
    EXPECT_TRUE(ok && module_.load_methods({}, error_).ok()) << sentence();
  }

  // Runs the method once, which adds `value` to the delegate's state, and sets the buffer to `buffer`.
  void use(float value, float buffer) {
    std::vector<Tensor> outputs;
    EXPECT_TRUE(module_.run("forward", {Tensor::of<float>({1}, {value})}, outputs, error_).ok()) << sentence();
    for (float &item : this->buffer()) item = buffer;
  }
  std::vector<uint8_t> exported() {
    std::vector<uint8_t> state;
    EXPECT_TRUE(module_.export_state(state, error_).ok()) << sentence();
    return state;
  }
  int32_t import(const std::vector<uint8_t> &state) {
    return module_.import_state({state.data(), state.size()}, error_).code();
  }
  // Returns the first element of the buffer and the delegate's sum.
  Floats state() {
    std::vector<uint8_t> bytes;
    EXPECT_TRUE(module_.export_state("NullBackend", bytes, error_).ok()) << sentence();
    float sum = 0;
    std::memcpy(&sum, bytes.data(), sizeof sum);
    return {buffer()[0], sum};
  }
  std::string sentence() const { return {error_.text, error_.size}; }
  Module &module() { return module_; }

 private:
  void visit(const StateBuffer &buffer) override {
    buffer_ = {reinterpret_cast<float *>(buffer.memory.data()), buffer.memory.size() / sizeof(float)};
  }
  Span<float> buffer() {
    module_.method(0).visit_state(*this);
    return buffer_;
  }

  Module module_;
  Error error_;
  Span<float> buffer_;
};

TEST(SavedState, RestoresBuffersAndBackends) {
  Opened opened(program(2));
  EXPECT_EQ(opened.state(), (Floats{10, 0}));
  opened.use(5, 11);
  const std::vector<uint8_t> saved = opened.exported();
  opened.use(6, 12);
  EXPECT_EQ(opened.state(), (Floats{12, 11}));
  EXPECT_EQ(opened.import(saved), EDGECORE_OK) << opened.sentence();
  EXPECT_EQ(opened.state(), (Floats{11, 5}));
  EXPECT_EQ(opened.exported(), saved);

  Opened other(program(2));
  EXPECT_EQ(other.import(saved), EDGECORE_OK) << other.sentence();
  EXPECT_EQ(other.state(), (Floats{11, 5}));
}

TEST(SavedState, DamagedStateIsRefusedAndChangesNothing) {
  Opened opened(program(2));
  const std::vector<uint8_t> saved = opened.exported();
  opened.use(6, 12);
  for (size_t at = 0; at < saved.size(); ++at) {
    std::vector<uint8_t> damaged = saved;
    damaged[at] ^= 0x10;
    EXPECT_EQ(opened.import(damaged), EDGECORE_INVALID_ARGUMENT) << at;
    damaged.resize(at);
    EXPECT_EQ(opened.import(damaged), EDGECORE_INVALID_ARGUMENT) << at;
  }
  std::vector<uint8_t> longer = saved;
  longer.push_back(0);
  EXPECT_EQ(opened.import(longer), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(opened.sentence(), "This state of " + std::to_string(longer.size()) + " bytes is damaged or incomplete.");
  EXPECT_EQ(opened.import({1, 2}), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(opened.sentence(), "These 2 bytes are not a state that export_state returned.");
  EXPECT_EQ(opened.state(), (Floats{12, 6}));
}

TEST(SavedState, StateOfAnotherProgramIsRefused) {
  Opened opened(program(2)), other(program(3)), two(program(2, true), {null_backend(0), stubborn_backend()});
  other.use(1, 2);
  EXPECT_EQ(other.import(opened.exported()), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(other.sentence(),
            "This state is of another program: it has the buffer '' float32 [2] dim order [0] of method 'forward', "
            "this program has the buffer '' float32 [3] dim order [0] of method 'forward'.");
  EXPECT_EQ(other.import(two.exported()), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(other.sentence(),
            "This state is of another program: it has 3 buffers and backends, this program has 1 and 1.");
  EXPECT_EQ(other.state(), (Floats{2, 1}));
}

TEST(SavedState, ABackendThatRefusesLeavesTheOthersAsTheyWere) {
  Opened opened(program(2, true), {null_backend(0), stubborn_backend()});
  const std::vector<uint8_t> saved = opened.exported();
  opened.use(6, 12);
  EXPECT_EQ(opened.import(saved), EDGECORE_INVALID_STATE);
  EXPECT_EQ(opened.state(), (Floats{12, 6}));
}

TEST(SavedState, ABackendWithStateThatItCannotExportIsAnError) {
  Opened opened(program(2), {closed_backend()});
  std::vector<uint8_t> state;
  Error error;
  EXPECT_EQ(opened.module().export_state(state, error).code(), EDGECORE_NOT_SUPPORTED);
  EXPECT_EQ(std::string(error.text, error.size),
            "The backend 'NullBackend' keeps state of this program and cannot export it.");
}

}  // namespace
}  // namespace edgecore
