// Tensors for applications with a heap. make_tensor.h has more functions that make tensors.
#ifndef EDGECORE_TENSOR_H_
#define EDGECORE_TENSOR_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "edgecore/span.h"
#include "edgecore/status.h"
#include "edgecore/tensor_types.h"

namespace edgecore {

// A tensor: shape, strides and memory, which copies and views share. A function that cannot make a tensor returns an
// empty tensor, whose check() says why. Every function refuses an empty tensor with the message of check(), so a
// program needs only one check, where it uses the tensor.
class Tensor {
 public:
  // Makes an empty tensor: no method accepts it, and data() is NULL.
  Tensor() = default;
  // Makes a row-major tensor of zeros. `scalar_type` is a number of ScalarType. Fails (see check()) if there is no such
  // type, if a size is negative, or if there is not enough memory.
  Tensor(int32_t scalar_type, std::vector<int64_t> shape);
  // Copies `values`, which are in row-major order. Fails, see check(), if the number of values does not fit the shape.
  template <typename T>
  static Tensor of(std::vector<int64_t> shape, const std::vector<T> &values) {
    return copy_of(scalar_type_of<T>(), std::move(shape), values.data(), values.size());
  }

  // Returns an empty tensor whose check() reports `error`.
  static Tensor failed(const Error &error);

  bool empty() const { return memory_ == nullptr; }
  bool is_failed() const { return problem_ != nullptr; }  // true if a function failed, so that the tensor is empty

  // Returns OK, or an error if this is Tensor() or the result of a failed call. Errors: INVALID_ARGUMENT,
  // MEMORY_ALLOCATION_FAILED.
  Status check(Error &error) const;

  int32_t scalar_type() const { return scalar_type_; }
  const std::vector<int64_t> &shape() const { return shape_; }
  const std::vector<int64_t> &strides() const { return strides_; }  // in elements
  std::vector<uint8_t> dim_order() const;                           // the dims in the order of descending strides
  size_t count() const { return count_; }                           // number of elements
  size_t bytes() const { return bytes_; }                           // size of the elements
  void *data() const { return memory_.get(); }
  // Returns the number of bytes from data() on that may be read: a tensor that owns its memory has padding at its end.
  size_t readable_bytes() const { return readable_; }
  bool read_only() const { return read_only_; }  // true: methods and functions refuse to write to the tensor
  bool resizable() const { return is_resizable_; }
  // is_contiguous returns true if the elements are in row-major order without gaps. is_dense returns true if the
  // elements have no gaps in some order of the dims.
  bool is_contiguous() const;
  bool is_dense() const;

  // Returns the elements in the order of the memory; none if the tensor has another element type or has gaps. The
  // elements live as long as the last tensor that uses the memory.
  template <typename T>
  Span<T> values() const {
    if (scalar_type_ != scalar_type_of<T>() || !is_dense()) return {};
    return {static_cast<T *>(data()), count_};
  }
  // Returns the address of one element, or NULL for another element type or number of dims, or an index out of range.
  template <typename T>
  T *at(const std::vector<int64_t> &index) const {
    const int64_t offset = offset_of(index);
    return scalar_type_ == scalar_type_of<T>() && offset >= 0 ? static_cast<T *>(data()) + offset : nullptr;
  }

  // view, permute, slice and as_strided return a tensor that shares this tensor's memory. If the new shape does not
  // fit, they return an empty tensor with an error (see check()). view() needs a contiguous tensor; one size may be -1,
  // which stands for the size that fits. `offset` counts elements from data() on; strides count elements too.
  Tensor view(std::vector<int64_t> shape) const;
  Tensor permute(const std::vector<uint8_t> &dims) const;
  Tensor slice(size_t dim, int64_t begin, int64_t end) const;
  Tensor as_strided(std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset = 0) const;

  // Return a copy of the tensor in memory of its own: in row-major order, or in an order of the dims (outermost first).
  Tensor clone() const;
  Tensor clone(const std::vector<uint8_t> &dim_order) const;
  // Returns a row-major copy with another element type. To convert to an integer type, a float is truncated and clamped
  // to the range of the type; NaN becomes 0. Every number except 0 becomes true.
  Tensor to(int32_t scalar_type) const;
  // Copies the elements of a tensor of equal shape and type into this tensor. The memory of the two tensors must not
  // overlap, unless both have the same layout. Errors: INVALID_ARGUMENT (also if this tensor is read-only).
  Status copy_from(const Tensor &source, Error &error) const;

  // Changes the shape of this object, not of its copies; the memory and the order of the dims stay. Errors:
  // INVALID_ARGUMENT (another number of dims, a size below 0, or a tensor with gaps), NOT_SUPPORTED (more elements than
  // the memory has, or a tensor of fixed shape).
  Status resize(std::vector<int64_t> shape, Error &error);

 private:
  friend class TensorBuilder;
  struct Problem {
    int32_t code;
    std::string text;
  };

  static Tensor copy_of(int32_t scalar_type, std::vector<int64_t> shape, const void *values, size_t count);
  Tensor with_layout(std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset) const;
  int64_t offset_of(const std::vector<int64_t> &index) const;  // -1: no such element

  std::shared_ptr<void> memory_;  // owned memory is aligned to 64 bytes and readable for 128 bytes past its end
  int32_t scalar_type_ = -1;
  std::vector<int64_t> shape_, strides_;
  size_t count_ = 0;
  size_t bytes_ = 0;
  size_t capacity_ = 0;  // bytes from data() on that resize may use
  size_t readable_ = 0;
  bool read_only_ = false;
  bool is_resizable_ = true;
  std::shared_ptr<const Problem> problem_;  // reason why a failed tensor is empty; NULL if no function failed
};

}  // namespace edgecore

#endif  // EDGECORE_TENSOR_H_
