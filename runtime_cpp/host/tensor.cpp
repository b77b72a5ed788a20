#include "edgecore/tensor.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "edgecore/method.h"
#include "host/elements.h"
#include "host/heap.h"
#include "host/tensor_copy.h"

namespace edgecore {
namespace {

constexpr size_t kMaxDims = 255;  // maximum rank of a tensor, because dim orders have 8-bit entries

}  // namespace

Status size_in_bytes(const std::vector<int64_t> &shape, int32_t scalar_type, size_t &bytes, Error &error) {
  bytes = scalar_type_info(scalar_type).size;
  if (bytes == 0) return fail(error, EDGECORE_INVALID_ARGUMENT, "There is no scalar type ", scalar_type, ".");
  if (shape.size() > kMaxDims) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "A tensor has at most ", kMaxDims, " dims, not ", shape.size(), ".");
  }
  bool is_zero = false, is_large = false;
  for (const int64_t size : shape) {
    if (size < 0) return fail(error, EDGECORE_INVALID_ARGUMENT, "The shape ", span_of(shape), " has a size below 0.");
    is_zero = is_zero || size == 0;
    // Count a size of 0 as 1, as strides_in_order does, so that the strides of an empty tensor cannot overflow.
    is_large = is_large || static_cast<uint64_t>(size) > SIZE_MAX ||
               __builtin_mul_overflow(bytes, std::max(static_cast<size_t>(size), size_t{1}), &bytes);
  }
  if (is_large || bytes > SIZE_MAX / 2 - kArenaTail) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "A tensor of shape ", span_of(shape), " is too large.");
  }
  if (is_zero) bytes = 0;
  return {};
}

std::vector<int64_t> strides_in_order(const std::vector<int64_t> &shape, const std::vector<uint8_t> &order) {
  std::vector<int64_t> strides(shape.size());
  int64_t next = 1;
  for (size_t i = order.size(); i-- > 0; next *= std::max<int64_t>(shape[order[i]], 1)) strides[order[i]] = next;
  return strides;
}

std::vector<uint8_t> row_major(size_t rank) {
  std::vector<uint8_t> order(rank);
  std::iota(order.begin(), order.end(), uint8_t{0});
  return order;
}

Status check_dims(const std::vector<uint8_t> &dims, size_t rank, Error &error) {
  std::vector<uint8_t> sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  if (sorted == row_major(rank)) return {};
  const std::vector<int64_t> numbers(dims.begin(), dims.end());
  return fail(error, EDGECORE_INVALID_ARGUMENT, "The dims ", span_of(numbers), " are not each of the ", rank,
              " dims of the tensor once.");
}

Status Tensor::check(Error &error) const {
  if (!empty()) return {};
  if (problem_ == nullptr) return fail(error, EDGECORE_INVALID_ARGUMENT, "The tensor is empty.");
  return fail(error, problem_->code, problem_->text.c_str());
}

Tensor Tensor::failed(const Error &error) {
  Tensor tensor;
  tensor.problem_ = std::make_shared<const Problem>(Problem{error.code, std::string(error.text, error.size)});
  return tensor;
}

Tensor::Tensor(int32_t scalar_type, std::vector<int64_t> shape) {
  Error error;
  size_t bytes = 0;
  if (!size_in_bytes(shape, scalar_type, bytes, error).ok()) {
    *this = failed(error);
    return;
  }
  HeapBlock block = heap_block(bytes + kArenaTail, kArenaAlignment);
  if (block == nullptr) {
    (void)fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a tensor of ", bytes, " bytes.");
    *this = failed(error);
    return;
  }
  std::memset(block.get(), 0, bytes);
  memory_ = std::move(block);
  scalar_type_ = scalar_type;
  strides_ = strides_in_order(shape, row_major(shape.size()));
  shape_ = std::move(shape);
  count_ = bytes / scalar_type_info(scalar_type).size;
  bytes_ = capacity_ = bytes;
  readable_ = bytes + kArenaTail;
}

Tensor Tensor::copy_of(int32_t scalar_type, std::vector<int64_t> shape, const void *values, size_t count) {
  Tensor tensor(scalar_type, std::move(shape));
  if (tensor.empty()) return tensor;
  if (tensor.count_ != count) {
    Error error;
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "The shape ", span_of(tensor.shape_), " has ", tensor.count_,
               " elements, but there are ", count, " values.");
    return failed(error);
  }
  if (tensor.bytes_ != 0) std::memcpy(tensor.data(), values, tensor.bytes_);
  return tensor;
}

std::vector<uint8_t> Tensor::dim_order() const {
  std::vector<uint8_t> order = row_major(shape_.size());
  std::stable_sort(order.begin(), order.end(), [&](uint8_t a, uint8_t b) { return strides_[a] > strides_[b]; });
  return order;
}

bool has_strides(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides,
                 const std::vector<int64_t> &expected) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return true;
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && strides[d] != expected[d]) return false;  // skip dims of size 1, whose stride has no meaning
  }
  return true;
}

bool Tensor::is_contiguous() const {
  return !empty() && has_strides(shape_, strides_, strides_in_order(shape_, row_major(shape_.size())));
}

bool Tensor::is_dense() const {
  return !empty() && has_strides(shape_, strides_, strides_in_order(shape_, dim_order()));
}

int64_t Tensor::offset_of(const std::vector<int64_t> &index) const {
  if (empty() || index.size() != shape_.size()) return -1;
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] < 0 || index[d] >= shape_[d]) return -1;
    offset += index[d] * strides_[d];
  }
  return offset;
}

Tensor Tensor::with_layout(std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset) const {
  Error error;
  if (!check(error).ok()) return failed(error);
  const size_t item = scalar_type_info(scalar_type_).size;
  size_t bytes = 0;
  if (!size_in_bytes(shape, scalar_type_, bytes, error).ok()) return failed(error);
  bool fits = offset >= 0 && strides.size() == shape.size();
  int64_t last = offset;  // largest offset of an element of the view, counted in elements
  for (size_t d = 0; fits && d < shape.size(); ++d) {
    int64_t distance = 0;
    fits = strides[d] >= 0 && !__builtin_mul_overflow(strides[d], std::max<int64_t>(shape[d] - 1, 0), &distance) &&
           !__builtin_add_overflow(last, distance, &last);
  }
  const size_t elements = capacity_ / item;
  if (!fits || (bytes != 0 && static_cast<uint64_t>(last) >= elements) || static_cast<uint64_t>(offset) > elements) {
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "A view of shape ", span_of(shape), " with strides ", span_of(strides),
               " from element ", offset, " on does not lie within the ", elements, " elements of the memory.");
    return failed(error);
  }
  Tensor view = *this;
  const size_t start = static_cast<size_t>(offset) * item;
  view.memory_ = std::shared_ptr<void>(memory_, static_cast<uint8_t *>(memory_.get()) + start);
  view.shape_ = std::move(shape);
  view.strides_ = std::move(strides);
  view.count_ = bytes / item;
  view.bytes_ = bytes;
  view.capacity_ -= start;
  view.readable_ -= start;
  return view;
}

Tensor Tensor::as_strided(std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset) const {
  return with_layout(std::move(shape), std::move(strides), offset);
}

Tensor Tensor::view(std::vector<int64_t> shape) const {
  Error error;
  if (!check(error).ok()) return failed(error);
  size_t known = 1, unknown = 0;
  int64_t *inferred = nullptr;
  for (int64_t &size : shape) {
    if (size == -1) {
      inferred = &size;
      ++unknown;
    } else if (size < 0 || __builtin_mul_overflow(known, static_cast<size_t>(size), &known)) {
      unknown = 2;
    }
  }
  const bool divides = known != 0 && count_ % known == 0;
  if (unknown == 1 && divides) *inferred = static_cast<int64_t>(count_ / known);
  if (unknown > 1 || (unknown == 1 ? !divides : known != count_)) {
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "A tensor of shape ", span_of(shape_), " cannot be viewed as ",
               span_of(shape), ".");
    return failed(error);
  }
  if (!is_contiguous()) {
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "view() needs a contiguous tensor; this one has shape ",
               span_of(shape_), " and strides ", span_of(strides_), ": clone() it first.");
    return failed(error);
  }
  size_t bytes = 0;
  if (!size_in_bytes(shape, scalar_type_, bytes, error).ok()) return failed(error);
  std::vector<int64_t> strides = strides_in_order(shape, row_major(shape.size()));
  return with_layout(std::move(shape), std::move(strides), 0);
}

Tensor Tensor::permute(const std::vector<uint8_t> &dims) const {
  Error error;
  if (!check(error).ok() || !check_dims(dims, shape_.size(), error).ok()) return failed(error);
  std::vector<int64_t> shape, strides;
  for (const uint8_t dim : dims) {
    shape.push_back(shape_[dim]);
    strides.push_back(strides_[dim]);
  }
  return with_layout(std::move(shape), std::move(strides), 0);
}

Tensor Tensor::slice(size_t dim, int64_t begin, int64_t end) const {
  Error error;
  if (!check(error).ok()) return failed(error);
  if (dim >= shape_.size() || begin < 0 || begin > end || end > shape_[dim]) {
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "A tensor of shape ", span_of(shape_), " has no slice from ", begin,
               " to ", end, " of dim ", dim, ".");
    return failed(error);
  }
  std::vector<int64_t> shape = shape_;
  shape[dim] = end - begin;
  return with_layout(std::move(shape), strides_, count_ == 0 || begin == end ? 0 : begin * strides_[dim]);
}

Tensor Tensor::clone() const { return clone(row_major(shape_.size())); }

Tensor Tensor::clone(const std::vector<uint8_t> &dim_order) const {
  Error error;
  if (!check(error).ok() || !check_dims(dim_order, shape_.size(), error).ok()) return failed(error);
  Tensor copy(scalar_type_, shape_);
  if (copy.empty()) return copy;
  copy.strides_ = strides_in_order(shape_, dim_order);
  (void)copy.copy_from(*this, error);
  return copy;
}

Tensor Tensor::to(int32_t scalar_type) const {
  Error error;
  if (!check(error).ok()) return failed(error);
  if (scalar_type == scalar_type_) return clone();
  Tensor copy(scalar_type, shape_);
  if (copy.empty()) return copy;
  bool converts = false;
  with_type(scalar_type_, [&](auto from) {
    converts = with_type(scalar_type, [&](auto to) {
      const auto *source = static_cast<const decltype(from) *>(data());
      auto *target = static_cast<decltype(to) *>(copy.data());
      for_each_element(shape_, strides_, copy.strides_, count_,
                       [&](int64_t a, int64_t b) { target[b] = convert_number<decltype(to)>(source[a]); });
    });
  });
  if (converts) return copy;
  (void)fail(error, EDGECORE_NOT_SUPPORTED, "Tensors of type ", scalar_type_info(scalar_type_).name,
             " are not converted to ", scalar_type_info(scalar_type).name, ".");
  return failed(error);
}

Status Tensor::copy_from(const Tensor &source, Error &error) const {
  EDGECORE_TRY(check(error));
  EDGECORE_TRY(source.check(error));
  if (read_only_) return fail(error, EDGECORE_INVALID_ARGUMENT, kReadOnly);
  if (source.scalar_type_ != scalar_type_ || source.shape_ != shape_) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "A tensor of type ", scalar_type_info(source.scalar_type_).name,
                " and shape ", span_of(source.shape_), " cannot be copied into one of type ",
                scalar_type_info(scalar_type_).name, " and shape ", span_of(shape_), ".");
  }
  if (count_ == 0) return {};
  if (is_dense() && has_strides(shape_, source.strides_, strides_)) {
    std::memmove(data(), source.data(), bytes_);
    return {};
  }
  const size_t item = bytes_ / count_;
  const auto *from = static_cast<const uint8_t *>(source.data());
  auto *to = static_cast<uint8_t *>(data());
  for_each_element(shape_, source.strides_, strides_, count_, [&](int64_t a, int64_t b) {
    std::memcpy(to + b * static_cast<int64_t>(item), from + a * static_cast<int64_t>(item), item);
  });
  return {};
}

Status Tensor::resize(std::vector<int64_t> shape, Error &error) {
  EDGECORE_TRY(check(error));
  if (!is_resizable_) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "A tensor of fixed shape ", span_of(shape_), " cannot be resized to ",
                span_of(shape), ".");
  }
  if (shape.size() != shape_.size() || !is_dense()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "A tensor of shape ", span_of(shape_),
                is_dense() ? "" : ", whose memory has gaps,", " cannot be resized to ", span_of(shape), ".");
  }
  size_t bytes = 0;
  EDGECORE_TRY(size_in_bytes(shape, scalar_type_, bytes, error));
  if (bytes > capacity_) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "A tensor of shape ", span_of(shape), " needs ", bytes,
                " bytes; the memory has ", capacity_, ".");
  }
  const std::vector<uint8_t> order = dim_order();
  count_ = bytes / scalar_type_info(scalar_type_).size;
  bytes_ = bytes;
  strides_ = strides_in_order(shape, order);
  shape_ = std::move(shape);
  return {};
}

Tensor copy_of(const edgecore_tensor &source) {
  Tensor tensor(source.scalar_type, {source.dl.shape, source.dl.shape + source.dl.ndim});
  if (tensor.count() == 0) return tensor;
  const auto item = static_cast<int64_t>(tensor.bytes() / tensor.count());
  const auto *from = static_cast<const uint8_t *>(source.dl.data) + source.dl.byte_offset;
  auto *to = static_cast<uint8_t *>(tensor.data());
  const std::vector<int64_t> strides(source.dl.strides, source.dl.strides + source.dl.ndim);
  for_each_element(tensor.shape(), strides, tensor.strides(), tensor.count(), [&](int64_t a, int64_t b) {
    std::memcpy(to + b * item, from + a * item, static_cast<size_t>(item));
  });
  return tensor;
}

}  // namespace edgecore
