#include "edgecore/compare.h"

#include <gtest/gtest.h>

#include <limits>

#include "edgecore/make_tensor.h"
#include "error_text.h"

namespace edgecore {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string problem(const Value &got, const Value &expected, Tolerance tolerance = {}) {
  Error error;
  return check_close(got, expected, tolerance, error).ok() ? "" : text_of(error);
}

TEST(CheckClose, PassesWithinTheTolerance) {
  const Tensor expected = make_tensor({2, 2}, {1.0, 100.0, 0.0, -2.0});
  const Tensor got = make_tensor({2, 2}, {1.001, 100.1, 0.001, -2.0});
  Error error;
  Difference difference;
  EXPECT_TRUE(check_close(got, expected, {1e-3, 1e-3}, error, &difference).ok()) << text_of(error);
  EXPECT_EQ(difference.count, 4U);
  EXPECT_NEAR(difference.max_absolute, 0.1, 1e-9);
  EXPECT_NEAR(difference.max_relative, 1e-3, 1e-9);
  EXPECT_EQ(problem(got, expected),
            "3 of 4 elements are wrong, max abs error 0.1, max rel error 0.001; the worst is [0, 1]: 100.1, expected "
            "100.");
}

TEST(CheckClose, ComparesElementsOfAnyLayoutByTheirIndex) {
  const Tensor rows = make_tensor({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(problem(rows.clone({1, 0}), rows), "");
  EXPECT_NE(problem(rows.view({3, 2}), rows.permute({1, 0})), "");
}

TEST(CheckClose, TreatsNanAndInfinitiesAsNumbers) {
  EXPECT_EQ(problem(make_tensor({kNan, kInfinity}), make_tensor({kNan, kInfinity})), "");
  EXPECT_NE(problem(kNan, 1.0), "");
  EXPECT_NE(problem(1.0, kNan), "");
  EXPECT_NE(problem(1.0, kInfinity, {1, 1}), "");
  EXPECT_NE(problem(-kInfinity, kInfinity, {1, 1}), "");
  EXPECT_NE(problem(kInfinity, 1.0, {kInfinity, 1}), "");
  Error error;
  Difference difference;
  EXPECT_FALSE(check_close(make_tensor({1.0}), make_tensor({kInfinity}), {1, 1}, error, &difference).ok());
  EXPECT_EQ(difference.max_relative, kInfinity);
}

TEST(CheckClose, WantsEqualIntegersAndBools) {
  EXPECT_EQ(problem(make_tensor({7}), make_tensor({8}), {1, 1}),
            "1 of 1 elements are wrong, max abs error 1, max rel error 0.125; the worst is [0]: 7, expected 8.");
  const int64_t large = int64_t{1} << 60;
  EXPECT_NE(problem(large, large + 1), "");
  EXPECT_NE(problem(true, false, {1, 1}), "");
  EXPECT_EQ(problem(std::vector<int64_t>{1, 2}, std::vector<int64_t>{1, 2}), "");
  EXPECT_EQ(problem("text", "text"), "");
}

TEST(CheckClose, AddsUpTheErrorsOfAList) {
  const std::vector<Tensor> got = {make_tensor({1.5, 2.0}), Tensor(), make_tensor({4.0})};
  const std::vector<Tensor> expected = {make_tensor({1.0, 2.0}), Tensor(), make_tensor({4.25})};
  Error error;
  Difference difference;
  EXPECT_TRUE(check_close(Value(got), Value(expected), {0, 1}, error, &difference).ok()) << text_of(error);
  EXPECT_EQ(difference.count, 3U);
  EXPECT_EQ(difference.max_absolute, 0.5);
  EXPECT_EQ(difference.max_relative, 0.5);
  EXPECT_NE(problem(std::vector<Tensor>{got[0]}, std::vector<Tensor>{Tensor()}), "");
  EXPECT_FALSE(check_close(Value(got), Value(expected), {0, 0.3}, error, &difference).ok());
  EXPECT_EQ(text_of(error),
            "Tensor 0 of the list: 1 of 2 elements are wrong, max abs error 0.5, max rel error 0.5; the worst is [0]: "
            "1.5, expected 1.");
}

TEST(CheckClose, NamesOtherKindsTypesAndShapes) {
  EXPECT_EQ(problem(1, 1.0), "The value is an int, expected is a double.");
  EXPECT_EQ(problem(ones({2}), ones({2}, ScalarType::kInt32)), "The type is float32, expected is int32.");
  EXPECT_EQ(problem(ones({2}), ones({2, 1})), "The shape is [2], expected is [2, 1].");
  EXPECT_EQ(problem(ones({2}).view({3}), ones({2})), "A tensor of shape [2] cannot be viewed as [3].");
  EXPECT_EQ(problem(std::vector<Tensor>(1), std::vector<Tensor>(2)), "The list has 1 tensors, expected are 2.");
  EXPECT_EQ(problem(Value(), Value()), "");
  EXPECT_EQ(problem(ones({0}), ones({0})), "");
}

}  // namespace
}  // namespace edgecore
