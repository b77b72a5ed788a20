// The C++ types of the elements of tensors. Header-only.
#ifndef EDGECORE_TENSOR_TYPES_H_
#define EDGECORE_TENSOR_TYPES_H_

#include "edgecore/half.h"
#include "edgecore/scalar_type.h"

namespace edgecore {

// Returns the number of a C++ type in the .pte's ScalarType, such as 6 for float.
template <typename T>
constexpr int32_t scalar_type_of() = delete;
template <>
constexpr int32_t scalar_type_of<uint8_t>() {
  return ScalarType::kUInt8;
}
template <>
constexpr int32_t scalar_type_of<int8_t>() {
  return ScalarType::kInt8;
}
template <>
constexpr int32_t scalar_type_of<int16_t>() {
  return ScalarType::kInt16;
}
template <>
constexpr int32_t scalar_type_of<int32_t>() {
  return ScalarType::kInt32;
}
template <>
constexpr int32_t scalar_type_of<int64_t>() {
  return ScalarType::kInt64;
}
template <>
constexpr int32_t scalar_type_of<Half>() {
  return ScalarType::kFloat16;
}
template <>
constexpr int32_t scalar_type_of<float>() {
  return ScalarType::kFloat32;
}
template <>
constexpr int32_t scalar_type_of<double>() {
  return ScalarType::kFloat64;
}
template <>
constexpr int32_t scalar_type_of<bool>() {
  return ScalarType::kBool;
}
template <>
constexpr int32_t scalar_type_of<BFloat16>() {
  return ScalarType::kBFloat16;
}
template <>
constexpr int32_t scalar_type_of<uint16_t>() {
  return ScalarType::kUInt16;
}
template <>
constexpr int32_t scalar_type_of<uint32_t>() {
  return ScalarType::kUInt32;
}
template <>
constexpr int32_t scalar_type_of<uint64_t>() {
  return ScalarType::kUInt64;
}

}  // namespace edgecore

#endif  // EDGECORE_TENSOR_TYPES_H_
