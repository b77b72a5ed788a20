#include "lib/call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= sizes[d];
  return n;
}

bool Shape::operator==(const Shape &other) const {
  if (ndim != other.ndim) return false;
  for (int d = 0; d < ndim; ++d) {
    if (sizes[d] != other.sizes[d]) return false;
  }
  return true;
}

Shape Tensor::shape() const {
  Shape shape;
  for (int d = 0; d < ndim(); ++d) shape.push(size(d));
  return shape;
}

int64_t Tensor::numel() const {
  int64_t n = 1;
  for (int d = 0; d < ndim(); ++d) n *= size(d);
  return n;
}

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (int d = ndim() - 1; d >= 0; --d) {
    if (size(d) != 1 && stride(d) != expected) return numel() == 0;
    expected *= size(d);
  }
  return true;
}

bool Tensor::is_channels_last() const {
  if (ndim() != 4 || size(1) == 1 || size(2) * size(3) == 1) return false;
  const int order[] = {1, 3, 2, 0};
  int64_t expected = 1;
  for (int d : order) {
    if (size(d) != 1 && stride(d) != expected) return false;
    expected *= size(d);
  }
  return true;
}

int64_t Scalar::integer() const {
  if (!is_floating()) return i;
  // Saturate values outside of the range of int64: C++ does not define their conversion. NaN becomes INT64_MIN.
  if (!(d > -9.2233720368547758e18)) return INT64_MIN;
  return d < 9.2233720368547758e18 ? static_cast<int64_t>(d) : INT64_MAX;
}

void Message::put(const char *text, uint64_t size) {
  for (uint64_t i = 0; i < size && size_ < sizeof(text_); ++i) text_[size_++] = text[i];
}

Message &Message::operator<<(const char *text) {
  put(text, __builtin_strlen(text));
  return *this;
}

Message &Message::operator<<(int64_t number) {
  char digits[20];
  uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  uint64_t at = sizeof(digits);
  do {
    digits[--at] = static_cast<char>('0' + magnitude % 10);
    magnitude /= 10;
  } while (magnitude != 0);
  if (number < 0) put("-", 1);
  put(digits + at, sizeof(digits) - at);
  return *this;
}

Message &Message::operator<<(const Shape &shape) {
  put("[", 1);
  for (int d = 0; d < shape.ndim; ++d) {
    if (d > 0) put(", ", 2);
    *this << shape.sizes[d];
  }
  put("]", 1);
  return *this;
}

// Returns a float32 tensor without dims, shared by all threads. Call::tensor() and the like return this tensor after a
// failure, so that a kernel can read all its arguments before it checks failed(). No kernel writes to the tensor,
// because resize() returns false after a failure.
static Tensor dummy_tensor() {
  static int64_t storage[1];
  static edgecore_tensor tensor = {
      {}, 0,      static_cast<int32_t>(Type::kF32), {storage, 0, 0, 0, {}, storage, storage, 0}, nullptr, nullptr,
      0,  nullptr};
  return {&tensor};
}

const edgecore_value *Call::value(uint64_t i) {
  static const edgecore_value none = {};
  if (i < call_->arg_count) {
    const char *base = reinterpret_cast<const char *>(call_->args) + i * call_->arg_stride;
    return reinterpret_cast<const edgecore_value *>(base);
  }
  fail(EDGECORE_INVALID_PROGRAM, Message() << "argument " << static_cast<int64_t>(i) << " is missing: the call has "
                                           << static_cast<int64_t>(call_->arg_count) << " arguments");
  return &none;
}

Tensor Call::checked(edgecore_tensor *tensor, uint64_t i, bool complex) {
  const int64_t at = static_cast<int64_t>(i);
  if (tensor == nullptr) {
    fail(EDGECORE_INVALID_TYPE, Message() << "argument " << at << " must be a tensor");
  } else if (tensor->dl.ndim < 0 || tensor->dl.ndim > kMaxDims) {
    fail(EDGECORE_NOT_SUPPORTED, Message() << "argument " << at << " has " << int64_t{tensor->dl.ndim}
                                           << " dims; at most " << int64_t{kMaxDims} << " are supported");
  } else if (complex && part_of(Tensor{tensor}.type()) == Type::kNone) {
    fail(EDGECORE_INVALID_TYPE, Message() << "argument " << at << " must be a complex tensor");
  } else if (is_known(Tensor{tensor}.type()) && !selected(Tensor{tensor}.type())) {
    fail(EDGECORE_NOT_SUPPORTED,
         Message() << "argument " << at << " is " << Tensor{tensor}.type()
                   << ", a dtype that these kernels were built without; name a .pte with it in edgecore_kernels()");
  } else if (!complex && !is_supported(Tensor{tensor}.type())) {
    fail(EDGECORE_NOT_SUPPORTED, Message() << "argument " << at << " has scalar type " << int64_t{tensor->scalar_type}
                                           << ", which this kernel library does not support");
  } else if (tensor->buffer != nullptr) {
    fail(EDGECORE_NOT_SUPPORTED, Message()
                                     << "argument " << at << " is in the memory of a device; copy it to the CPU first");
  } else if (tensor->dl.data == nullptr && Tensor{tensor}.numel() != 0) {
    fail(EDGECORE_INVALID_STATE,
         Message() << "argument " << at << " of shape " << Tensor{tensor}.shape() << " has no memory");
  } else {
    return {tensor};
  }
  return dummy_tensor();
}

Tensor Call::tensor(uint64_t i) {
  const edgecore_value *v = value(i);
  return checked(v->tag == EDGECORE_TAG_TENSOR ? v->as.tensor : nullptr, i);
}

Tensor Call::complex_tensor(uint64_t i) {
  const edgecore_value *v = value(i);
  return checked(v->tag == EDGECORE_TAG_TENSOR ? v->as.tensor : nullptr, i, true);
}

Tensor Call::optional_tensor(uint64_t i) { return is_none(i) ? Tensor{} : tensor(i); }

bool Call::is_none(uint64_t i) { return value(i)->tag == EDGECORE_TAG_NONE; }

Scalar Call::scalar(uint64_t i) {
  const edgecore_value *v = value(i);
  Scalar s;
  s.tag = v->tag;
  if (v->tag == EDGECORE_TAG_DOUBLE) {
    s.d = v->as.d;
  } else if (v->tag == EDGECORE_TAG_INT) {
    s.i = v->as.i;
  } else if (v->tag == EDGECORE_TAG_BOOL) {
    s.i = v->as.b != 0;
  } else {
    fail(EDGECORE_INVALID_TYPE, Message() << "argument " << static_cast<int64_t>(i) << " must be a number");
  }
  return s;
}

int64_t Call::integer(uint64_t i) {
  const Scalar s = scalar(i);
  if (s.is_floating()) {
    fail(EDGECORE_INVALID_TYPE, Message() << "argument " << static_cast<int64_t>(i) << " must be an integer");
  }
  return s.integer();
}

const edgecore_list *Call::list(uint64_t i, uint32_t tag, const char *expected) {
  static const edgecore_list empty = {};
  const edgecore_value *v = value(i);
  if (v->tag == EDGECORE_TAG_NONE) return &empty;
  if (v->tag == tag && v->as.list != nullptr) return v->as.list;
  fail(EDGECORE_INVALID_TYPE, Message() << "argument " << static_cast<int64_t>(i) << " must be " << expected);
  return &empty;
}

Ints Call::ints(uint64_t i) {
  const edgecore_list *l = list(i, EDGECORE_TAG_INT_LIST, "a list of integers");
  return {l->items.ints, static_cast<int64_t>(l->count)};
}

const double *Call::doubles(uint64_t i, int64_t *count) {
  const edgecore_list *l = list(i, EDGECORE_TAG_DOUBLE_LIST, "a list of numbers");
  *count = static_cast<int64_t>(l->count);
  return l->items.doubles;
}

const uint8_t *Call::bools(uint64_t i, int64_t count) {
  const edgecore_list *l = list(i, EDGECORE_TAG_BOOL_LIST, "a list of bools");
  if (!failed() && static_cast<int64_t>(l->count) != count) {
    fail(EDGECORE_INVALID_ARGUMENT, Message() << "argument " << static_cast<int64_t>(i) << " must have " << count
                                              << " entries but has " << static_cast<int64_t>(l->count));
  }
  return l->items.bools;
}

edgecore_str Call::string(uint64_t i) {
  const edgecore_list *l = list(i, EDGECORE_TAG_STRING, "a string");
  return {l->items.chars, l->count};
}

int64_t Call::tensor_count(uint64_t i) {
  return static_cast<int64_t>(list(i, EDGECORE_TAG_TENSOR_LIST, "a list of tensors")->count);
}

Tensor Call::list_optional(uint64_t i, int64_t item) {
  const edgecore_list *l = list(i, EDGECORE_TAG_TENSOR_LIST, "a list of tensors");
  edgecore_tensor *tensor = item < static_cast<int64_t>(l->count) ? l->items.tensors[item] : nullptr;
  return tensor == nullptr ? Tensor{} : checked(tensor, i);
}

Tensor Call::list_tensor(uint64_t i, int64_t item) {
  const Tensor tensor = list_optional(i, item);
  return tensor.t != nullptr ? tensor : checked(nullptr, i);
}

edgecore_value *Call::result(uint64_t i) {
  static edgecore_value unused;
  const edgecore_value *v = value(i);
  return failed() ? &unused : const_cast<edgecore_value *>(v);
}

int Call::wrap_dim(int64_t dim, int ndim) {
  const int64_t count = ndim == 0 ? 1 : ndim;
  if (dim < -count || dim >= count) {
    fail(EDGECORE_INVALID_ARGUMENT, Message() << "dim " << dim << " is out of range for " << int64_t{ndim} << " dims");
    return 0;
  }
  return static_cast<int>(dim < 0 ? dim + count : dim);
}

int32_t Call::fail(int32_t code, const Message &text) {
  if (failed()) return status_;
  const edgecore_str detail = text.str();
  Message message;
  message << op_ << ": ";
  message.put(detail.data, detail.size);
  status_ = call_->host->fail(call_->error, code, message.str());
  if (status_ == EDGECORE_OK) status_ = code;
  return status_;
}

bool Call::check(bool ok, const char *text) {
  if (!ok) fail(EDGECORE_INVALID_ARGUMENT, Message() << text);
  return !failed();
}

bool Call::check_same_shape(const Shape &expected, const Shape &actual, const char *name) {
  if (!(actual == expected)) {
    fail(EDGECORE_INVALID_ARGUMENT, Message()
                                        << name << " has shape " << actual << " but must have shape " << expected);
  }
  return !failed();
}

bool Call::resize(Tensor out, const Shape &shape, const char *name) {
  if (failed()) return false;
  if (out.ndim() == shape.ndim && has_resize()) return host_resize(out, shape.sizes);
  if (out.shape() == shape) return true;
  fail(EDGECORE_INVALID_ARGUMENT,
       Message() << "tensor '" << name << "' has shape " << out.shape() << " but the result has shape " << shape);
  return false;
}

bool Call::keep_shape(Tensor out) { return !failed() && (!has_resize() || host_resize(out, out.t->dl.shape)); }

bool Call::has_resize() const {
  const edgecore_host *host = call_->host;
  return EDGECORE_HAS(host, resize) && host->resize != nullptr;
}

// Asks the host to set an output's shape. Kernels must always do so, because resize also refuses read-only tensors.
bool Call::host_resize(Tensor out, const int64_t *sizes) {
  const int32_t code = call_->host->resize(call_->scope, out.t, sizes, out.ndim(), call_->error);
  if (code != EDGECORE_OK) status_ = code;
  return code == EDGECORE_OK;
}

bool Call::check_cast(Type from, Tensor out) {
  if (!can_cast(from, out.type())) {
    fail(EDGECORE_INVALID_TYPE,
         Message() << "a result of dtype " << from << " cannot be stored in an output of dtype " << out.type());
  }
  return !failed();
}

void *Call::optional_scratch(int64_t bytes) {
  const edgecore_host *host = call_->host;
  if (failed() || !EDGECORE_HAS(host, scratch) || host->scratch == nullptr) return nullptr;
  return host->scratch(call_->scope, static_cast<uint64_t>(bytes > 0 ? bytes : 1), 64);
}

void *Call::scratch(int64_t bytes) {
  void *const data = optional_scratch(bytes);
  if (data == nullptr) {
    fail(EDGECORE_MEMORY_ALLOCATION_FAILED,
         Message() << "no scratch memory of " << bytes << " bytes; give the method a larger temporary allocator");
  }
  return data;
}

int64_t Call::worker_count() const {
  const edgecore_host *host = call_->host;
  if (!EDGECORE_HAS(host, worker_count) || host->worker_count == nullptr) return 1;
  return host->worker_count(call_->scope);
}

void Call::parallel(int64_t n, int64_t grain, edgecore_loop_fn fn, void *arg) const {
  if (n <= 0) return;
  const edgecore_host *host = call_->host;
  if (n <= grain || !EDGECORE_HAS(host, parallel_for) || host->parallel_for == nullptr) {
    fn(arg, 0, static_cast<uint64_t>(n), 0);
    return;
  }
  host->parallel_for(call_->scope, static_cast<uint64_t>(n), static_cast<uint64_t>(grain > 0 ? grain : 1), fn, arg, 0);
}

Shape broadcast(Call &call, const Tensor *tensors, int count) {
  Shape shape;
  for (int k = 0; k < count; ++k) shape.ndim = tensors[k].ndim() > shape.ndim ? tensors[k].ndim() : shape.ndim;
  for (int d = 0; d < shape.ndim; ++d) shape.sizes[d] = 1;
  for (int k = 0; k < count; ++k) {
    const int shift = shape.ndim - tensors[k].ndim();
    for (int d = shift; d < shape.ndim; ++d) {
      const int64_t size = tensors[k].size(d - shift);
      if (size == 1 || size == shape.sizes[d]) continue;
      if (shape.sizes[d] != 1) {
        call.fail(EDGECORE_INVALID_ARGUMENT,
                  Message() << "shapes " << tensors[0].shape() << " and " << tensors[k].shape() << " do not broadcast");
        return shape;
      }
      shape.sizes[d] = size;
    }
  }
  return shape;
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
