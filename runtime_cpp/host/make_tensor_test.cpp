#include "edgecore/make_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "error_text.h"

namespace edgecore {
namespace {

std::string problem(const Tensor &tensor) {
  Error error;
  return tensor.check(error).ok() ? "" : text_of(error);
}

TEST(ForBlob, BorrowsTheMemoryAndCallsTheDeleterOnce) {
  int freed = 0;
  {
    float data[] = {1, 2, 3, 4, 5, 6};
    Tensor view;
    {
      const Tensor tensor = from_blob(data, {2, 3}, [&](void *) { ++freed; });
      EXPECT_EQ(tensor.data(), data);
      EXPECT_EQ(tensor.readable_bytes(), sizeof data);
      view = tensor.slice(0, 1, 2);
    }
    EXPECT_EQ(freed, 0);
    EXPECT_EQ(*view.at<float>({0, 2}), 6.0F);
  }
  EXPECT_EQ(freed, 1);
  {
    float data[2] = {};
    TensorBuilder builder = for_blob(data, {2}).deleter([&](void *) { ++freed; });
    const Tensor first = builder.make(), second = builder.make();
    EXPECT_EQ(first.data(), second.data());
  }
  EXPECT_EQ(freed, 2);
  EXPECT_TRUE(from_blob(&freed, {-1}, [&](void *) { freed = 7; }).empty());
  EXPECT_EQ(freed, 7);
}

TEST(ForBlob, CopiesOfABuilderShareTheDeleter) {
  int freed = 0;
  float data[2] = {};
  {
    const TensorBuilder unused = for_blob(data, {2}).deleter([&](void *) { ++freed; });
  }
  EXPECT_EQ(freed, 1);  // the memory is freed even if no tensor was made
  {
    TensorBuilder first = for_blob(data, {2}).deleter([&](void *) { ++freed; });
    TensorBuilder second = first;
    const Tensor one = first.make(), two = second.make();
    EXPECT_EQ(one.data(), two.data());
  }
  EXPECT_EQ(freed, 2);
}

TEST(ForBlob, TakesStridesAndDimOrders) {
  uint8_t data[24] = {};
  const Tensor pixels = for_blob(data, {1, 3, 2, 4}).dim_order({0, 2, 3, 1}).make();
  EXPECT_EQ(pixels.strides(), (std::vector<int64_t>{24, 1, 12, 3}));
  EXPECT_EQ(pixels.dim_order(), (std::vector<uint8_t>{0, 2, 3, 1}));
  EXPECT_TRUE(pixels.is_dense());
  EXPECT_FALSE(pixels.is_contiguous());
  const Tensor rows = for_blob(data, {2, 3}, ScalarType::kUInt8).strides({8, 1}).fixed_shape().read_only().make();
  EXPECT_EQ(rows.readable_bytes(), 11U);
  EXPECT_FALSE(rows.is_dense());
  EXPECT_TRUE(rows.values<uint8_t>().empty());
  EXPECT_TRUE(rows.read_only());
  EXPECT_FALSE(rows.resizable());
  const uint8_t *constant = data;
  EXPECT_TRUE(for_blob(constant, {24}).make().read_only());
  EXPECT_EQ(for_blob(data, {4}).readable_bytes(24).make().readable_bytes(), 24U);
}

TEST(ForBlob, SaysWhyADescriptionDoesNotFit) {
  alignas(8) uint8_t data[24] = {};
  EXPECT_EQ(problem(from_blob(data, {2, -1})), "The shape [2, -1] has a size below 0.");
  EXPECT_EQ(problem(from_blob(data, {2}, 99)), "There is no scalar type 99.");
  EXPECT_EQ(problem(for_blob(data, {2, 3}).strides({1}).make()), "The strides [1] do not fit the shape [2, 3].");
  EXPECT_EQ(problem(for_blob(data, {2, 3}).strides({-3, 1}).make()),
            "The strides [-3, 1] are negative or too large for the shape [2, 3].");
  EXPECT_EQ(problem(for_blob(data, {2, 3}).dim_order({0, 0}).make()),
            "The dims [0, 0] are not each of the 2 dims of the tensor once.");
  EXPECT_EQ(problem(for_blob(data, {2, 3}).dim_order({1, 0}).strides({3, 1}).make()),
            "The strides [3, 1] contradict the dim order; the strides of the dim order are [1, 2].");
  EXPECT_EQ(problem(from_blob(nullptr, {3}, ScalarType::kFloat32)), "The memory of a tensor of 12 bytes is NULL.");
  EXPECT_EQ(problem(from_blob(data + 1, {2}, ScalarType::kFloat32)),
            "The memory of a tensor of type float32 is not at a multiple of 4 bytes.");
  EXPECT_EQ(problem(Tensor()), "The tensor is empty.");
}

TEST(MakeTensor, TakesOverAVectorWithoutACopy) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const float *data = values.data();
  const Tensor tensor = make_tensor({2, 3}, std::move(values));
  EXPECT_EQ(tensor.data(), data);
  EXPECT_EQ(*tensor.at<float>({1, 0}), 4.0F);
}

TEST(MakeTensor, DeducesTheTypeAndConvertsIt) {
  EXPECT_EQ(make_tensor({1.5, 2.5}).scalar_type(), ScalarType::kFloat64);
  EXPECT_EQ(make_tensor({2, 1}, {true, false}).scalar_type(), ScalarType::kBool);
  EXPECT_EQ(make_tensor(std::vector<int64_t>{1, 2, 3}).shape(), std::vector<int64_t>{3});
  EXPECT_EQ(make_tensor({1, 2, 3}, ScalarType::kFloat64).values<double>()[2], 3.0);
  EXPECT_EQ(make_tensor({3, 1}, {1, 2, 3}, ScalarType::kFloat16).values<Half>()[2], 3.0F);
  EXPECT_EQ(scalar_tensor(42, ScalarType::kFloat32).values<float>()[0], 42.0F);
  EXPECT_TRUE(scalar_tensor(3.5).shape().empty());
  const Tensor raw = from_bytes({2}, {1, 0, 0, 0, 2, 0, 0, 0}, ScalarType::kInt32);
  EXPECT_EQ(raw.values<int32_t>()[1], 2);
}

TEST(MakeTensor, RefusesConversionsThatLoseAndVectorsOfAnotherSize) {
  EXPECT_EQ(problem(make_tensor({1.5F}, ScalarType::kInt32)),
            "Values of type float32 are not converted to int32 implicitly: use Tensor::to.");
  EXPECT_EQ(problem(make_tensor({1, 2}, ScalarType::kBool)),
            "Values of type int32 are not converted to bool implicitly: use Tensor::to.");
  EXPECT_EQ(problem(make_tensor({2, 3}, {1, 2, 3})), "The shape [2, 3] has 6 elements, but there are 3 values.");
  EXPECT_EQ(problem(from_bytes({2}, {1, 2, 3}, ScalarType::kInt16)),
            "The shape [2] has 2 elements, but there are 1 values.");
}

TEST(MakeTensor, FillsTensorsOfAnyTypeAndLayout) {
  EXPECT_EQ(full({2, 2}, 42).values<float>()[3], 42.0F);
  EXPECT_EQ(full({2}, int64_t{1} << 60, ScalarType::kInt64).values<int64_t>()[1], int64_t{1} << 60);
  EXPECT_EQ(ones({3}, ScalarType::kBFloat16).values<BFloat16>()[2], 1.0F);
  EXPECT_EQ(zeros({3}, ScalarType::kInt8).values<int8_t>()[2], 0);
  EXPECT_TRUE(full({2}, 2.5, ScalarType::kBool).values<bool>()[0]);
  const Tensor strided = ones_strided({2, 2}, {4, 1});
  EXPECT_EQ(*strided.at<float>({1, 1}), 1.0F);
  EXPECT_EQ(static_cast<float *>(strided.data())[2], 0.0F);  // the element in the gap
  EXPECT_EQ(full_strided({2}, {2}, 3).strides(), std::vector<int64_t>{2});
  EXPECT_EQ(zeros_strided({2}, {2}).count(), 2U);
  EXPECT_EQ(empty_strided({2, 3}, {3, 1}, ScalarType::kInt16).bytes(), 12U);
  EXPECT_TRUE(empty_strided({2, 3}, {3}).empty());
  const int64_t large = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(problem(empty_strided({3}, {large}, ScalarType::kUInt8)),
            "The strides [9223372036854775807] are negative or too large for the shape [3].");
}

TEST(MakeTensor, DoesNotFillReadOnlyMemoryNorTypesWithoutNumbers) {
  const float constant[2] = {1, 2};
  EXPECT_EQ(problem(fill(for_blob(constant, {2}).make(), 7)), "The tensor is read-only.");
  EXPECT_EQ(constant[0], 1.0F);
  EXPECT_EQ(problem(ones({2}, 9)), "Tensors of type complex64 cannot be filled with numbers.");
  EXPECT_EQ(problem(randint(0, 9, {2}, 9)), "Tensors of type complex64 cannot be filled with numbers.");
  EXPECT_EQ(problem(zeros({2}, 9)), "");
}

TEST(MakeTensor, LikeTakesOverShapeTypeAndDimOrder) {
  uint16_t data[6] = {};
  const Tensor columns = for_blob(data, {2, 3}).dim_order({1, 0}).make();
  for (const Tensor &tensor : {empty_like(columns), zeros_like(columns), ones_like(columns), full_like(columns, 7),
                               randint_like(columns, 0, 9)}) {
    EXPECT_EQ(tensor.shape(), columns.shape());
    EXPECT_EQ(tensor.strides(), columns.strides());
    EXPECT_EQ(tensor.scalar_type(), ScalarType::kUInt16);
    EXPECT_NE(tensor.data(), columns.data());
  }
  EXPECT_EQ(*full_like(columns, 7).at<uint16_t>({1, 2}), 7);
  EXPECT_EQ(problem(ones_like(Tensor())), "The tensor is empty.");
}

TEST(RandomTensors, AreInTheirRangeAndRepeatable) {
  for (const int32_t type : {int32_t{ScalarType::kFloat16}, int32_t{ScalarType::kBFloat16},
                             int32_t{ScalarType::kFloat32}, int32_t{ScalarType::kFloat64}}) {
    const Tensor numbers = rand({4096}, type).to(ScalarType::kFloat64);
    double sum = 0;
    for (const double value : numbers.values<double>()) {
      EXPECT_TRUE(value >= 0 && value < 1) << value;
      sum += value;
    }
    EXPECT_NEAR(sum / 4096, 0.5, 0.03);
  }
  seed_random(1);
  double sum = 0, squares = 0;
  const Tensor normal = randn({10000}), integers = randint(-5, 5, {1000});
  for (const float value : normal.values<float>()) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(sum / 10000, 0, 0.05);
  EXPECT_NEAR(squares / 10000, 1, 0.05);
  bool seen[10] = {};
  for (const int64_t value : integers.values<int64_t>()) {
    ASSERT_TRUE(value >= -5 && value < 5);
    seen[value + 5] = true;
  }
  for (const bool value : seen) EXPECT_TRUE(value);
  seed_random(3);
  const float first = rand({1}).values<float>()[0];
  seed_random(3);
  EXPECT_EQ(rand({1}).values<float>()[0], first);
}

TEST(RandomTensors, RefuseTypesAndRangesThatHaveNoNumbers) {
  EXPECT_EQ(problem(rand({2}, ScalarType::kInt32)), "rand needs a type of floats, not int32.");
  EXPECT_EQ(problem(randn_like(zeros({2}, ScalarType::kBool))), "randn needs a type of floats, not bool.");
  EXPECT_EQ(problem(randint(3, 3, {2})), "randint needs a range; got 3 to 3.");
}

TEST(Half, RoundsToTheNearestEvenValue) {
  EXPECT_EQ(Half(1.0F).bits, 0x3c00);
  EXPECT_EQ(Half(-2.0F).bits, 0xc000);
  EXPECT_EQ(Half(65504.0F).bits, 0x7bff);
  EXPECT_EQ(Half(65519.0F).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0F).bits, 0x7c00);
  EXPECT_EQ(Half(1e10F).bits, 0x7c00);
  EXPECT_EQ(Half(1.0F + 0x1p-11F).bits, 0x3c00);      // a tie rounds to even
  EXPECT_EQ(Half(1.0F + 3 * 0x1p-11F).bits, 0x3c02);  // a tie rounds to even
  EXPECT_EQ(Half(0x1p-24F).bits, 1);                  // the minimum
  EXPECT_EQ(Half(0x1p-25F).bits, 0);                  // a tie rounds to even
  EXPECT_EQ(Half(0x1.8p-24F).bits, 2);
  EXPECT_EQ(Half(-0.0F).bits, 0x8000);
  EXPECT_EQ(Half(std::numeric_limits<float>::infinity()).bits, 0x7c00);
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(std::nanf("")))));
}

TEST(Half, KeepsEveryValueOf16Bits) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Half half = Half::from_bits(static_cast<uint16_t>(bits));
    const BFloat16 brain = BFloat16::from_bits(static_cast<uint16_t>(bits));
    const float value = half, other = brain;
    if (!std::isnan(value)) EXPECT_EQ(Half(value).bits, bits);
    if (!std::isnan(other)) EXPECT_EQ(BFloat16(other).bits, bits);
  }
}

TEST(BFloat16, RoundsToTheNearestEvenValue) {
  EXPECT_EQ(BFloat16(1.0F + 0x1p-8F).bits, 0x3f80);
  EXPECT_EQ(BFloat16(1.0F + 3 * 0x1p-8F).bits, 0x3f82);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(float_of_bits(0x7f800001)))));
  EXPECT_EQ(BFloat16(float_of_bits(0xff800001)).bits, 0x7fc0);  // as the kernels convert NaN
}

}  // namespace
}  // namespace edgecore
