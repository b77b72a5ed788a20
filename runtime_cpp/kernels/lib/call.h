// A kernel's access to the arguments of its call, with checks, error messages, scratch memory and resizing of outputs.
#ifndef EDGECORE_KERNELS_CALL_H_
#define EDGECORE_KERNELS_CALL_H_

#include "edgecore/kernel.h"
#include "edgecore/processor.h"
#include "lib/types.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

#if EDGECORE_MICROCONTROLLER
constexpr int kMaxDims = 8;  // maximum rank of a tensor: small, because shapes are on the stack
constexpr int kMaxMessage = 160;
#else
constexpr int kMaxDims = 16;
constexpr int kMaxMessage = 480;
#endif

struct Shape {
  int ndim = 0;
  int64_t sizes[kMaxDims] = {};

  void push(int64_t size) { sizes[ndim++] = size; }
  int64_t numel() const;
  bool operator==(const Shape &other) const;
};

// A pointer to a tensor that the host owns. Each member function reads the host's struct again, because a resize may
// change the tensor's shape, strides and address.
struct Tensor {
  edgecore_tensor *t = nullptr;

  Type type() const { return static_cast<Type>(t->scalar_type); }
  int ndim() const { return t->dl.ndim; }
  int64_t size(int dim) const { return t->dl.shape[dim]; }
  int64_t stride(int dim) const { return t->dl.strides[dim]; }  // returns the stride of a dim in elements
  char *data() const { return static_cast<char *>(t->dl.data) + t->dl.byte_offset; }
  Shape shape() const;
  int64_t numel() const;
  // Returns true if the elements are row-major without gaps. A dim of size 1 may have any stride.
  bool is_contiguous() const;
  // Returns true if the tensor has four dims N, C, H, W and its elements lie in memory in the order N, H, W, C without
  // gaps. Returns false if C is 1 or H and W are 1, because the tensor then is also contiguous.
  bool is_channels_last() const;
};

// A number argument. `d` has the value of a float (tag EDGECORE_TAG_DOUBLE), `i` the value of an integer or bool.
struct Scalar {
  uint32_t tag = EDGECORE_TAG_INT;
  int64_t i = 0;
  double d = 0;

  bool is_floating() const { return tag == EDGECORE_TAG_DOUBLE; }
  Type type() const {  // returns the dtype that type promotion uses for a number argument
    return tag == EDGECORE_TAG_DOUBLE ? Type::kF32 : tag == EDGECORE_TAG_BOOL ? Type::kBool : Type::kI64;
  }
  double real() const { return is_floating() ? d : static_cast<double>(i); }
  int64_t integer() const;
  template <class C>
  C as() const;
};
template <>
inline float Scalar::as<float>() const {
  return static_cast<float>(real());
}
template <>
inline double Scalar::as<double>() const {
  return real();
}
template <>
inline int64_t Scalar::as<int64_t>() const {
  return integer();
}

struct Ints {
  const int64_t *data = nullptr;
  int64_t count = 0;
  int64_t operator[](int64_t i) const { return data[i]; }
};

// An error message in a buffer of fixed size. Text that does not fit is cut off.
class Message {
 public:
  Message &operator<<(const char *text);
  Message &operator<<(int64_t number);
  Message &operator<<(const Shape &shape);
  Message &operator<<(Type type) { return *this << type_name(type); }
  void put(const char *text, uint64_t size);
  edgecore_str str() const { return {text_, size_}; }

 private:
  char text_[kMaxMessage];
  uint64_t size_ = 0;
};

// One call of a kernel. tensor(i), scalar(i) etc. return argument i and check its type; the arguments of the operator's
// schema come first, then its outputs. On an error these members record the failure and return a harmless value, so
// that a kernel can read all its arguments first and then check failed() once.
class Call {
 public:
  Call(const edgecore_call *call, const char *op) : call_(call), op_(op) {}

  Tensor tensor(uint64_t i);
  // Returns argument i, a tensor of complex dtype; tensor() refuses such a tensor. Functions with Tensor parameters do
  // not support complex dtypes: pass them a real view of the tensor (RealView in ops/complex.h).
  Tensor complex_tensor(uint64_t i);
  Tensor optional_tensor(uint64_t i);  // returns argument i; Tensor::t is NULL if the argument is None
  Scalar scalar(uint64_t i);
  bool is_none(uint64_t i);
  int64_t integer(uint64_t i);
  int64_t integer_or(uint64_t i, int64_t default_value) { return is_none(i) ? default_value : integer(i); }
  double real(uint64_t i) { return scalar(i).real(); }
  bool flag(uint64_t i) { return scalar(i).integer() != 0; }
  Ints ints(uint64_t i);  // returns argument i, a list; empty if the argument is None
  const double *doubles(uint64_t i, int64_t *count);
  const uint8_t *bools(uint64_t i, int64_t count);  // returns argument i, a list of `count` bools
  edgecore_str string(uint64_t i);
  // Argument i is a list of tensors. tensor_count returns the length of the list. list_tensor and list_optional return
  // one tensor of the list; list_optional returns a tensor whose Tensor::t is NULL for an entry that is None.
  int64_t tensor_count(uint64_t i);
  Tensor list_tensor(uint64_t i, int64_t item);
  Tensor list_optional(uint64_t i, int64_t item);
  edgecore_value *result(uint64_t i);  // returns the argument to which a kernel must write its scalar result

  // dim returns argument i as a dim; wrap_dim checks a dim. Both convert a negative dim, which counts from the end: -1
  // becomes ndim - 1. A tensor without dims counts as 1-d.
  int dim(uint64_t i, int ndim) { return wrap_dim(integer(i), ndim); }
  int wrap_dim(int64_t dim, int ndim);

  bool failed() const { return status_ != EDGECORE_OK; }
  int32_t status() const { return status_; }
  // Records a failure with the message "OPERATOR: text", unless one is recorded. Returns the recorded failure's code.
  int32_t fail(int32_t code, const Message &text);
  // Records a failure with the message `text` if `ok` is false. Returns true if neither this call nor an earlier one
  // has recorded a failure.
  bool check(bool ok, const char *text);
  bool check_same_shape(const Shape &expected, const Shape &actual, const char *name);

  // Asks the host to give `out` this shape. Every kernel must call resize before it writes to `out`, even if the shape
  // stays the same, because resize also refuses tensors that are read-only. Returns false after a failure.
  bool resize(Tensor out, const Shape &shape, const char *name = "out");
  // Checks that `out` is writable: calls resize() with the shape that `out` already has.
  bool keep_shape(Tensor out);
  // Records a failure if PyTorch does not allow `out` to hold a result of dtype `from` (torch.can_cast), for example a
  // float result in an integer tensor. Returns false after a failure.
  bool check_cast(Type from, Tensor out);

  void *scratch(int64_t bytes);           // returns memory for this call, aligned to 64 bytes; NULL after a failure
  void *optional_scratch(int64_t bytes);  // like scratch, but returns NULL without recording a failure
  template <class T>
  T *scratch(int64_t count) {
    return static_cast<T *>(scratch(count * static_cast<int64_t>(sizeof(T))));
  }
  template <class T>
  T *optional_scratch(int64_t count) {
    return static_cast<T *>(optional_scratch(count * static_cast<int64_t>(sizeof(T))));
  }
  int64_t worker_count() const;
  // Splits the indices [0, n) into ranges of at least `grain` indices, and calls fn for each range on the host's
  // threads.
  void parallel(int64_t n, int64_t grain, edgecore_loop_fn fn, void *arg) const;
  // Splits the indices in the same way, and calls the C++ function object body(begin, end, worker) for each range.
  template <class Body>
  void parallel(int64_t n, int64_t grain, const Body &body) const {
    struct Thunk {
      static void EDGECORE_CALL run(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
        (*static_cast<const Body *>(arg))(static_cast<int64_t>(begin), static_cast<int64_t>(end),
                                          static_cast<int64_t>(worker));
      }
    };
    parallel(n, grain, &Thunk::run, const_cast<Body *>(&body));
  }

 private:
  const edgecore_value *value(uint64_t i);
  const edgecore_list *list(uint64_t i, uint32_t tag, const char *expected);
  Tensor checked(edgecore_tensor *tensor, uint64_t i, bool complex = false);
  bool has_resize() const;
  bool host_resize(Tensor out, const int64_t *sizes);

  const edgecore_call *call_;
  const char *op_;
  int32_t status_ = EDGECORE_OK;
};

// Returns the shape to which all the tensors broadcast. Records a failure if there is no such shape.
Shape broadcast(Call &call, const Tensor *tensors, int count);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_CALL_H_
