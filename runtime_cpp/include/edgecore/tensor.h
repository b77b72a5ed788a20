// A tensor that owns its memory, for applications with a heap.
#ifndef EDGECORE_TENSOR_H_
#define EDGECORE_TENSOR_H_

#include <memory>
#include <vector>

#include "edgecore/span.h"

namespace edgecore {

// Returns the number of a C++ type in the .pte's ScalarType, such as 6 for float.
template <typename T>
constexpr int32_t scalar_type_of() = delete;
template <>
constexpr int32_t scalar_type_of<uint8_t>() {
  return 0;
}
template <>
constexpr int32_t scalar_type_of<int8_t>() {
  return 1;
}
template <>
constexpr int32_t scalar_type_of<int16_t>() {
  return 2;
}
template <>
constexpr int32_t scalar_type_of<int32_t>() {
  return 3;
}
template <>
constexpr int32_t scalar_type_of<int64_t>() {
  return 4;
}
template <>
constexpr int32_t scalar_type_of<float>() {
  return 6;
}
template <>
constexpr int32_t scalar_type_of<double>() {
  return 7;
}
template <>
constexpr int32_t scalar_type_of<bool>() {
  return 11;
}
template <>
constexpr int32_t scalar_type_of<uint16_t>() {
  return 27;
}
template <>
constexpr int32_t scalar_type_of<uint32_t>() {
  return 28;
}

// A dense row-major tensor in memory of its own. Copies of the object share that memory.
class Tensor {
 public:
  // Makes an empty tensor: no method accepts it, and data() is NULL.
  Tensor() = default;
  // Makes a tensor of zeros. `scalar_type` is a number of the .pte's ScalarType. The tensor is empty if there is no
  // such type, a size is negative, or memory does not suffice.
  Tensor(int32_t scalar_type, std::vector<int64_t> shape);
  // Copies `values`, which are in row-major order. The tensor is empty if their number does not fit the shape.
  template <typename T>
  static Tensor of(std::vector<int64_t> shape, const std::vector<T> &values) {
    return copy_of(scalar_type_of<T>(), std::move(shape), values.data(), values.size());
  }

  bool empty() const { return memory_ == nullptr; }
  int32_t scalar_type() const { return scalar_type_; }
  const std::vector<int64_t> &shape() const { return shape_; }
  size_t count() const { return count_; }  // of elements
  size_t bytes() const { return bytes_; }
  void *data() const { return memory_.get(); }
  // Returns the elements; none if the tensor has another element type.
  template <typename T>
  Span<T> values() const {
    if (scalar_type_ != scalar_type_of<T>()) return {};
    return {static_cast<T *>(data()), count_};
  }

 private:
  static Tensor copy_of(int32_t scalar_type, std::vector<int64_t> shape, const void *values, size_t count);

  std::shared_ptr<void> memory_;  // at a multiple of 64, readable for 128 bytes past the end
  int32_t scalar_type_ = -1;
  std::vector<int64_t> shape_;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace edgecore

#endif  // EDGECORE_TENSOR_H_
