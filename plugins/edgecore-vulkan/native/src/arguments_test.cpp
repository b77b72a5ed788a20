// Tests the conversions between a caller's tensors and tensors on the device.
#include "arguments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "test_support.h"

namespace edgecore::vulkan {
namespace {

// Copies numbers to the device's dtype and back.
template <typename Host, typename OnDevice>
std::vector<Host> there_and_back(uint8_t code, const std::vector<Host> &numbers, std::vector<OnDevice> *between) {
  const edgecore_dl_dtype dtype = {code, 8 * sizeof(Host), 1};
  const auto elements = static_cast<int64_t>(numbers.size());
  between->resize(numbers.size());
  const Dtype held = std::is_same_v<OnDevice, int8_t>    ? Dtype::kInt8
                     : std::is_same_v<OnDevice, int32_t> ? Dtype::kInt32
                                                         : Dtype::kFloat32;
  to_device(dtype, held, numbers.data(), between->data(), elements);
  std::vector<Host> result(numbers.size());
  to_host(dtype, held, between->data(), result.data(), elements);
  return result;
}

TEST(Arguments, SmallIntegersAndBooleansKeepTheirValues) {
  std::vector<int32_t> between;
  const std::vector<int8_t> numbers = {-128, -1, 0, 1, 127};
  EXPECT_EQ(there_and_back(EDGECORE_DL_INT, numbers, &between), numbers);
  EXPECT_EQ(between, (std::vector<int32_t>{-128, -1, 0, 1, 127}));
  std::vector<int8_t> same;
  EXPECT_EQ(there_and_back(EDGECORE_DL_INT, numbers, &same), numbers);
  EXPECT_EQ(same, numbers);
  const std::vector<uint8_t> bytes = {0, 1, 127, 128, 255};
  EXPECT_EQ(there_and_back(EDGECORE_DL_UINT, bytes, &between), bytes);
  EXPECT_EQ(between, (std::vector<int32_t>{0, 1, 127, 128, 255}));
  EXPECT_EQ(there_and_back(EDGECORE_DL_BOOL, std::vector<uint8_t>{0, 1}, &between), (std::vector<uint8_t>{0, 1}));
  const std::vector<int32_t> wide = {INT32_MIN, -1, INT32_MAX};
  EXPECT_EQ(there_and_back(EDGECORE_DL_INT, wide, &between), wide);
}

TEST(Arguments, LargeIntegersSaturate) {
  std::vector<int32_t> between;
  EXPECT_EQ(there_and_back(EDGECORE_DL_INT, std::vector<int64_t>{INT64_MIN, -5, 0, 1, INT64_MAX}, &between),
            (std::vector<int64_t>{INT32_MIN, -5, 0, 1, INT32_MAX}));
}

TEST(Arguments, DoublesAreRoundedToFloats) {
  std::vector<float> between;
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(there_and_back(EDGECORE_DL_FLOAT, std::vector<double>{0.1, -infinity, 1e-3}, &between),
            (std::vector<double>{0.1f, -infinity, 1e-3f}));
  there_and_back(EDGECORE_DL_FLOAT, std::vector<double>{std::nan("")}, &between);
  EXPECT_TRUE(std::isnan(between[0]));
}

// Int64 and float64 are 32-bit types in the blob; bool and uint8 have the same bytes; nothing else mixes.
TEST(Arguments, OnlyDtypesOfTheSameNumbersFit) {
  const edgecore_dl_dtype f16 = {EDGECORE_DL_FLOAT, 16, 1}, f32 = {EDGECORE_DL_FLOAT, 32, 1},
                          f64 = {EDGECORE_DL_FLOAT, 64, 1}, i8 = {EDGECORE_DL_INT, 8, 1},
                          i32 = {EDGECORE_DL_INT, 32, 1}, i64 = {EDGECORE_DL_INT, 64, 1}, u8 = {EDGECORE_DL_UINT, 8, 1},
                          boolean = {EDGECORE_DL_BOOL, 8, 1}, pair = {EDGECORE_DL_FLOAT, 32, 2};
  const struct {
    DataType type;
    std::vector<edgecore_dl_dtype> fitting;
  } rows[] = {
      {DataType::kBool, {boolean, u8}}, {DataType::kUint8, {u8}},         {DataType::kInt8, {i8}},
      {DataType::kInt32, {i32, i64}},   {DataType::kInt64, {i32, i64}},   {DataType::kFloat16, {f16}},
      {DataType::kFloat32, {f32, f64}}, {DataType::kFloat64, {f32, f64}},
  };
  for (const auto &row : rows) {
    for (const edgecore_dl_dtype &given : {f16, f32, f64, i8, i32, i64, u8, boolean, pair}) {
      bool expected = false;
      for (const edgecore_dl_dtype &one : row.fitting) expected |= std::memcmp(&one, &given, sizeof(given)) == 0;
      EXPECT_EQ(fits(given, row.type), expected)
          << int{given.code} << ", " << int{given.bits} << " bits, for type " << static_cast<int>(row.type);
    }
  }
}

TEST(Arguments, OtherOrdersOfDimsAreRefused) {
  const auto layout = [](const std::vector<uint8_t> &order) {
    edgecore_tensor tensor = {};
    tensor.dl.ndim = static_cast<int32_t>(order.size());
    tensor.dim_order = order.data();
    return layout_of(tensor, 3);
  };
  EXPECT_EQ(layout({}), Layout::kRowMajor);
  EXPECT_EQ(layout({0, 1, 2, 3}), Layout::kRowMajor);
  EXPECT_EQ(layout({0, 2, 3, 1}), Layout::kChannelsLast);
  EXPECT_EQ(layout({1, 2, 0}), Layout::kChannelsLast);
  test::expect_failure(EDGECORE_NOT_SUPPORTED, "argument 3", [&] { layout({1, 0}); });
  test::expect_failure(EDGECORE_NOT_SUPPORTED, "argument 3", [&] { layout({0, 2, 3, 4, 1}); });
}

}  // namespace
}  // namespace edgecore::vulkan
