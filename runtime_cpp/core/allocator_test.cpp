#include "edgecore/allocator.h"

#include <gtest/gtest.h>

namespace edgecore {
namespace {

TEST(BufferAllocator, AlignsCountsAndEnds) {
  alignas(64) uint8_t memory[256];
  BufferAllocator allocator{MutableBytes(memory)};
  EXPECT_EQ(allocator.allocate(3, 1), memory);
  EXPECT_EQ(allocator.allocate(8, 64), memory + 64);
  EXPECT_EQ(allocator.used(), 72u);
  EXPECT_EQ(allocator.allocate(185, 1), nullptr);
  EXPECT_NE(allocator.allocate(184, 1), nullptr);
  EXPECT_EQ(allocator.allocate(1, 1), nullptr);
  EXPECT_EQ(allocator.allocate(SIZE_MAX, 64), nullptr);
  allocator.reset();
  EXPECT_EQ(allocator.allocate(256, 1), memory);
  EXPECT_EQ(allocator.peak(), 256u);
}

}  // namespace
}  // namespace edgecore
