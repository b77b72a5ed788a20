#include "host/heap.h"

#include <gtest/gtest.h>

#include <cstring>

namespace edgecore {
namespace {

void check_pieces(Allocator &allocator) {
  uint8_t *previous = nullptr;
  size_t previous_size = 0;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{5000}, size_t{9000}, size_t{200000}}) {
    for (const size_t alignment : {size_t{1}, size_t{16}, size_t{64}, size_t{4096}}) {
      auto *data = static_cast<uint8_t *>(allocator.allocate(size, alignment));
      ASSERT_NE(data, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignment, 0u);
      std::memset(data, 1, size);
      for (size_t i = 0; i < previous_size; ++i) ASSERT_EQ(previous[i], 1);  // the new piece does not overlap it
      std::memset(data, 1, size);
      previous = data;
      previous_size = size;
    }
  }
}

TEST(HeapAllocator, GivesAlignedPieces) {
  HeapAllocator allocator;
  check_pieces(allocator);
}

TEST(HeapAllocator, SaysWhenThereIsNoMemory) {
  HeapAllocator allocator;
  EXPECT_EQ(allocator.allocate(SIZE_MAX / 2, 64), nullptr);
}

TEST(HeapScratch, GivesAlignedPiecesBeforeAndAfterItHasGrown) {
  HeapScratch scratch;
  for (int run = 0; run < 3; ++run) {
    check_pieces(scratch);
    scratch.reset();
  }
  EXPECT_EQ(scratch.allocate(SIZE_MAX / 2, 64), nullptr);
}

}  // namespace
}  // namespace edgecore
