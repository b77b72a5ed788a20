// Where the arguments of delegates lie: what they require of host memory, and memory of a device.
#include <sys/mman.h>
#include <unistd.h>

#include "loaded.h"

namespace edgecore {
namespace {

std::vector<uint8_t> bytes_of(const NullBlob &blob) {
  const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&blob);
  return std::vector<uint8_t>(bytes, bytes + sizeof(blob));
}

// Memory that ends where a page ends; reading past it kills the process.
class BeforeGuard {
 public:
  explicit BeforeGuard(size_t size) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    pages_ = (size + page_ - 1) / page_ * page_;
    base_ = static_cast<uint8_t *>(
        mmap(nullptr, pages_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + pages_, page_, PROT_NONE), 0);
    data_ = base_ + pages_ - size;
  }
  ~BeforeGuard() { munmap(base_, pages_ + page_); }
  uint8_t *data() const { return data_; }

 private:
  size_t page_, pages_;
  uint8_t *base_, *data_;
};

class Copies final : public EventTracer {
 public:
  uint64_t begin(EventKind kind, StringView, uint64_t, int64_t) override {
    count += kind == EventKind::kCopy;
    return 0;
  }
  void end(uint64_t) override {}
  void add(StringView, int64_t, uint64_t, uint64_t) override {}
  int count = 0;
};

class Buffers : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(null_backend_live_handles(), 0u);
    EXPECT_EQ(null_backend_live_buffers(), 0u);
  }

  bool load(Loaded &loaded) {
    loaded.config.tracer = &copies_;
    loaded.config.devices = device_memory();
    return loaded.load_method();
  }
  bool run(Loaded &loaded, std::vector<float> &x, std::vector<float> &y, const std::vector<int64_t> &shape) {
    copies_.count = 0;
    maps_ = null_backend_maps();
    const bool ran = loaded.set_floats(0, shape, x) && loaded.set_floats_output(0, y) && loaded.execute();
    maps_ = null_backend_maps() - maps_;
    return ran;
  }

  Copies copies_;
  uint64_t maps_ = 0;
};

NullBlob padded(uint32_t alignment = 4) {
  NullBlob blob;
  blob.alignment = alignment;
  blob.tail_padding = 128;
  return blob;
}

TEST_F(Buffers, AnInputThatEndsWithItsPageIsCopied) {
  PteBuilder pte;
  const int32_t x = pte.add_tensor({4}), y = pte.add_tensor({4});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(padded())), {x, y});
  pte.inputs = {x};
  pte.outputs = {y};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  const BeforeGuard guarded(16);
  const float values[4] = {1, 2, 3, 4};
  memcpy(guarded.data(), values, sizeof(values));
  const int64_t shape[] = {4};
  TensorArgument tensor;
  tensor.data = guarded.data();
  tensor.scalar_type = 6;
  tensor.shape = shape;
  ASSERT_TRUE(loaded.method->set_input(0, tensor, loaded.error).ok());
  alignas(64) float out[64];
  ASSERT_TRUE(loaded.method->set_output(0, out, sizeof(out), loaded.error).ok());
  copies_.count = 0;
  ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
  EXPECT_EQ(loaded.output(0), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(copies_.count, 1);  // not the output: its memory is long enough
  tensor.readable_bytes = 15;
  EXPECT_FALSE(loaded.method->set_input(0, tensor, loaded.error).ok());
}

TEST_F(Buffers, AConstantThatEndsTheFileIsCopied) {
  PteBuilder pte;
  const int32_t weights = pte.add_constant({4}, {1, 2, 3, 4}), y = pte.add_tensor({4});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(padded())), {weights, y});
  pte.outputs = {y};
  const std::vector<uint8_t> file = pte.finish();
  const size_t size = file.size();
  ASSERT_EQ(size % 16, 0u);
  const BeforeGuard guarded(size);
  memcpy(guarded.data(), file.data(), size);
  Loaded loaded(guarded.data(), size);
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  std::vector<float> out(64);
  ASSERT_TRUE(loaded.set_floats_output(0, out));
  copies_.count = 0;
  ASSERT_TRUE(loaded.execute()) << text_of(loaded.error);
  EXPECT_EQ(loaded.output(0), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(copies_.count, 1);
}

TEST_F(Buffers, OnlyStateIsCopiedInWhereADelegateWrites) {
  // The output is a tensor of the arena at an address that the delegate does not take; it writes one element of it.
  for (const bool is_state : {false, true}) {
    NullBlob blob;
    blob.alignment = 128;
    blob.flags = kNullKeepsRest;
    PteBuilder pte;
    pte.arenas = {256};
    const int32_t x = pte.add_planned({2}, {1, 0});
    const int32_t y = is_state ? pte.add_state({2}, {1, 144}, {7, 8}) : pte.add_planned({2}, {1, 144});
    const int32_t z = pte.add_tensor({2}), one = pte.add_int(1);
    pte.delegate(pte.add_delegate("NullBackend", bytes_of(blob)), {x, y});
    pte.kernel(pte.add_operator("test::scale", "out"), {y, one, z, z});
    pte.inputs = {x};
    pte.outputs = {z};
    Loaded loaded(pte.finish());
    ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
    std::vector<float> in = {1, 2}, out(2);
    ASSERT_TRUE(run(loaded, in, out, {2})) << text_of(loaded.error);
    EXPECT_EQ(out[0], 2);
    if (is_state) EXPECT_EQ(out[1], 8);
    EXPECT_GE(copies_.count, is_state ? 2 : 1);
  }
}

TEST_F(Buffers, ATensorThatIsInputAndOutputIsCopiedBothWays) {
  for (const uint32_t kind : {0u, null_device::kMemoryKind}) {
    NullBlob blob;
    blob.alignment = 128;
    blob.memory_kind = kind;
    PteBuilder pte;
    pte.arenas = {256};
    const int32_t x = pte.add_tensor({2}), a = pte.add_planned({2}, {1, 144}), z = pte.add_tensor({2});
    const int32_t one = pte.add_int(1);
    const int32_t scale = pte.add_operator("test::scale", "out");
    pte.kernel(scale, {x, one, a, a});
    pte.delegate(pte.add_delegate("NullBackend", bytes_of(blob)), {a, a});
    pte.kernel(scale, {a, one, z, z});
    pte.inputs = {x};
    pte.outputs = {z};
    Loaded loaded(pte.finish());
    ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
    std::vector<float> in = {1, 2}, out(2);
    ASSERT_TRUE(run(loaded, in, out, {2})) << text_of(loaded.error);
    EXPECT_EQ(out, (std::vector<float>{2, 4}));
    EXPECT_EQ(copies_.count, 2);
  }
}

NullBlob on_device(uint32_t flags = 0) {
  NullBlob blob;
  blob.alignment = 64;
  blob.tail_padding = 128;
  blob.memory_kind = null_device::kMemoryKind;
  blob.flags = flags;
  return blob;
}

// z = 2 * (2 * x) by two delegates; `kernel` reads what lies between them, too.
std::vector<uint8_t> chain(bool kernel, bool dynamic = false, NullBlob second = on_device()) {
  PteBuilder pte;
  pte.arenas = {256};
  TensorOptions options;
  if (dynamic) options.dynamism = fb::TensorShapeDynamism::DYNAMIC_BOUND;
  const int32_t x = pte.add_tensor({4}, options), y = pte.add_planned({4}, {1, 0}, options);
  const int32_t z = pte.add_tensor({4}, options), w = pte.add_planned({4}, {1, 64}, options), one = pte.add_int(1);
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {x, y});
  if (kernel) pte.kernel(pte.add_operator("test::scale", "out"), {y, one, w, w});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(second)), {y, z});
  pte.inputs = {x};
  pte.outputs = {z};
  return pte.finish();
}

TEST_F(Buffers, ATensorBetweenTwoPartitionsStaysOnTheDevice) {
  Loaded loaded(chain(false));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  EXPECT_EQ(null_backend_live_buffers(), 1u);
  std::vector<float> x = {1, 2, 3, 4}, z(4);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(run(loaded, x, z, {4})) << text_of(loaded.error);
    EXPECT_EQ(z, (std::vector<float>{4, 8, 12, 16}));
    EXPECT_EQ(copies_.count, 2);  // x in, z out
    EXPECT_EQ(maps_, 2u);
  }
  EXPECT_EQ(null_backend_live_buffers(), 3u);
}

TEST_F(Buffers, ATensorThatTheHostReadsIsCopied) {
  Loaded loaded(chain(true));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  std::vector<float> x = {1, 2, 3, 4}, z(4);
  ASSERT_TRUE(run(loaded, x, z, {4})) << text_of(loaded.error);
  EXPECT_EQ(z, (std::vector<float>{4, 8, 12, 16}));
  EXPECT_EQ(copies_.count, 4);
  Loaded mixed(chain(false, false, padded()));  // the second computes in host memory
  ASSERT_TRUE(load(mixed)) << text_of(mixed.error);
  ASSERT_TRUE(run(mixed, x, z, {4})) << text_of(mixed.error);
  EXPECT_EQ(z, (std::vector<float>{4, 8, 12, 16}));
}

// Exporters place a view at the address of its base: then a kernel reads the tensor without naming it.
TEST_F(Buffers, ATensorWithAnotherNameInTheArenaStaysThere) {
  PteBuilder pte;
  pte.arenas = {256};
  const int32_t x = pte.add_tensor({4}), y = pte.add_planned({4}, {1, 0}), view = pte.add_planned({2, 2}, {1, 0});
  const int32_t z = pte.add_tensor({4}), w = pte.add_tensor({2, 2}), three = pte.add_int(3);
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {x, y});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {y, z});
  pte.kernel(pte.add_operator("test::scale", "out"), {view, three, w, w});
  pte.inputs = {x};
  pte.outputs = {z, w};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  std::vector<float> in = {1, 2, 3, 4}, out(4), scaled(4);
  ASSERT_TRUE(loaded.set_floats_output(1, scaled));
  ASSERT_TRUE(run(loaded, in, out, {4})) << text_of(loaded.error);
  EXPECT_EQ(out, (std::vector<float>{4, 8, 12, 16}));
  EXPECT_EQ(scaled, (std::vector<float>{6, 12, 18, 24}));
}

TEST_F(Buffers, ShapesChangeOnTheDeviceToo) {
  Loaded loaded(chain(false, true));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  std::vector<float> x = {1, 2, 3, 4}, z(4);
  for (const int64_t size : {2, 0, 4}) {
    z.assign(4, 0);
    ASSERT_TRUE(run(loaded, x, z, {size})) << text_of(loaded.error);
    EXPECT_EQ(loaded.shape(0), (std::vector<int64_t>{size}));
    for (int64_t i = 0; i < size; ++i) EXPECT_EQ(z[static_cast<size_t>(i)], 4 * x[static_cast<size_t>(i)]);
  }
}

TEST_F(Buffers, ArgumentsOnTheDeviceStayWhileWorkIsPending) {
  class Ready final : public Completion {
    void ready() override {}
  } ready;
  Loaded loaded(chain(false, false, on_device(kNullPending)));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  std::vector<float> x = {1, 2, 3, 4}, z(4);
  ASSERT_TRUE(loaded.set_floats(0, {4}, x) && loaded.set_floats_output(0, z));
  ASSERT_EQ(loaded.method->start(ready, loaded.error).code(), EDGECORE_PENDING);
  EXPECT_EQ(null_backend_drain(), 1u);
  ASSERT_TRUE(loaded.method->resume(loaded.error).ok()) << text_of(loaded.error);
  EXPECT_EQ(z, (std::vector<float>{4, 8, 12, 16}));
}

TEST_F(Buffers, WhatAHostOrABackendLacksIsSaid) {
  Loaded without(chain(false));
  EXPECT_FALSE(without.load_method());
  EXPECT_SENTENCE(without, "memory kind 7; this runtime gives only host memory");
  NullBlob odd = on_device();
  odd.memory_kind = 8;
  Loaded kind(chain(false, false, odd));
  ASSERT_TRUE(load(kind)) << text_of(kind.error);
  std::vector<float> x(4), z(4);
  EXPECT_FALSE(run(kind, x, z, {4}));
  EXPECT_SENTENCE(kind, "in memory of kind 8: the device has memory of kind 7 only.");
  Loaded old(chain(false));
  edgecore_backend table = *old.session.backend().table;
  table.header.struct_size = offsetof(edgecore_backend, buffer_create);
  LoadedBackend backend = old.session.backend();
  backend.table = &table;
  old.config.backends = {&backend, 1};
  EXPECT_FALSE(load(old));
  EXPECT_SENTENCE(old, "backend 'NullBackend' wants arguments in memory of its device, but lacks functions");
}

TEST_F(Buffers, CanBeSharedByAHandle) {
  const NullSession session;
  const edgecore_backend &table = *session.backend().table;
  edgecore_driver *driver = session.backend().driver;
  edgecore_buffer *first = nullptr, *second = nullptr;
  Error error;
  ASSERT_EQ(table.buffer_create(driver, 64, 16, null_device::kMemoryKind, &first, &error), EDGECORE_OK);
  uint64_t handle = 0;
  EXPECT_EQ(table.buffer_export(first, EDGECORE_HANDLE_DMA_BUF, &handle, &error), EDGECORE_NOT_SUPPORTED);
  ASSERT_EQ(table.buffer_export(first, EDGECORE_HANDLE_ADDRESS, &handle, &error), EDGECORE_OK);
  ASSERT_EQ(table.buffer_import(driver, EDGECORE_HANDLE_ADDRESS, handle, 64, null_device::kMemoryKind, &second, &error),
            EDGECORE_OK);
  EXPECT_EQ(first->memory, second->memory);
  table.buffer_destroy(second);
  table.buffer_destroy(first);
}

}  // namespace
}  // namespace edgecore
