// Visits and converts elements of tensors of any type and memory layout.
#ifndef EDGECORE_HOST_ELEMENTS_H_
#define EDGECORE_HOST_ELEMENTS_H_

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "edgecore/tensor.h"

namespace edgecore {

// Calls visit(T()) with the C++ type T that a ScalarType number stands for. Returns false if the number stands for no
// type.
template <typename Visit>
bool with_type(int32_t scalar_type, const Visit &visit) {
  switch (scalar_type) {
    case ScalarType::kUInt8:
      return visit(uint8_t()), true;
    case ScalarType::kInt8:
      return visit(int8_t()), true;
    case ScalarType::kInt16:
      return visit(int16_t()), true;
    case ScalarType::kInt32:
      return visit(int32_t()), true;
    case ScalarType::kInt64:
      return visit(int64_t()), true;
    case ScalarType::kFloat16:
      return visit(Half()), true;
    case ScalarType::kFloat32:
      return visit(float()), true;
    case ScalarType::kFloat64:
      return visit(double()), true;
    case ScalarType::kBool:
      return visit(bool()), true;
    case ScalarType::kBFloat16:
      return visit(BFloat16()), true;
    case ScalarType::kUInt16:
      return visit(uint16_t()), true;
    case ScalarType::kUInt32:
      return visit(uint32_t()), true;
    case ScalarType::kUInt64:
      return visit(uint64_t()), true;
    default:
      return false;
  }
}

template <typename T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

inline bool is_float_type(int32_t scalar_type) {
  bool is_float = false;
  with_type(scalar_type, [&](auto zero) { is_float = kIsFloat<decltype(zero)>; });
  return is_float;
}

// Converts a number to another type, by the rules of Tensor::to.
template <typename To, typename From>
To convert_number(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From();
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(value));
  } else if constexpr (kIsFloat<From> && std::is_integral_v<To>) {
    const auto number = static_cast<double>(value);
    constexpr auto kMax = std::numeric_limits<To>::max();
    if (std::isnan(number)) return 0;
    if (number <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return number >= static_cast<double>(kMax) ? kMax : static_cast<To>(number);
  } else {
    return static_cast<To>(value);
  }
}

// Calls visit(first offset, second offset) for each element of a shape in row-major order. The offsets are the
// element's positions in two tensors, whose strides are `first` and `second`.
template <typename Visit>
void for_each_element(const std::vector<int64_t> &shape, const std::vector<int64_t> &first,
                      const std::vector<int64_t> &second, size_t count, const Visit &visit) {
  std::vector<int64_t> index(shape.size());
  int64_t a = 0, b = 0;
  for (size_t i = 0; i < count; ++i) {
    visit(a, b);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) {
        a += first[d];
        b += second[d];
        break;
      }
      a -= (shape[d] - 1) * first[d];
      b -= (shape[d] - 1) * second[d];
      index[d] = 0;
    }
  }
}

}  // namespace edgecore

#endif  // EDGECORE_HOST_ELEMENTS_H_
