// Tests which mutable buffers stay in device memory, and when the content of a mutable buffer is copied.
#include "copies.h"

namespace edgecore {
namespace {

using Floats = std::vector<float>;

NullBlob on_device(uint32_t flags = 0, uint32_t tail_padding = 0) {
  NullBlob blob;
  blob.tail_padding = tail_padding;
  blob.memory_kind = null_device::kMemoryKind;
  blob.flags = flags;
  return blob;
}

enum class Update {
  kCopy,      // aten::copy_ of a new tensor
  kInPlace,   // the new content is planned at the address of the buffer
  kOnHost,    // as kCopy, and a kernel reads the buffer
  kReturned,  // as kCopy, and the new content is an output
};

// Builds the program y = 4 s; s = 2 s for a mutable buffer `s`, initially [1, 2, 3, 4]. A delegate computes the new
// content 2 s, and a second delegate doubles the new content to y.
std::vector<uint8_t> program(Update update = Update::kCopy, NullBlob second = on_device(), NullBlob first = on_device(),
                             std::vector<std::string> methods = {"forward"}) {
  PteBuilder pte;
  pte.arenas = {256};
  pte.methods = std::move(methods);
  TensorOptions options;
  options.name = "s";
  const int32_t s = pte.add_state({4}, {1, 0}, {1, 2, 3, 4}, options);
  const uint64_t place = update == Update::kInPlace ? 0 : 64;
  const int32_t content = pte.add_planned({4}, {1, place}), y = pte.add_tensor({4}), no = pte.add_int(0);
  const int32_t w = pte.add_planned({4}, {1, 128});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(first)), {s, content});
  if (update == Update::kOnHost) pte.kernel(pte.add_operator("test::scale", "out"), {s, no, w, w});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(second)), {content, y});
  if (update != Update::kInPlace) pte.kernel(pte.add_operator("aten::copy_", ""), {s, content, no, s});
  pte.outputs = {y};
  if (update == Update::kReturned) pte.outputs.push_back(content);
  return pte.finish();
}

// Builds a program that doubles the mutable buffer `s` in a kernel, or a program whose delegate returns 2 s.
std::vector<uint8_t> other_program(bool by_kernel, uint32_t tail_padding = 0) {
  PteBuilder pte;
  pte.arenas = {256};
  TensorOptions options;
  options.name = "s";
  const int32_t s = pte.add_state({4}, {1, 0}, {1, 2, 3, 4}, options);
  const int32_t y = pte.add_tensor({4}), two = pte.add_int(2);
  const int32_t scale = pte.add_operator("test::scale", "out");
  if (by_kernel) {
    pte.kernel(scale, {s, two, y, y});
    pte.kernel(pte.add_operator("test::copy_", ""), {s, y, s});
  } else {
    pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device(0, tail_padding))), {s, y});
  }
  pte.outputs = {y};
  return pte.finish();
}

class Content final : public StateVisitor {
 public:
  explicit Content(const Method &method) { method.visit_state(*this); }
  void visit(const StateBuffer &buffer) override { state = buffer; }
  Floats fetch() {
    Error error;
    EXPECT_TRUE(state.device->fetch(state.memory.data(), state.memory.size(), error).ok()) << text_of(error);
    Floats floats(4);
    memcpy(floats.data(), state.memory.data(), state.memory.size());
    return floats;
  }
  StateBuffer state;
};

class Ready final : public Completion {
 public:
  void ready() override {}
};

class ResidentState : public BufferTest {
 protected:
  // Runs the method; expects y to be `first` times [1, 2, 3, 4], and `copies` copies.
  void step(Loaded &loaded, float first, int copies) {
    copies_.count = 0;
    Floats y(4);
    ASSERT_TRUE(loaded.set_floats_output(0, y) && loaded.execute()) << text_of(loaded.error);
    EXPECT_EQ(y, (Floats{first, 2 * first, 3 * first, 4 * first}));
    EXPECT_EQ(copies_.count, copies);
  }
};

TEST_F(ResidentState, IsSentToTheDeviceOnce) {
  for (const Update update : {Update::kCopy, Update::kInPlace}) {
    Loaded loaded(program(update));
    ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
    step(loaded, 4, 2);  // s to the device, y back
    step(loaded, 8, 1);
    step(loaded, 16, 1);
    Content content(*loaded.method);
    EXPECT_EQ(content.fetch(), (Floats{8, 16, 24, 32}));
    step(loaded, 32, 1);
    loaded.method->reset();
    EXPECT_EQ(content.fetch(), (Floats{1, 2, 3, 4}));
    step(loaded, 4, 2);
    const Floats imported = {3, 6, 9, 12};
    content.fetch();
    memcpy(content.state.memory.data(), imported.data(), sizeof(float) * 4);
    content.state.device->host_has_changed();
    step(loaded, 12, 2);
  }
}

// No delegate reads the old content, so the new content looks like a value that only delegates use.
TEST_F(ResidentState, GetsContentThatIsPlannedInItsMemory) {
  PteBuilder pte;
  pte.arenas = {256};
  TensorOptions options;
  options.name = "s";
  const int32_t s = pte.add_state({4}, {1, 0}, {0, 0, 0, 0}, options), content = pte.add_planned({4}, {1, 0});
  const int32_t x = pte.add_tensor({4}), y = pte.add_tensor({4});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {x, content});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {content, y});
  pte.inputs = {x};
  pte.outputs = {y};
  EXPECT_EQ(s, 0);
  Loaded loaded(pte.finish());
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  Floats in = {1, 2, 3, 4}, out(4);
  ASSERT_TRUE(run(loaded, in, out, {4})) << text_of(loaded.error);
  EXPECT_EQ(out, (Floats{4, 8, 12, 16}));
  EXPECT_EQ(Content(*loaded.method).fetch(), (Floats{2, 4, 6, 8}));
}

TEST_F(ResidentState, IsInHostMemoryIfTheHostUsesIt) {
  Loaded loaded(program(Update::kOnHost));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  for (const float first : {4.f, 8.f, 16.f}) step(loaded, first, 3);  // s to the device, the new content and y back
  EXPECT_EQ(Content(*loaded.method).fetch(), (Floats{8, 16, 24, 32}));
}

TEST_F(ResidentState, StaysOnTheDeviceIfTheCallerGetsItsNewContent) {
  Loaded loaded(program(Update::kReturned));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  for (const float first : {4.f, 8.f, 16.f}) {
    step(loaded, first, first == 4 ? 3 : 2);  // once s to the device, the new content and y back
    EXPECT_EQ(loaded.output(1), (Floats{first / 2, first, first * 3 / 2, first * 2}));
  }
  EXPECT_EQ(null_backend_live_buffers(), 3u);  // two buffers for s, one for y
  EXPECT_EQ(Content(*loaded.method).fetch(), (Floats{8, 16, 24, 32}));
}

// Both mutable buffers receive the same new content, but only one of them could swap memory with that value.
TEST_F(ResidentState, IsInHostMemoryIfTwoBuffersGetTheSameContent) {
  PteBuilder pte;
  pte.arenas = {256};
  TensorOptions first, second;
  first.name = "a";
  second.name = "b";
  const int32_t a = pte.add_state({4}, {1, 0}, {1, 2, 3, 4}, first);
  const int32_t b = pte.add_state({4}, {1, 64}, {0, 0, 0, 0}, second);
  const int32_t content = pte.add_planned({4}, {1, 128}), y = pte.add_tensor({4}), no = pte.add_int(0);
  const int32_t copy = pte.add_operator("aten::copy_", "");
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {a, content});
  pte.kernel(copy, {b, content, no, b});
  pte.kernel(copy, {a, content, no, a});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {b, y});
  pte.outputs = {y};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  for (const float expected : {4.f, 8.f, 16.f}) step(loaded, expected, 4);
}

TEST_F(ResidentState, KeepsItsContentIfARunFails) {
  Loaded loaded(program(Update::kCopy, on_device(kNullFails)));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  Floats y(4);
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(loaded.execute());
    EXPECT_EQ(Content(*loaded.method).fetch(), (Floats{1, 2, 3, 4}));
  }
}

TEST_F(ResidentState, IsUpdatedByPendingRuns) {
  Loaded loaded(program(Update::kCopy, on_device(kNullPending), on_device(kNullPending)));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  Ready ready;
  Floats y(4);
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  for (const float first : {4.f, 8.f}) {
    copies_.count = 0;
    EXPECT_EQ(loaded.method->start(ready, loaded.error).code(), EDGECORE_PENDING);
    EXPECT_EQ(null_backend_drain(), 1u);
    EXPECT_EQ(loaded.method->resume(loaded.error).code(), EDGECORE_PENDING);
    EXPECT_EQ(null_backend_drain(), 1u);
    ASSERT_TRUE(loaded.method->resume(loaded.error).ok()) << text_of(loaded.error);
    EXPECT_EQ(y[0], first);
    EXPECT_EQ(copies_.count, first == 4 ? 2 : 1);
  }
}

TEST_F(ResidentState, StaysOnTheDeviceBetweenTheMethodsOfASession) {
  Loaded loaded(program(Update::kCopy, on_device(), on_device(), {"forward", "other"}));
  loaded.config.state = &loaded.state;
  loaded.config.sharing = StateSharing::kAll;
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  EXPECT_EQ(null_backend_live_buffers(), 2u);  // the content and the new content
  const Result<Method *> other = Method::load(*loaded.program, "other", loaded.config, loaded.error);
  ASSERT_TRUE(other.ok()) << text_of(loaded.error);
  EXPECT_EQ(null_backend_live_buffers(), 2u);
  Method *forward = loaded.method;
  for (const float first : {4.f, 8.f, 16.f, 32.f}) {
    loaded.method = loaded.method == forward ? *other : forward;
    step(loaded, first, first == 4 ? 2 : 1);
  }
  ASSERT_TRUE(loaded.state.reset(loaded.error).ok());
  step(loaded, 4, 2);
  loaded.method = forward;
  (*other)->destroy();
}

// The other methods of a session may need the buffer in host memory, or in larger device memory.
TEST_F(ResidentState, MovesWhenMethodsDiffer) {
  Loaded loaded(program()), kernel(other_program(true)), large(other_program(false, 256));
  for (Loaded *model : {&loaded, &kernel, &large}) {
    model->config.state = &loaded.state;
    model->config.sharing = StateSharing::kAll;
    model->config.backends = {&loaded.session.backend(), 1};
    ASSERT_TRUE(load(*model)) << text_of(model->error);
  }
  step(loaded, 4, 2);
  step(large, 4, 1);
  step(kernel, 4, 1);
  step(large, 8, 2);
  step(loaded, 16, 1);
  step(large, 16, 1);
  EXPECT_EQ(Content(*kernel.method).fetch(), (Floats{8, 16, 24, 32}));
  for (Loaded *model : {&loaded, &kernel, &large}) {
    model->method->destroy();
    model->method = nullptr;
  }
}

TEST_F(ResidentState, OfTwoSessionsDoesNotMix) {
  Loaded loaded(program(Update::kCopy, on_device(), on_device(), {"forward"}));
  HeapAllocator memory;
  StateStore second_store(&memory);
  loaded.config.sharing = StateSharing::kAll;
  loaded.config.state = &loaded.state;
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  Method *first = loaded.method;
  loaded.config.state = &second_store;
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  Method *second = loaded.method;
  step(loaded, 4, 2);
  step(loaded, 8, 1);
  loaded.method = first;
  step(loaded, 4, 2);
  loaded.method = second;
  step(loaded, 16, 1);
  loaded.method = first;
  second->destroy();
}

TEST_F(ResidentState, TellsWhyTheDeviceFails) {
  static edgecore_backend table;
  table = *null_backend(0);
  table.buffer_map = [](edgecore_buffer *, uint64_t, uint64_t, void **, edgecore_error *error) -> int32_t {
    return core_services().fail(error, EDGECORE_ACCESS_FAILED, {"the device is gone.", 19});
  };
  LoadedBackend backend;  // declared before `loaded`, whose destructor uses it
  Loaded loaded(program());
  backend = loaded.session.backend();
  backend.table = &table;
  loaded.config.backends = {&backend, 1};
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  Floats y(4);
  ASSERT_TRUE(loaded.set_floats_output(0, y));
  EXPECT_FALSE(loaded.execute());
  EXPECT_SENTENCE(loaded, "copying the 16 bytes of a mutable buffer to its device failed: the device is gone.");
  table.buffer_map = null_backend(0)->buffer_map;
  ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
  table.buffer_map = [](edgecore_buffer *, uint64_t, uint64_t, void **, edgecore_error *error) -> int32_t {
    return core_services().fail(error, EDGECORE_ACCESS_FAILED, {"the device is gone.", 19});
  };
  Content content(*loaded.method);
  EXPECT_EQ(content.state.device->fetch(content.state.memory.data(), 16, loaded.error).code(), EDGECORE_ACCESS_FAILED);
  EXPECT_SENTENCE(loaded, "copying the 16 bytes of a mutable buffer from its device failed: the device is gone.");
}

}  // namespace
}  // namespace edgecore
