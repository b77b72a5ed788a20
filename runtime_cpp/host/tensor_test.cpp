#include "edgecore/tensor.h"

#include <gtest/gtest.h>

#include <limits>

namespace edgecore {
namespace {

TEST(Tensor, HoldsACopyOfTheValues) {
  const Tensor tensor = Tensor::of<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(tensor.scalar_type(), 6);
  EXPECT_EQ(tensor.shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensor.bytes(), 24u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
  EXPECT_EQ(tensor.values<float>()[5], 5.0f);
  EXPECT_TRUE(tensor.values<double>().empty());
}

TEST(Tensor, CopiesShareTheMemory) {
  const Tensor tensor = Tensor::of<int64_t>({1}, {7});
  const Tensor copy = tensor;
  copy.values<int64_t>()[0] = 8;
  EXPECT_EQ(tensor.values<int64_t>()[0], 8);
}

TEST(Tensor, HasOneElementIfItHasNoDims) { EXPECT_EQ(Tensor::of<double>({}, {1.5}).count(), 1u); }

TEST(Tensor, HasNoElementsIfASizeIs0) {
  const Tensor tensor(6, {0, 3});
  EXPECT_FALSE(tensor.empty());
  EXPECT_EQ(tensor.count(), 0u);
}

TEST(Tensor, IsEmptyIfTheValuesDoNotFitTheShape) {
  EXPECT_TRUE(Tensor::of<float>({2}, {1, 2, 3}).empty());
  EXPECT_TRUE(Tensor(6, {-1}).empty());
  EXPECT_TRUE(Tensor(99, {1}).empty());
  const int64_t many = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(Tensor(6, {many, many}).empty());
}

}  // namespace
}  // namespace edgecore
