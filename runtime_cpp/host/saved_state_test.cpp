// Tests saving and restoring the state of a session as bytes: mutable buffers that the runtime or a backend keeps.
#include "host/saved_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "edgecore/module.h"
#include "error_text.h"
#include "host/state_parts.h"
#include "null_backend.h"
#include "pte_builder.h"

namespace edgecore {
namespace {

using Floats = std::vector<float>;

// Mutable buffers of the runtime, by name. All have the initial value 10.
using Sizes = std::map<const char *, std::vector<int32_t>>;

// Builds a program whose methods compute y = 2 * x + sum with float32 of shape [1]. The null backend keeps the sum in
// the buffer "sum". With `second`, another delegate keeps a sum in the buffer "second". The runtime keeps `buffers`.
struct Model {
  std::vector<std::string> methods = {"forward"};
  Sizes buffers = {};
  std::vector<uint8_t> dim_order = {};
  bool sum = true;
  bool second = false;

  std::vector<uint8_t> bytes() const {
    PteBuilder pte;
    pte.methods = methods;
    pte.arenas = {1024};
    uint64_t offset = 0;
    for (const auto &[name, sizes] : buffers) {
      TensorOptions options;
      options.name = name;
      options.dim_order = dim_order;
      size_t count = 1;
      for (const int32_t size : sizes) count *= static_cast<size_t>(size);
      (void)pte.add_state(sizes, {1, offset}, Floats(count, 10), options);
      offset += 128;
    }
    const int32_t x = pte.add_tensor({1}), y = pte.add_tensor({1});
    if (second) pte.delegate(pte.add_delegate("NullBackend", blob(kNullState | kNullSecond)), {x, y});
    pte.delegate(pte.add_delegate("NullBackend", blob(sum ? kNullState : 0)), {x, y});
    pte.inputs = {x};
    pte.outputs = {y};
    return pte.finish();
  }
  static std::vector<uint8_t> blob(uint32_t flags) {
    NullBlob blob;
    blob.flags = flags;
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
    return std::vector<uint8_t>(bytes, bytes + sizeof(blob));
  }
};

class Opened : private StateVisitor {
 public:
  explicit Opened(const Model &model, const edgecore_backend *table = null_backend(0),
                  StateSharing sharing = StateSharing::kAll) {
    const std::vector<uint8_t> bytes = model.bytes();
    MethodOptions options;
    options.sharing = sharing;
    EXPECT_TRUE(module.open({bytes.data(), bytes.size()}, error).ok() && module.add_backend(table, {}, error).ok() &&
                module.load_methods(options, error).ok())
        << text_of(error);
  }

  // Runs a method once with x = `value`, which the backend adds to its sums. Returns the sum: y - 2 * value.
  float add(float value, const char *method = "forward") {
    std::vector<Tensor> outputs;
    status = module.run(method, {Tensor::of<float>({1}, {value})}, outputs, error);
    return status.ok() ? outputs[0].values<float>()[0] - 2 * value : NAN;
  }
  // Returns the elements of a buffer that the runtime keeps, in memory order; uses the last method that has the buffer.
  Span<float> buffer(const char *name) {
    wanted_ = name;
    for (size_t i = 0; i < module.method_count(); ++i) module.method(i).visit_state(*this);
    return found_;
  }
  std::vector<uint8_t> exported() {
    std::vector<uint8_t> state;
    status = module.export_state(state, error);
    EXPECT_TRUE(status.ok()) << text_of(error);
    return state;
  }
  int32_t import(const std::vector<uint8_t> &state) {
    status = module.import_state({state.data(), state.size()}, error);
    return status.code();
  }

  Module module;
  Error error;
  Status status;

 private:
  void visit(const StateBuffer &buffer) override {
    if (buffer.name != wanted_) return;
    found_ = {reinterpret_cast<float *>(buffer.memory.data()), buffer.memory.size() / sizeof(float)};
  }
  StringView wanted_;
  Span<float> found_;
};

TEST(SavedState, RestoresBuffersOfTheRuntimeAndOfBackends) {
  const Model model = {{"forward"}, {{"cache", {2}}}};
  Opened opened(model);
  opened.add(5);
  opened.buffer("cache")[1] = 11;
  const std::vector<uint8_t> saved = opened.exported();
  opened.add(6);
  opened.buffer("cache")[1] = 12;
  EXPECT_EQ(opened.import(saved), EDGECORE_OK) << text_of(opened.error);
  EXPECT_EQ(opened.buffer("cache")[1], 11);
  EXPECT_EQ(opened.exported(), saved);
  EXPECT_EQ(opened.add(0), 5);

  Opened other(model);
  EXPECT_EQ(other.import(saved), EDGECORE_OK) << text_of(other.error);
  EXPECT_EQ(other.buffer("cache")[1], 11);
  EXPECT_EQ(other.add(0), 5);
}

TEST(SavedState, MovesBetweenTheRuntimeAndABackend) {
  for (const StateSharing sharing : {StateSharing::kAll, StateSharing::kNone}) {
    Opened core({{"forward"}, {{"second", {1}}, {"sum", {1}}}, {}, false}, null_backend(0), sharing);
    Opened claimed({{"forward"}, {}, {}, true, true}, null_backend(0), sharing);
    core.buffer("sum")[0] = 3;
    core.buffer("second")[0] = 4;
    EXPECT_EQ(claimed.import(core.exported()), EDGECORE_OK) << text_of(claimed.error);
    EXPECT_EQ(claimed.add(1), 4);
    EXPECT_EQ(core.import(claimed.exported()), EDGECORE_OK) << text_of(core.error);
    EXPECT_EQ(core.buffer("sum")[0], 4);
    EXPECT_EQ(core.buffer("second")[0], 5);
  }
}

TEST(SavedState, DoesNotDependOnTheOrderOfDimsInMemory) {
  Opened rows({{"forward"}, {{"cache", {2, 3}}}, {0, 1}}), columns({{"forward"}, {{"cache", {2, 3}}}, {1, 0}});
  for (size_t i = 0; i < 6; ++i) rows.buffer("cache")[i] = static_cast<float>(i);
  EXPECT_EQ(columns.import(rows.exported()), EDGECORE_OK) << text_of(columns.error);
  const Span<float> in_columns = columns.buffer("cache");
  EXPECT_EQ(Floats(in_columns.begin(), in_columns.end()), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(columns.exported(), rows.exported());
}

TEST(SavedState, OfMethodsThatShareNothingIsSavedForEach) {
  const Model model = {{"prefill", "decode"}};
  Opened opened(model, null_backend(0), StateSharing::kNone);
  opened.add(1, "prefill");
  opened.add(2, "decode");
  const std::vector<uint8_t> saved = opened.exported();
  ASSERT_TRUE(opened.module.reset(opened.error).ok());
  EXPECT_EQ(opened.import(saved), EDGECORE_OK) << text_of(opened.error);
  EXPECT_EQ(opened.add(0, "prefill"), 1);
  EXPECT_EQ(opened.add(0, "decode"), 2);

  Opened sharing(model);
  EXPECT_EQ(sharing.import(saved), EDGECORE_INVALID_ARGUMENT);
  EXPECT_NE(text_of(sharing.error).find("buffer 'sum' float32 [1] of method '"), std::string::npos)
      << text_of(sharing.error);
}

TEST(SavedState, DamagedStateIsRefusedAndChangesNothing) {
  Opened opened({{"forward"}, {{"cache", {2}}}});
  const std::vector<uint8_t> saved = opened.exported();
  opened.buffer("cache")[0] = 12;
  opened.add(6);
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
  EXPECT_EQ(text_of(opened.error),
            "This state of " + std::to_string(longer.size()) + " bytes is damaged or incomplete.");
  EXPECT_EQ(opened.import({1, 2}), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(opened.error), "These 2 bytes are not a state that export_state returned.");

  std::vector<uint8_t> short_part;  // a state with a correct checksum
  StateWriter writer(short_part);
  std::memset(writer.add("buffer 'cache' float32 [2]", 4), 0, 4);
  std::memset(writer.add("buffer 'sum' float32 [1]", 4), 0, 4);
  writer.finish();
  EXPECT_EQ(opened.import(short_part), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(opened.error), "This state is damaged: the buffer 'cache' float32 [2] has 4 bytes.");
  EXPECT_EQ(opened.buffer("cache")[0], 12);
  EXPECT_EQ(opened.add(0), 6);
}

TEST(SavedState, StateOfAnotherProgramIsRefusedAndChangesNothing) {
  Opened one({{"forward"}, {}}), two({{"forward"}, {}, {}, true, true}), none({{"forward"}, {}, {}, false});
  Opened other({{"forward"}, {{"sum", {2}}}, {}, false});
  one.add(7);
  EXPECT_EQ(one.import(other.exported()), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(one.error),
            "This state is of another program: it has the buffer 'sum' float32 [2], this program has the buffer 'sum' "
            "float32 [1].");
  EXPECT_EQ(one.import(two.exported()), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(one.error),
            "This state is of another program: it has the buffer 'second' float32 [1], this program has no such "
            "buffer.");
  EXPECT_EQ(one.import(none.exported()), EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(one.error), "This state is of another program: it lacks the buffer 'sum' float32 [1].");
  EXPECT_EQ(one.add(0), 7);
}

TEST(SavedState, AnUndefinedStateIsNotExportedAndCanBeReplaced) {
  Opened opened({{"forward"}});
  opened.add(5);
  const std::vector<uint8_t> saved = opened.exported();
  opened.add(NAN);
  EXPECT_EQ(opened.status.code(), EDGECORE_INVALID_STATE);
  std::vector<uint8_t> state;
  EXPECT_EQ(opened.module.export_state(state, opened.error).code(), EDGECORE_INVALID_STATE);
  EXPECT_NE(text_of(opened.error).find("reset or import it first"), std::string::npos);
  EXPECT_EQ(opened.import(saved), EDGECORE_OK) << text_of(opened.error);
  EXPECT_EQ(opened.add(0), 5);
}

TEST(SavedState, ABackendThatFailsMakesItsStateUnusableUntilAReset) {
  static edgecore_backend table;
  table = *null_backend(0);
  table.import_state = [](edgecore_state_set *, uint64_t, edgecore_bytes, edgecore_error *error) -> int32_t {
    return core_services().fail(error, EDGECORE_ACCESS_FAILED, {"the device was lost.", 20});
  };
  Opened opened({{"forward"}, {{"cache", {2}}}}, &table);
  const std::vector<uint8_t> saved = opened.exported();
  opened.buffer("cache")[0] = 12;
  EXPECT_EQ(opened.import(saved), EDGECORE_ACCESS_FAILED);
  EXPECT_EQ(text_of(opened.error), "the device was lost.");
  EXPECT_EQ(opened.buffer("cache")[0], 12);
  opened.add(1);
  EXPECT_EQ(opened.status.code(), EDGECORE_INVALID_STATE);
  ASSERT_TRUE(opened.module.reset(opened.error).ok());
  EXPECT_EQ(opened.add(1), 1);
}

TEST(SavedState, ABackendMustDescribeItsBuffersCorrectly) {
  static edgecore_backend table;
  table = *null_backend(0);
  table.state_describe = [](edgecore_state_set *, uint64_t, edgecore_state_tensor *out) {
    out->name = {"sum", 3};
    out->scalar_type = 6;
    out->bytes = 3;
  };
  Opened opened({{"forward"}}, &table);
  std::vector<uint8_t> state;
  EXPECT_EQ(opened.module.export_state(state, opened.error).code(), EDGECORE_INTERNAL);
  EXPECT_EQ(
      text_of(opened.error),
      "The backend 'NullBackend' describes tensor 0 of its state, 'sum', with a dtype, shape and size that do not "
      "belong together.");
}

}  // namespace
}  // namespace edgecore
