// Tests the arithmetic of quantized values at its limits.
#include "kernels/lib/fixed_point.h"

#include <gtest/gtest.h>

#include "kernels/lib/integer_vector.h"

namespace edgecore {
namespace {

constexpr int32_t kOne = 1 << 30;  // the minimum multiplier: half of 2^31

TEST(FixedPoint, ProductsRoundHalfUp) {
  EXPECT_EQ(multiply_high(1, kOne), 1);    // 0.5
  EXPECT_EQ(multiply_high(-1, kOne), 0);   // -0.5
  EXPECT_EQ(multiply_high(-3, kOne), -1);  // -1.5
  EXPECT_EQ(multiply_high(INT32_MAX, INT32_MAX), INT32_MAX - 1);
  EXPECT_EQ(multiply_high(INT32_MIN, INT32_MAX), INT32_MIN + 1);
}

TEST(FixedPoint, ShiftsToTheLeftSaturate) {
  EXPECT_EQ(shift_left(INT32_MIN, 0), INT32_MIN);
  EXPECT_EQ(shift_left(1, 30), 1 << 30);
  EXPECT_EQ(shift_left(2, 30), INT32_MAX);
  EXPECT_EQ(shift_left(-2, 30), INT32_MIN);
  EXPECT_EQ(shift_left(-3, 30), INT32_MIN);
}

TEST(FixedPoint, ShiftsToTheRightRoundHalfUpWithoutOverflow) {
  EXPECT_EQ(shift_right(5, 1), 3);
  EXPECT_EQ(shift_right(-5, 1), -2);
  EXPECT_EQ(shift_right(INT32_MAX, 1), 1 << 30);
  EXPECT_EQ(shift_right(INT32_MAX, 31), 1);
  EXPECT_EQ(shift_right((1 << 30) - 1, 31), 0);
  EXPECT_EQ(shift_right(INT32_MIN, 31), -1);
}

TEST(FixedPoint, FactorsHaveLimits) {
  EXPECT_TRUE((Factor{kOne, -31}.is_valid()));
  EXPECT_TRUE((Factor{INT32_MAX, 30}.is_valid()));
  EXPECT_FALSE((Factor{kOne - 1, 0}.is_valid()));
  EXPECT_FALSE((Factor{kOne, -32}.is_valid()));
  EXPECT_FALSE((Factor{kOne, 31}.is_valid()));
}

TEST(FixedPoint, RequantizationScalesByTheFactor) {
  EXPECT_EQ(requantize(7, {kOne, 0}), 4);    // 3.5
  EXPECT_EQ(requantize(-7, {kOne, 0}), -3);  // -3.5
  EXPECT_EQ(requantize(12345, {kOne, 1}), 12345);
  EXPECT_EQ(requantize(INT32_MIN, {kOne, 1}), -kOne);  // saturates before the product
  EXPECT_EQ(requantize(INT32_MAX, {kOne, -31}), 1);    // 0.25, rounded twice: to 2^30, then to 1
  EXPECT_EQ(requantize(1 << 20, {INT32_MAX, 30}), INT32_MAX - 1);
}

TEST(FixedPoint, ResultsStayBetweenTheLimits) {
  const Range<int8_t> range = {{-100}, -128, 127};
  EXPECT_EQ(range.clamp(INT32_MIN), -128);
  EXPECT_EQ(range.clamp(INT32_MAX), 127);
  EXPECT_EQ(range.clamp(0), -100);
}

TEST(FixedPoint, WideFactorsHaveLimits) {
  EXPECT_TRUE((WideFactor{1 << 15, 1}.is_valid()));
  EXPECT_TRUE((WideFactor{(1 << 16) - 1, 62}.is_valid()));
  EXPECT_FALSE((WideFactor{(1 << 15) - 1, 1}.is_valid()));
  EXPECT_FALSE((WideFactor{1 << 16, 1}.is_valid()));
  EXPECT_FALSE((WideFactor{1 << 15, 0}.is_valid()));
  EXPECT_FALSE((WideFactor{1 << 15, 63}.is_valid()));
}

TEST(FixedPoint, WideRequantizationRoundsHalfUpWithoutOverflow) {
  constexpr int64_t kLargest = (int64_t{1} << 46) - 1;
  EXPECT_EQ(requantize(int64_t{7}, WideFactor{1 << 15, 16}), 4);    // 3.5
  EXPECT_EQ(requantize(int64_t{-7}, WideFactor{1 << 15, 16}), -3);  // -3.5
  EXPECT_EQ(requantize(int64_t{12345}, WideFactor{1 << 15, 1}), int64_t{12345} << 14);
  EXPECT_EQ(requantize(kLargest, WideFactor{(1 << 16) - 1, 16}), kLargest - (1 << 30));  // 2^46 - 2^30 - 1 + 2^-16
  EXPECT_EQ(requantize(kLargest, WideFactor{(1 << 16) - 1, 62}), 1);
  EXPECT_EQ(requantize(-kLargest, WideFactor{(1 << 16) - 1, 62}), -1);
  EXPECT_EQ(requantize(-kLargest, WideFactor{1 << 15, 62}), 0);  // -0.5, and a bit
}

TEST(FixedPoint, Int16ResultsStayBetweenTheLimits) {
  const Range<int16_t> limits = {{}, -32768, 20000};
  EXPECT_EQ(limits.clamp(INT64_MIN), -32768);
  EXPECT_EQ(limits.clamp(-32768), -32768);
  EXPECT_EQ(limits.clamp(19999), 19999);
  EXPECT_EQ(limits.clamp(INT64_MAX), 20000);
}

TEST(FixedPoint, RowsEqualSingleValues) {
  constexpr int kCount = 67;  // not a multiple of any vector length
  int32_t sums[kCount] = {INT32_MIN / 2, -1000, -1, 0, 1, 777, INT32_MAX / 2};
  for (int i = 7; i < kCount; ++i) sums[i] = static_cast<int32_t>(static_cast<uint32_t>(i) * 2654435761u) >> i % 24;
  const Range<int8_t> range = {{3}, -90, 80};
  for (const int32_t shift : {-31, -7, -1, 0, 1, 30}) {
    int8_t row[kCount];
    requantize_row(sums, kCount, 11, {kOne + 12345, shift}, range, row);
    for (int i = 0; i < kCount; ++i) {
      EXPECT_EQ(row[i], range.clamp(requantize(sums[i] + 11, {kOne + 12345, shift}))) << shift << " " << i;
    }
  }
}

TEST(FixedPoint, WideRowsEqualSingleValues) {
  constexpr int kCount = 67;
  constexpr int64_t kLargest = (int64_t{1} << 45) - 1;
  int64_t sums[kCount + 1] = {kLargest, -kLargest, -1, 0, 1, INT32_MAX, INT32_MIN};  // read to a multiple of 4
  for (int i = 7; i < kCount; ++i) sums[i] = static_cast<int64_t>(static_cast<uint64_t>(i) << 58) >> i % 47 >> 17;
  const Range<int16_t> limits = {{}, -30000, 20000};
  for (const int64_t bias : {int64_t{-11}, kLargest, -kLargest}) {
    for (int32_t shift = 1; shift <= 62; ++shift) {
      int16_t row[kCount];
      const WideFactor factor = {54321, shift};
      requantize_row(sums, kCount, bias, factor, limits, row);
      for (int i = 0; i < kCount; ++i) {
        EXPECT_EQ(row[i], limits.clamp(requantize(sums[i] + bias, factor))) << shift << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace edgecore
