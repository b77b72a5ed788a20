// Tests values and arguments of delegates that are in device memory.
#include "copies.h"

namespace edgecore {
namespace {

class DeviceBuffers : public BufferTest {};

NullBlob on_device(uint32_t flags = 0) {
  NullBlob blob;
  blob.alignment = 64;
  blob.tail_padding = 128;
  blob.memory_kind = null_device::kMemoryKind;
  blob.flags = flags;
  return blob;
}

// Builds the program z = 2 * (2 * x) with two delegates. With `kernel`, a kernel also reads the result of the first
// delegate.
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

TEST_F(DeviceBuffers, ATensorBetweenTwoPartitionsStaysOnTheDevice) {
  Loaded loaded(chain(false));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  EXPECT_EQ(null_backend_live_buffers(), 1u);
  std::vector<float> x = {1, 2, 3, 4}, z(4);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(run(loaded, x, z, {4})) << text_of(loaded.error);
    EXPECT_EQ(z, (std::vector<float>{4, 8, 12, 16}));
    EXPECT_EQ(copies_.count, 2);  // x is copied to the device, z back
    EXPECT_EQ(maps_, 2u);
  }
  EXPECT_EQ(null_backend_live_buffers(), 3u);
}

TEST_F(DeviceBuffers, ATensorThatTheHostReadsIsCopied) {
  Loaded loaded(chain(true));
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  std::vector<float> x = {1, 2, 3, 4}, z(4);
  ASSERT_TRUE(run(loaded, x, z, {4})) << text_of(loaded.error);
  EXPECT_EQ(z, (std::vector<float>{4, 8, 12, 16}));
  EXPECT_EQ(copies_.count, 3);                  // x to the device; back to the host: the first delegate's result and z
  Loaded mixed(chain(false, false, padded()));  // the second delegate computes in host memory
  ASSERT_TRUE(load(mixed)) << text_of(mixed.error);
  ASSERT_TRUE(run(mixed, x, z, {4})) << text_of(mixed.error);
  EXPECT_EQ(z, (std::vector<float>{4, 8, 12, 16}));
}

TEST_F(DeviceBuffers, ATensorThatTwoDelegatesReadIsCopiedOnce) {
  PteBuilder pte;
  pte.arenas = {256};
  const int32_t x = pte.add_tensor({4}), y = pte.add_planned({4}, {1, 0}), z = pte.add_tensor({4});
  const int32_t one = pte.add_int(1), scale = pte.add_operator("test::scale", "out");
  pte.kernel(scale, {x, one, y, y});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {y, z});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {y, z});
  pte.kernel(pte.add_operator("test::copy_", ""), {y, z, y});  // changes y, so the copy on the device is out of date
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {y, z});
  pte.inputs = {x};
  pte.outputs = {z};
  Loaded loaded(pte.finish());
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  std::vector<float> in = {1, 2, 3, 4}, out(4);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(run(loaded, in, out, {4})) << text_of(loaded.error);
    EXPECT_EQ(out, (std::vector<float>{4, 8, 12, 16}));
    EXPECT_EQ(copies_.count, 5);  // y to the device twice, z back three times
  }
}

// edgecore's own kernels write only their results; kernels of other packages may also write to other arguments.
TEST_F(DeviceBuffers, ATensorThatAKernelOfAPackageWritesIsCopiedAgain) {
  PteBuilder pte;
  pte.arenas = {256};
  const int32_t x = pte.add_tensor({4}), y = pte.add_planned({4}, {1, 0}), z = pte.add_tensor({4});
  const int32_t one = pte.add_int(1), w = pte.add_planned({4}, {1, 64});
  pte.kernel(pte.add_operator("test::scale", "out"), {x, one, y, y});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {y, z});
  pte.kernel(pte.add_operator("test::assign", "out"), {y, z, w, w});
  pte.delegate(pte.add_delegate("NullBackend", bytes_of(on_device())), {y, z});
  pte.inputs = {x};
  pte.outputs = {z};
  edgecore_kernel_library package = *toy_kernels();
  package.package = {"acme", 4};
  const edgecore_kernel_library *libraries[] = {&package};
  Loaded loaded(pte.finish());
  loaded.config.kernels = libraries;
  ASSERT_TRUE(load(loaded)) << text_of(loaded.error);
  std::vector<float> in = {1, 2, 3, 4}, out(4);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(run(loaded, in, out, {4})) << text_of(loaded.error);
    EXPECT_EQ(out, (std::vector<float>{4, 8, 12, 16}));
    EXPECT_EQ(copies_.count, 4);  // y to the device twice, z back twice
  }
}

// A compiler may give a view a planned value of its own, at the address of the viewed tensor. A kernel can read the
// tensor through that view, so the tensor must stay in host memory.
TEST_F(DeviceBuffers, ATensorWithAnAliasInItsArenaStaysThere) {
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

TEST_F(DeviceBuffers, ShapesChangeOnTheDeviceToo) {
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

TEST_F(DeviceBuffers, ArgumentsOnTheDeviceStayWhileWorkIsPending) {
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

TEST_F(DeviceBuffers, AnErrorNamesWhatTheHostOrTheBackendLacks) {
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
  EXPECT_SENTENCE(old, "backend 'NullBackend' needs arguments in its memory, but has no functions");
}

TEST_F(DeviceBuffers, CanBeSharedByAHandle) {
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
