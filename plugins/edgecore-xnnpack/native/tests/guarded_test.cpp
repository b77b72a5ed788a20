// Tests the memory between guard pages in which the kernel tests run.
#include "trial/guarded.h"

#include <gtest/gtest.h>

namespace edgecore::xnnpack::trial {
namespace {

constexpr size_t kPadding = 16;

void read(const uint8_t *address) { (void)*static_cast<const volatile uint8_t *>(address); }
void write(uint8_t *address) { *static_cast<volatile uint8_t *>(address) = 0; }

TEST(GuardedDeathTest, AByteAfterThePaddingFaults) {
  for (const size_t bytes : {1, 4, 63, 4096, 10000}) {
    GuardedMemory memory;
    uint8_t *data = memory.allocate(bytes, kPadding, 1, false);
    read(data + bytes + kPadding - 1);
    EXPECT_DEATH(read(data + bytes + kPadding), "");
    EXPECT_DEATH(write(data + bytes + kPadding), "");
  }
}

TEST(GuardedDeathTest, AByteBeforeTheStartFaults) {
  GuardedMemory memory;
  uint8_t *data = memory.allocate(100, kPadding, 4, true);
  read(data);
  EXPECT_DEATH(read(data - 1), "");
}

TEST(Guarded, TheEndIsAsNearAsTheAlignmentAllows) {
  GuardedMemory memory;
  const uint8_t *data = memory.allocate(100, 0, 64, false);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  EXPECT_LT((reinterpret_cast<uintptr_t>(data) + 100 + 63) % 4096, 64u);
}

TEST(Guarded, PaddingIsNotANumber) {
  GuardedMemory memory;
  const uint8_t *data = memory.allocate(8, kPadding, 4, false);
  for (size_t i = 0; i < 8 + kPadding; ++i) EXPECT_EQ(data[i], 0xFF);
}

}  // namespace
}  // namespace edgecore::xnnpack::trial
