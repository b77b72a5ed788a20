// Tests the copies of delegate arguments whose memory does not meet the backend's buffer requirement.
#include <sys/mman.h>
#include <unistd.h>

#include "copies.h"

namespace edgecore {
namespace {

// Memory that ends where a page ends. The next page is not readable, so reading past the end crashes.
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

class Staging : public BufferTest {};

TEST_F(Staging, AnInputThatEndsWithItsPageIsCopied) {
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
  EXPECT_EQ(copies_.count, 1);  // only the input is copied: the output's memory has enough readable bytes
  tensor.readable_bytes = 15;
  EXPECT_FALSE(loaded.method->set_input(0, tensor, loaded.error).ok());
}

TEST_F(Staging, AConstantThatEndsTheFileIsCopied) {
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

TEST_F(Staging, OnlyStateIsCopiedInWhereADelegateWrites) {
  // The output is a planned tensor whose address is not aligned as the delegate requires. The delegate writes only the
  // first element of the output.
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
    if (is_state) {
      EXPECT_EQ(out[1], 8);
    }
    EXPECT_GE(copies_.count, is_state ? 2 : 1);
  }
}

TEST_F(Staging, ATensorThatIsInputAndOutputIsCopiedBothWays) {
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

}  // namespace
}  // namespace edgecore
