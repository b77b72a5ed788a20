// Functions that make tensors: over the application's memory, from a vector, filled with a number, or with random
// numbers.
#ifndef EDGECORE_MAKE_TENSOR_H_
#define EDGECORE_MAKE_TENSOR_H_

#include <functional>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "edgecore/tensor.h"

namespace edgecore {

// Describes a tensor over memory of the application:
//
//   Tensor image = for_blob(pixels, {1, 3, 224, 224}, ScalarType::kUInt8).dim_order({0, 2, 3, 1}).make();
class TensorBuilder {
 public:
  TensorBuilder(void *data, std::vector<int64_t> shape, int32_t scalar_type)
      : data_(data), shape_(std::move(shape)), scalar_type_(scalar_type), memory_(std::shared_ptr<void>(), data) {}

  // Set the layout: strides in elements, or the order of the dims (outermost first). The default is row-major. If both
  // are set, they must agree.
  TensorBuilder &strides(std::vector<int64_t> strides);
  TensorBuilder &dim_order(std::vector<uint8_t> order);
  // Sets the function that frees the memory, at most once and before make(). The function is called once, when the
  // builder, its copies and the last tensor that uses the memory are destroyed, even if make() failed. Without a
  // deleter the memory must outlive all these tensors.
  TensorBuilder &deleter(std::function<void(void *)> deleter);
  TensorBuilder &fixed_shape();  // resize() refuses the tensor
  TensorBuilder &read_only();    // a method that writes to an input refuses the tensor as that input

  // Declares that `bytes` bytes from the start of the memory are readable, more than the tensor has. A backend that
  // reads past the end of a tensor then needs no copy of the tensor.
  TensorBuilder &readable_bytes(size_t bytes);

  // Makes the tensor. Fails, see Tensor::check, if the settings contradict each other.
  Tensor make();

 private:
  void *data_;
  std::vector<int64_t> shape_;
  int32_t scalar_type_;
  std::vector<int64_t> strides_;
  std::vector<uint8_t> order_;
  std::shared_ptr<void> memory_;  // calls the deleter
  bool has_strides_ = false, has_order_ = false, is_fixed_ = false, read_only_ = false;
  size_t readable_ = 0;
};

// Return the description of a tensor over memory. A typed pointer implies the scalar type; a const pointer makes the
// tensor read-only.
inline TensorBuilder for_blob(void *data, std::vector<int64_t> shape, int32_t scalar_type) {
  return {data, std::move(shape), scalar_type};
}
template <typename T>
TensorBuilder for_blob(T *data, std::vector<int64_t> shape) {
  using Element = std::remove_const_t<T>;
  TensorBuilder builder(const_cast<Element *>(data), std::move(shape), scalar_type_of<Element>());
  if (std::is_const_v<T>) builder.read_only();
  return builder;
}

// Make a row-major tensor over memory; with a deleter the tensor owns the memory.
inline Tensor from_blob(void *data, std::vector<int64_t> shape, int32_t scalar_type,
                        std::function<void(void *)> deleter = nullptr) {
  return for_blob(data, std::move(shape), scalar_type).deleter(std::move(deleter)).make();
}
template <typename T>
Tensor from_blob(T *data, std::vector<int64_t> shape, std::function<void(void *)> deleter = nullptr) {
  return for_blob(data, std::move(shape)).deleter(std::move(deleter)).make();
}

// Returns a copy with another element type. Fails, see Tensor::check, for conversions that lose information by design:
// from a float to an integer, and from a number to bool. Tensor::to supports these conversions.
Tensor converted(const Tensor &tensor, int32_t scalar_type);

// Makes a row-major tensor over `bytes` bytes at `data`, which live as long as `owner`. Fails, see Tensor::check, if
// the shape needs a different number of bytes.
Tensor tensor_over(std::shared_ptr<void> owner, void *data, size_t bytes, std::vector<int64_t> shape,
                   int32_t scalar_type);

// Take over the memory of a vector, whose elements are in row-major order. Without a shape the tensor has one dim. If a
// scalar type is passed, converted() converts the elements to it. Fails, see Tensor::check, if the number of elements
// does not fit the shape.
template <typename T>
Tensor make_tensor(std::vector<int64_t> shape, std::vector<T> values) {
  if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> stores bits, not an array of elements
    return make_tensor(std::move(shape), std::vector<uint8_t>(values.begin(), values.end())).to(ScalarType::kBool);
  } else {
    auto owner = std::make_shared<std::vector<T>>(std::move(values));
    return tensor_over(owner, owner->data(), owner->size() * sizeof(T), std::move(shape), scalar_type_of<T>());
  }
}
template <typename T>
Tensor make_tensor(std::vector<int64_t> shape, std::vector<T> values, int32_t scalar_type) {
  return converted(make_tensor(std::move(shape), std::move(values)), scalar_type);
}
template <typename T>
Tensor make_tensor(std::vector<T> values) {
  const auto size = static_cast<int64_t>(values.size());
  return make_tensor({size}, std::move(values));
}
template <typename T>
Tensor make_tensor(std::vector<T> values, int32_t scalar_type) {
  return converted(make_tensor(std::move(values)), scalar_type);
}
template <typename T>
Tensor make_tensor(std::vector<int64_t> shape, std::initializer_list<T> values) {
  return make_tensor(std::move(shape), std::vector<T>(values));
}
template <typename T>
Tensor make_tensor(std::vector<int64_t> shape, std::initializer_list<T> values, int32_t scalar_type) {
  return make_tensor(std::move(shape), std::vector<T>(values), scalar_type);
}
template <typename T>
Tensor make_tensor(std::initializer_list<T> values) {
  return make_tensor(std::vector<T>(values));
}
template <typename T>
Tensor make_tensor(std::initializer_list<T> values, int32_t scalar_type) {
  return make_tensor(std::vector<T>(values), scalar_type);
}
// Makes a row-major tensor that takes over `bytes`, the memory of its elements.
Tensor from_bytes(std::vector<int64_t> shape, std::vector<uint8_t> bytes, int32_t scalar_type);
// Makes a tensor without dims.
template <typename T>
Tensor scalar_tensor(T value) {
  return Tensor::of<T>({}, std::vector<T>{value});
}
template <typename T>
Tensor scalar_tensor(T value, int32_t scalar_type) {
  return converted(scalar_tensor(value), scalar_type);
}

// Make tensors whose elements have no defined value. empty_like takes over shape, type and dim order of `tensor`.
Tensor empty(std::vector<int64_t> shape, int32_t scalar_type = ScalarType::kFloat32);
Tensor empty_like(const Tensor &tensor);
Tensor empty_strided(std::vector<int64_t> shape, std::vector<int64_t> strides,
                     int32_t scalar_type = ScalarType::kFloat32);

// Set all elements to a number, converted like Tensor::to, and return the tensor. Fail, see Tensor::check, if the
// tensor is read-only.
Tensor fill(Tensor tensor, double value);
Tensor fill(Tensor tensor, int64_t value);
template <typename T>
Tensor fill(Tensor tensor, T value) {
  using Number = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  return fill(std::move(tensor), static_cast<Number>(value));
}

// Make tensors filled with a number.
template <typename T>
Tensor full(std::vector<int64_t> shape, T value, int32_t scalar_type = ScalarType::kFloat32) {
  return fill(empty(std::move(shape), scalar_type), value);
}
template <typename T>
Tensor full_like(const Tensor &tensor, T value) {
  return fill(empty_like(tensor), value);
}
template <typename T>
Tensor full_strided(std::vector<int64_t> shape, std::vector<int64_t> strides, T value,
                    int32_t scalar_type = ScalarType::kFloat32) {
  return fill(empty_strided(std::move(shape), std::move(strides), scalar_type), value);
}
inline Tensor zeros(std::vector<int64_t> shape, int32_t scalar_type = ScalarType::kFloat32) {
  return {scalar_type, std::move(shape)};
}
inline Tensor zeros_like(const Tensor &tensor) { return full_like(tensor, 0); }
inline Tensor zeros_strided(std::vector<int64_t> shape, std::vector<int64_t> strides,
                            int32_t scalar_type = ScalarType::kFloat32) {
  return full_strided(std::move(shape), std::move(strides), 0, scalar_type);
}
inline Tensor ones(std::vector<int64_t> shape, int32_t scalar_type = ScalarType::kFloat32) {
  return full(std::move(shape), 1, scalar_type);
}
inline Tensor ones_like(const Tensor &tensor) { return full_like(tensor, 1); }
inline Tensor ones_strided(std::vector<int64_t> shape, std::vector<int64_t> strides,
                           int32_t scalar_type = ScalarType::kFloat32) {
  return full_strided(std::move(shape), std::move(strides), 1, scalar_type);
}

// Restarts the random numbers of the calling thread. A thread that never calls this function gets the same numbers in
// each run of the program.
void seed_random(uint64_t seed);
// Make tensors of random numbers. rand: uniform from 0 (inclusive) to 1 (exclusive). randn: normal with mean 0 and
// variance 1. randint: integers from `low` (inclusive) to `high` (exclusive). rand and randn need a floating type.
Tensor rand(std::vector<int64_t> shape, int32_t scalar_type = ScalarType::kFloat32);
Tensor rand_like(const Tensor &tensor);
Tensor randn(std::vector<int64_t> shape, int32_t scalar_type = ScalarType::kFloat32);
Tensor randn_like(const Tensor &tensor);
Tensor randint(int64_t low, int64_t high, std::vector<int64_t> shape, int32_t scalar_type = ScalarType::kInt64);
Tensor randint_like(const Tensor &tensor, int64_t low, int64_t high);

}  // namespace edgecore

#endif  // EDGECORE_MAKE_TENSOR_H_
