#include "edgecore/make_tensor.h"

#include <algorithm>
#include <cmath>

#include "edgecore/method.h"
#include "host/elements.h"
#include "host/heap.h"
#include "host/tensor_copy.h"

namespace edgecore {

TensorBuilder &TensorBuilder::strides(std::vector<int64_t> strides) {
  strides_ = std::move(strides);
  has_strides_ = true;
  return *this;
}

TensorBuilder &TensorBuilder::dim_order(std::vector<uint8_t> order) {
  order_ = std::move(order);
  has_order_ = true;
  return *this;
}

TensorBuilder &TensorBuilder::deleter(std::function<void(void *)> deleter) {
  if (deleter && data_ != nullptr) memory_ = std::shared_ptr<void>(data_, std::move(deleter));
  return *this;
}

TensorBuilder &TensorBuilder::fixed_shape() {
  is_fixed_ = true;
  return *this;
}

TensorBuilder &TensorBuilder::read_only() {
  read_only_ = true;
  return *this;
}

TensorBuilder &TensorBuilder::readable_bytes(size_t bytes) {
  readable_ = bytes;
  return *this;
}

Tensor TensorBuilder::make() {
  Tensor tensor;
  tensor.memory_ = memory_;
  Error error;
  size_t bytes = 0;
  if (!size_in_bytes(shape_, scalar_type_, bytes, error).ok()) return Tensor::failed(error);
  const std::vector<uint8_t> order = has_order_ ? order_ : row_major(shape_.size());
  if (!check_dims(order, shape_.size(), error).ok()) return Tensor::failed(error);
  std::vector<int64_t> strides = has_strides_ ? strides_ : strides_in_order(shape_, order);
  if (strides.size() != shape_.size()) {
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "The strides ", span_of(strides), " do not fit the shape ",
               span_of(shape_), ".");
    return Tensor::failed(error);
  }
  if (has_strides_ && has_order_ && !has_strides(shape_, strides, strides_in_order(shape_, order))) {
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "The strides ", span_of(strides),
               " contradict the dim order; the strides of the dim order are ", span_of(strides_in_order(shape_, order)),
               ".");
    return Tensor::failed(error);
  }
  const size_t item = scalar_type_info(scalar_type_).size;
  uint64_t extent = bytes == 0 ? 0 : 1;  // number of elements, with gaps, from the first to the last element in memory
  bool fits = true;
  for (size_t d = 0; d < strides.size(); ++d) {
    uint64_t distance = 0;
    fits = fits && strides[d] >= 0;
    if (bytes == 0 || !fits) continue;
    const auto steps = static_cast<uint64_t>(shape_[d] - 1);
    fits = !__builtin_mul_overflow(static_cast<uint64_t>(strides[d]), steps, &distance) &&
           !__builtin_add_overflow(extent, distance, &extent);
  }
  if (!fits || __builtin_mul_overflow(extent, uint64_t{item}, &extent) || extent > SIZE_MAX / 2) {
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "The strides ", span_of(strides),
               " are negative or too large for the shape ", span_of(shape_), ".");
    return Tensor::failed(error);
  }
  if (data_ == nullptr) {
    if (bytes == 0) return {scalar_type_, shape_};
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "The memory of a tensor of ", bytes, " bytes is NULL.");
    return Tensor::failed(error);
  }
  if (reinterpret_cast<uintptr_t>(data_) % (item > 8 ? 8 : item) != 0) {
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "The memory of a tensor of type ", scalar_type_info(scalar_type_).name,
               " is not at a multiple of ", item, " bytes.");
    return Tensor::failed(error);
  }
  tensor.scalar_type_ = scalar_type_;
  tensor.shape_ = shape_;
  tensor.strides_ = std::move(strides);
  tensor.count_ = bytes / item;
  tensor.bytes_ = bytes;
  tensor.capacity_ = static_cast<size_t>(extent);
  tensor.readable_ = std::max(readable_, tensor.capacity_);
  tensor.read_only_ = read_only_;
  tensor.is_resizable_ = !is_fixed_;
  return tensor;
}

Tensor converted(const Tensor &tensor, int32_t scalar_type) {
  if (tensor.empty() || tensor.scalar_type() == scalar_type) return tensor;
  const bool to_float = is_float_type(scalar_type), from_float = is_float_type(tensor.scalar_type());
  if (scalar_type != ScalarType::kBool && (to_float || !from_float)) return tensor.to(scalar_type);
  Error error;
  (void)fail(error, EDGECORE_INVALID_ARGUMENT, "Values of type ", scalar_type_info(tensor.scalar_type()).name,
             " are not converted to ", scalar_type_info(scalar_type).name, " implicitly: use Tensor::to.");
  return Tensor::failed(error);
}

Tensor tensor_over(std::shared_ptr<void> owner, void *data, size_t bytes, std::vector<int64_t> shape,
                   int32_t scalar_type) {
  Error error;
  size_t needed = 0;
  if (!size_in_bytes(shape, scalar_type, needed, error).ok()) return Tensor::failed(error);
  if (needed != bytes) {
    const size_t item = scalar_type_info(scalar_type).size;
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, "The shape ", span_of(shape), " has ", needed / item,
               " elements, but there are ", bytes / item, " values.");
    return Tensor::failed(error);
  }
  return for_blob(data, std::move(shape), scalar_type).deleter([owner](void *) {}).make();
}

Tensor from_bytes(std::vector<int64_t> shape, std::vector<uint8_t> bytes, int32_t scalar_type) {
  auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  return tensor_over(owner, owner->data(), owner->size(), std::move(shape), scalar_type);
}

Tensor empty(std::vector<int64_t> shape, int32_t scalar_type) { return {scalar_type, std::move(shape)}; }

Tensor empty_like(const Tensor &tensor) {
  Error error;
  if (!tensor.check(error).ok()) return Tensor::failed(error);
  return empty_strided(tensor.shape(), strides_in_order(tensor.shape(), tensor.dim_order()), tensor.scalar_type());
}

Tensor empty_strided(std::vector<int64_t> shape, std::vector<int64_t> strides, int32_t scalar_type) {
  Error error;
  // Make a tensor that only describes the layout, to compute the size that the strides need. The tensor's memory is
  // never accessed.
  alignas(16) static char anywhere[16];
  const Tensor layout = for_blob(anywhere, shape, scalar_type).strides(strides).make();
  if (layout.empty()) return layout;
  const auto elements = static_cast<int64_t>(layout.readable_bytes() / scalar_type_info(scalar_type).size);
  return Tensor(scalar_type, {elements}).as_strided(std::move(shape), std::move(strides));
}

namespace {

// Sets the elements of a tensor, in row-major order, to the results of calls of `next`.
template <typename Next>
Tensor filled(Tensor tensor, const Next &next) {
  if (tensor.empty()) return tensor;
  Error error;
  if (tensor.read_only()) {
    (void)fail(error, EDGECORE_INVALID_ARGUMENT, kReadOnly);
    return Tensor::failed(error);
  }
  const bool has_numbers = with_type(tensor.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    auto *data = static_cast<T *>(tensor.data());
    for_each_element(tensor.shape(), tensor.strides(), tensor.strides(), tensor.count(),
                     [&](int64_t at, int64_t) { data[at] = convert_number<T>(next()); });
  });
  if (has_numbers) return tensor;
  (void)fail(error, EDGECORE_NOT_SUPPORTED, "Tensors of type ", scalar_type_info(tensor.scalar_type()).name,
             " cannot be filled with numbers.");
  return Tensor::failed(error);
}

// State of the random generator SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014).
thread_local uint64_t random_state = 0;

uint64_t random_bits() {
  uint64_t bits = random_state += 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

// Returns a random number in [0, 1) that is a multiple of 2^-bits.
double random_fraction(int bits) { return std::ldexp(static_cast<double>(random_bits() >> (64 - bits)), -bits); }

// Returns the number of bits of a fraction in [0, 1) that a float type can represent (its significand).
int fraction_bits(int32_t scalar_type) {
  return scalar_type == ScalarType::kFloat64    ? 53
         : scalar_type == ScalarType::kFloat32  ? 24
         : scalar_type == ScalarType::kBFloat16 ? 8
                                                : 11;
}

double random_normal() {
  const double radius = std::sqrt(-2 * std::log(1 - random_fraction(53)));
  return radius * std::cos(2 * 3.14159265358979323846 * random_fraction(53));
}

// Returns `tensor`, or an empty tensor with an error that names `function` if the dtype is not a float type.
Tensor of_floats(Tensor tensor, const char *function) {
  if (tensor.empty() || is_float_type(tensor.scalar_type())) return tensor;
  Error error;
  (void)fail(error, EDGECORE_INVALID_ARGUMENT, function, " needs a type of floats, not ",
             scalar_type_info(tensor.scalar_type()).name, ".");
  return Tensor::failed(error);
}

Tensor random_uniform(Tensor tensor) {
  const int bits = fraction_bits(tensor.scalar_type());
  return filled(of_floats(std::move(tensor), "rand"), [bits] { return random_fraction(bits); });
}

Tensor random_integers(Tensor tensor, int64_t low, int64_t high) {
  if (low < high) {
    const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    return filled(std::move(tensor),
                  [low, range] { return static_cast<int64_t>(static_cast<uint64_t>(low) + random_bits() % range); });
  }
  Error error;
  (void)fail(error, EDGECORE_INVALID_ARGUMENT, "randint needs a range; got ", low, " to ", high, ".");
  return Tensor::failed(error);
}

}  // namespace

Tensor fill(Tensor tensor, double value) {
  return filled(std::move(tensor), [value] { return value; });
}

Tensor fill(Tensor tensor, int64_t value) {
  return filled(std::move(tensor), [value] { return value; });
}

void seed_random(uint64_t seed) { random_state = seed; }

Tensor rand(std::vector<int64_t> shape, int32_t scalar_type) {
  return random_uniform(empty(std::move(shape), scalar_type));
}
Tensor rand_like(const Tensor &tensor) { return random_uniform(empty_like(tensor)); }

Tensor randn(std::vector<int64_t> shape, int32_t scalar_type) {
  return filled(of_floats(empty(std::move(shape), scalar_type), "randn"), random_normal);
}
Tensor randn_like(const Tensor &tensor) { return filled(of_floats(empty_like(tensor), "randn"), random_normal); }

Tensor randint(int64_t low, int64_t high, std::vector<int64_t> shape, int32_t scalar_type) {
  return random_integers(empty(std::move(shape), scalar_type), low, high);
}
Tensor randint_like(const Tensor &tensor, int64_t low, int64_t high) {
  return random_integers(empty_like(tensor), low, high);
}

}  // namespace edgecore
