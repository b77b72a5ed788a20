// Tests the conversions of constants to the dtypes of the device.
#include "constants.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "recording.h"
#include "test_support.h"

namespace edgecore::vulkan {
namespace {

using test::Bytes;
using test::view;

template <typename Number>
Bytes bytes_of(const std::vector<Number> &numbers) {
  const auto *first = reinterpret_cast<const uint8_t *>(numbers.data());
  return {first, first + numbers.size() * sizeof(Number)};
}

Value tensor(DataType type, size_t elements) {
  Value value;
  value.kind = Kind::kTensor;
  value.type = type;
  value.shape = {static_cast<int64_t>(elements)};
  return value;
}

std::vector<float> from_half(const std::vector<uint16_t> &halves) {
  const Bytes bytes = bytes_of(halves);
  return floats_of(tensor(DataType::kFloat16, halves.size()), view(bytes));
}

std::vector<uint16_t> to_half(const std::vector<float> &numbers) {
  std::vector<uint16_t> halves(numbers.size());
  store(numbers, Dtype::kFloat16, reinterpret_cast<uint8_t *>(halves.data()));
  return halves;
}

TEST(Constants, EveryHalfHasItsValueAndReturns) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  const std::vector<float> numbers = from_half(halves);
  const std::vector<uint16_t> again = to_half(numbers);
  for (size_t i = 0; i < halves.size(); ++i) {
    const int exponent = i >> 10 & 31, mantissa = i & 1023;
    const float sign = (i & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(numbers[i])) << i;
      EXPECT_TRUE((again[i] & 0x7c00) == 0x7c00 && (again[i] & 1023) != 0) << i;
      continue;
    }
    const float expected = exponent == 31  ? INFINITY
                           : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                           : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    EXPECT_EQ(numbers[i], sign * expected) << i;
    EXPECT_EQ(std::signbit(numbers[i]), sign < 0) << i;
    EXPECT_EQ(again[i], halves[i]);
  }
}

TEST(Constants, FloatsAreReadInPlaceWhereTheyLieAsFloats) {
  const Bytes bytes = bytes_of(std::vector<float>{1, 2, 3});
  EXPECT_EQ(static_cast<const void *>(floats_in(tensor(DataType::kFloat32, 3), view(bytes))), bytes.data());
  EXPECT_EQ(floats_in(tensor(DataType::kFloat32, 2), {bytes.data() + 1, 8}), nullptr);
  EXPECT_EQ(floats_in(tensor(DataType::kFloat16, 6), view(bytes)), nullptr);
  EXPECT_EQ(floats_in(tensor(DataType::kFloat64, 1), view(bytes)), nullptr);
}

TEST(Constants, FloatsAreRoundedToTheNearestHalf) {
  std::mt19937 random(1);
  std::vector<float> numbers = {65519.996f, 65520.0f, 1e30f, 2e-8f, 2.9802322e-8f, 2.9802326e-8f, 6.1e-5f, 0.0f};
  for (int i = 0; i < 20000; ++i) {
    numbers.push_back(std::ldexp(static_cast<float>(random() % (1 << 24)), static_cast<int>(random() % 45) - 50));
    // A tie between two halves; the even one is the result.
    numbers.push_back(
        std::ldexp(static_cast<float>(2049 + 2 * (random() % 1024)), static_cast<int>(random() % 30) - 25));
  }
  const std::vector<uint16_t> halves = to_half(numbers);
  constexpr double kOverflow = 65536;  // the next number after the largest half, 65504, without an exponent limit
  const auto value = [&](int half) {
    return half >= 0x7c00 ? kOverflow : double{from_half({static_cast<uint16_t>(half)})[0]};
  };
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= kOverflow) {
      EXPECT_EQ(halves[i], 0x7c00) << numbers[i];
      continue;
    }
    const double error = std::abs(value(halves[i]) - numbers[i]);
    for (const int neighbour : {halves[i] - 1, halves[i] + 1}) {
      if (neighbour < 0 || neighbour > 0x7c00) continue;
      const double other = std::abs(value(neighbour) - numbers[i]);
      EXPECT_TRUE(error < other || (error == other && halves[i] % 2 == 0)) << numbers[i] << ": " << halves[i];
    }
  }
  EXPECT_EQ(to_half({-1.0f, -0.0f}), (std::vector<uint16_t>{0xbc00, 0x8000}));
}

TEST(Constants, IntegersKeepTheirValuesOrSaturate) {
  const auto read = [](DataType type, const Bytes &bytes) {
    const size_t elements = bytes.size() / size_of(type);
    std::vector<int32_t> numbers(elements);
    store_integers(tensor(type, elements), view(bytes), reinterpret_cast<uint8_t *>(numbers.data()));
    return numbers;
  };
  EXPECT_EQ(read(DataType::kBool, {0, 1, 2, 255}), (std::vector<int32_t>{0, 1, 1, 1}));
  EXPECT_EQ(read(DataType::kUint8, {0, 127, 128, 255}), (std::vector<int32_t>{0, 127, 128, 255}));
  EXPECT_EQ(read(DataType::kInt8, {0, 127, 128, 255}), (std::vector<int32_t>{0, 127, -128, -1}));
  EXPECT_EQ(read(DataType::kInt32, bytes_of<int32_t>({INT32_MIN, 7})), (std::vector<int32_t>{INT32_MIN, 7}));
  EXPECT_EQ(read(DataType::kInt64, bytes_of<int64_t>({INT64_MIN, -7, INT64_MAX})),
            (std::vector<int32_t>{INT32_MIN, -7, INT32_MAX}));
}

TEST(Constants, DoublesBecomeFloats) {
  const Bytes bytes = bytes_of<double>({0.1, -1e300});
  EXPECT_EQ(floats_of(tensor(DataType::kFloat64, 2), view(bytes)), (std::vector<float>{0.1f, -INFINITY}));
}

// Shaders use whole vectors of four elements, and hosts reserve kMaxPadding bytes after an argument.
TEST(Constants, MemoryHoldsWholeVectorsWithinThePadding) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto elements = static_cast<int64_t>(i < 10000 ? i : random() % (int64_t{1} << 31));
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat16, Dtype::kInt32, Dtype::kInt8}) {
      const uint64_t bytes = storage_bytes(dtype, elements), used = static_cast<uint64_t>(elements) * size_of(dtype);
      ASSERT_GE(bytes, std::max<uint64_t>(used, 16)) << elements;
      ASSERT_LE(bytes, used + kMaxPadding) << elements;
      ASSERT_EQ(bytes % 16, 0u) << elements;
    }
  }
}

}  // namespace
}  // namespace edgecore::vulkan
