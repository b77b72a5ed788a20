#include "edgecore/tensor.h"

#include <gtest/gtest.h>

#include <limits>

#include "edgecore/make_tensor.h"
#include "error_text.h"

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

std::string problem(const Tensor &tensor) {
  Error error;
  return tensor.check(error).ok() ? "" : text_of(error);
}

const Tensor kSix = Tensor::of<float>({2, 3}, {0, 1, 2, 3, 4, 5});

TEST(Tensor, ViewsShareTheMemory) {
  const Tensor six = kSix.clone();
  const Tensor turned = six.permute({1, 0});
  EXPECT_EQ(turned.shape(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(*turned.at<float>({2, 1}), 5.0F);
  EXPECT_EQ(six.view({3, -1}).shape(), (std::vector<int64_t>{3, 2}));
  const Tensor columns = six.slice(1, 1, 3);
  *columns.at<float>({1, 0}) = 9;
  EXPECT_EQ(*six.at<float>({1, 1}), 9.0F);
  EXPECT_EQ(*six.as_strided({2}, {2}, 1).at<float>({1}), 3.0F);
  EXPECT_EQ(columns.readable_bytes(), six.readable_bytes() - 4);
  EXPECT_EQ(six.slice(0, 2, 2).count(), 0U);
}

TEST(Tensor, SaysWhyAViewDoesNotFit) {
  EXPECT_EQ(problem(kSix.view({4})), "A tensor of shape [2, 3] cannot be viewed as [4].");
  EXPECT_EQ(problem(kSix.view({-1, -1})), "A tensor of shape [2, 3] cannot be viewed as [-1, -1].");
  EXPECT_EQ(problem(kSix.view({-1, 4})), "A tensor of shape [2, 3] cannot be viewed as [-1, 4].");
  EXPECT_EQ(problem(kSix.permute({1, 0}).view({6})),
            "view() needs a contiguous tensor; this one has shape [3, 2] and strides [1, 3]: clone() it first.");
  EXPECT_EQ(problem(kSix.permute({1, 1})), "The dims [1, 1] are not each of the 2 dims of the tensor once.");
  EXPECT_EQ(problem(kSix.slice(1, 2, 4)), "A tensor of shape [2, 3] has no slice from 2 to 4 of dim 1.");
  EXPECT_EQ(problem(kSix.as_strided({2, 3}, {3, 1}, 1)),
            "A view of shape [2, 3] with strides [3, 1] from element 1 on does not lie within the 6 elements of the "
            "memory.");
  EXPECT_TRUE(kSix.as_strided({2}, {std::numeric_limits<int64_t>::max()}).empty());
  EXPECT_EQ(problem(kSix.view({4}).slice(0, 0, 1)), "A tensor of shape [2, 3] cannot be viewed as [4].");
  EXPECT_EQ(kSix.at<float>({0, 3}), nullptr);
  EXPECT_EQ(kSix.at<float>({0}), nullptr);
  EXPECT_EQ(kSix.at<double>({0, 0}), nullptr);
}

TEST(Tensor, ClonesOwnTheirMemoryInTheOrderOfTheDimsThatIsAskedFor) {
  const Tensor columns = kSix.clone({1, 0});
  EXPECT_NE(columns.data(), kSix.data());
  EXPECT_EQ(columns.strides(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(columns.values<float>()[1], 3.0F);
  EXPECT_EQ(columns.clone().values<float>()[1], 1.0F);
  EXPECT_TRUE(kSix.clone({2, 0}).empty());
  Error error;
  const Tensor target(6, {2, 3});
  EXPECT_TRUE(target.copy_from(columns, error).ok());
  EXPECT_EQ(target.values<float>()[4], 4.0F);
  EXPECT_FALSE(target.copy_from(Tensor(6, {3, 2}), error).ok());
  EXPECT_EQ(text_of(error),
            "A tensor of type float32 and shape [3, 2] cannot be copied into one of type float32 and shape [2, 3].");
}

TEST(Tensor, ConvertsElements) {
  const Tensor numbers = Tensor::of<double>({4}, {-1.75, 300, 1e30, std::numeric_limits<double>::quiet_NaN()});
  const Tensor small = numbers.to(ScalarType::kInt8);
  EXPECT_EQ(small.values<int8_t>()[0], -1);
  EXPECT_EQ(small.values<int8_t>()[1], 127);
  EXPECT_EQ(small.values<int8_t>()[2], 127);
  EXPECT_EQ(small.values<int8_t>()[3], 0);
  EXPECT_EQ(numbers.to(ScalarType::kInt64).values<int64_t>()[2], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(numbers.to(ScalarType::kFloat16).values<Half>()[0], -1.75F);
  EXPECT_TRUE(numbers.to(ScalarType::kBool).values<bool>()[0]);
  EXPECT_EQ(kSix.permute({1, 0}).to(ScalarType::kInt32).values<int32_t>()[1], 3);
  EXPECT_EQ(problem(numbers.to(12)), "Tensors of type float64 are not converted to qint8.");
}

TEST(Tensor, RefusesMoreDimsAndLargerSizesThanStridesCanSay) {
  EXPECT_EQ(problem(Tensor(6, std::vector<int64_t>(256, 1))), "A tensor has at most 255 dims, not 256.");
  const int64_t large = int64_t{1} << 40;
  EXPECT_EQ(problem(Tensor(6, {0, large, large})), "A tensor of shape [0, 1099511627776, 1099511627776] is too large.");
  EXPECT_TRUE(Tensor(6, {0, 3}).view({0, large, large}).empty());
}

TEST(Tensor, DoesNotWriteToReadOnlyMemory) {
  const float constant[2] = {1, 2};
  const Tensor tensor = for_blob(constant, {2}).make();
  Error error;
  EXPECT_FALSE(tensor.slice(0, 0, 1).copy_from(Tensor::of<float>({1}, {5}), error).ok());
  EXPECT_EQ(text_of(error), "The tensor is read-only.");
  EXPECT_EQ(constant[0], 1.0F);
}

TEST(Tensor, ResizesWithinItsMemory) {
  Tensor tensor = kSix.clone();
  const Tensor copy = tensor;
  Error error;
  EXPECT_TRUE(tensor.resize({2, 2}, error).ok());
  EXPECT_EQ(tensor.count(), 4U);
  EXPECT_EQ(copy.count(), 6U);
  EXPECT_TRUE(tensor.resize({6, 1}, error).ok());
  EXPECT_EQ(tensor.strides(), (std::vector<int64_t>{1, 1}));
  EXPECT_FALSE(tensor.resize({7, 1}, error).ok());
  EXPECT_EQ(text_of(error), "A tensor of shape [7, 1] needs 28 bytes; the memory has 24.");
  EXPECT_FALSE(tensor.resize({6}, error).ok());
  EXPECT_EQ(text_of(error), "A tensor of shape [6, 1] cannot be resized to [6].");
  Tensor gaps = kSix.slice(1, 0, 2);
  EXPECT_FALSE(gaps.resize({1, 2}, error).ok());
  EXPECT_EQ(text_of(error), "A tensor of shape [2, 2], whose memory has gaps, cannot be resized to [1, 2].");
}

}  // namespace
}  // namespace edgecore
