#include "arguments.h"

#include <algorithm>
#include <cstring>

namespace edgecore::vulkan {

using backend::fail;

namespace {

template <typename From, typename To>
void convert(const void *from, void *to, int64_t elements) {
  const auto *source = static_cast<const From *>(from);
  auto *target = static_cast<To *>(to);
  for (int64_t i = 0; i < elements; ++i) target[i] = static_cast<To>(source[i]);
}

}  // namespace

bool fits(const edgecore_dl_dtype &dtype, DataType type) {
  if (dtype.lanes != 1) return false;
  switch (type) {
    case DataType::kBool:
      return dtype.code == EDGECORE_DL_BOOL || (dtype.code == EDGECORE_DL_UINT && dtype.bits == 8);
    case DataType::kUint8:
      return dtype.code == EDGECORE_DL_UINT && dtype.bits == 8;
    case DataType::kInt8:
      return dtype.code == EDGECORE_DL_INT && dtype.bits == 8;
    case DataType::kInt32:
    case DataType::kInt64:
      return dtype.code == EDGECORE_DL_INT && (dtype.bits == 32 || dtype.bits == 64);
    case DataType::kFloat16:
      return dtype.code == EDGECORE_DL_FLOAT && dtype.bits == 16;
    case DataType::kFloat32:
    case DataType::kFloat64:
      return dtype.code == EDGECORE_DL_FLOAT && (dtype.bits == 32 || dtype.bits == 64);
  }
  return false;
}

void to_device(const edgecore_dl_dtype &dtype, Dtype held, const void *from, void *to, int64_t elements) {
  if (dtype.code == EDGECORE_DL_FLOAT) {
    if (dtype.bits == 64) return convert<double, float>(from, to, elements);
  } else if (dtype.bits == 64) {
    const auto *source = static_cast<const int64_t *>(from);
    auto *target = static_cast<int32_t *>(to);
    for (int64_t i = 0; i < elements; ++i) {
      target[i] = static_cast<int32_t>(std::clamp<int64_t>(source[i], INT32_MIN, INT32_MAX));
    }
    return;
  } else if (dtype.bits == 8 && held != Dtype::kInt8) {
    if (dtype.code == EDGECORE_DL_INT) return convert<int8_t, int32_t>(from, to, elements);
    return convert<uint8_t, int32_t>(from, to, elements);
  }
  std::memcpy(to, from, static_cast<size_t>(elements) * dtype.bits / 8);
}

void to_host(const edgecore_dl_dtype &dtype, Dtype held, const void *from, void *to, int64_t elements) {
  if (dtype.code == EDGECORE_DL_FLOAT) {
    if (dtype.bits == 64) return convert<float, double>(from, to, elements);
  } else if (dtype.bits == 64) {
    return convert<int32_t, int64_t>(from, to, elements);
  } else if (dtype.bits == 8 && held != Dtype::kInt8) {
    return convert<int32_t, uint8_t>(from, to, elements);
  }
  std::memcpy(to, from, static_cast<size_t>(elements) * dtype.bits / 8);
}

Layout layout_of(const edgecore_tensor &tensor, size_t index) {
  const auto rank = static_cast<size_t>(tensor.dl.ndim);
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    const std::vector<uint32_t> order = dims_in_memory(rank, layout);
    if (std::equal(order.begin(), order.end(), tensor.dim_order)) return layout;
  }
  fail(EDGECORE_NOT_SUPPORTED, "argument %zu has its dims in an order that is neither row-major nor channels last",
       index);
}

}  // namespace edgecore::vulkan
