// Tests of arrays with strides.
#include "array.h"

#include <gtest/gtest.h>

namespace edgecore::coreml {
namespace {

using Sizes = std::vector<int64_t>;

TEST(Array, StridesOfRowsWithoutGaps) {
  EXPECT_EQ(row_major_strides({2, 3, 4}), (Sizes{12, 4, 1}));
  EXPECT_EQ(row_major_strides({}), Sizes{});
}

TEST(Array, PaddedRowsAreCopiedBothWays) {
  const std::vector<int32_t> padded = {1, 2, 3, 0, 4, 5, 6, 0};
  std::vector<int32_t> dense(6), back(8);
  copy_strided({2, 3}, 4, padded.data(), {4, 1}, dense.data(), {3, 1});
  EXPECT_EQ(dense, (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  copy_strided({2, 3}, 4, dense.data(), {3, 1}, back.data(), {4, 1});
  EXPECT_EQ(back, padded);
}

TEST(Array, ColumnsAndScalarsAreCopied) {
  const std::vector<uint16_t> columns = {1, 4, 2, 5, 3, 6};
  std::vector<uint16_t> rows(6), one(1);
  copy_strided({2, 3}, 2, columns.data(), {1, 2}, rows.data(), {3, 1});
  EXPECT_EQ(rows, (std::vector<uint16_t>{1, 2, 3, 4, 5, 6}));
  copy_strided({}, 2, columns.data() + 5, {}, one.data(), {});
  EXPECT_EQ(one[0], 6);
}

}  // namespace
}  // namespace edgecore::coreml
