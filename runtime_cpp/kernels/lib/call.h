// The arguments of a kernel call: checked access, error sentences, scratch, resizing.
#ifndef EDGECORE_KERNELS_CALL_H_
#define EDGECORE_KERNELS_CALL_H_

#include "edgecore/kernel.h"
#include "lib/types.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

constexpr int kMaxDims = 16;

struct Shape {
  int ndim = 0;
  int64_t sizes[kMaxDims] = {};

  void push(int64_t size) { sizes[ndim++] = size; }
  int64_t numel() const;
  bool operator==(const Shape &other) const;
};

// A view of a host's tensor; reads through the pointer, since a resize may change shape, strides and address.
struct Tensor {
  edgecore_tensor *t = nullptr;

  Type type() const { return static_cast<Type>(t->scalar_type); }
  int ndim() const { return t->dl.ndim; }
  int64_t size(int dim) const { return t->dl.shape[dim]; }
  int64_t stride(int dim) const { return t->dl.strides[dim]; }  // in elements
  char *data() const { return static_cast<char *>(t->dl.data) + t->dl.byte_offset; }
  Shape shape() const;
  int64_t numel() const;
  // Row-major without gaps; size-1 dims may have any stride.
  bool is_contiguous() const;
  // Four dims, laid out N, H, W, C without gaps (C > 1 and more than one pixel, else it counts as contiguous).
  bool is_channels_last() const;
};

// An integer, float or bool argument.
struct Scalar {
  uint32_t tag = EDGECORE_TAG_INT;
  int64_t i = 0;
  double d = 0;

  bool is_floating() const { return tag == EDGECORE_TAG_DOUBLE; }
  Type type() const {  // as an operand of promotion
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

// A sentence in a fixed buffer; what does not fit is cut off.
class Message {
 public:
  Message &operator<<(const char *text);
  Message &operator<<(int64_t number);
  Message &operator<<(const Shape &shape);
  Message &operator<<(Type type) { return *this << type_name(type); }
  edgecore_str str() const { return {text_, size_}; }

 private:
  void put(const char *text, uint64_t size);
  char text_[480];
  uint64_t size_ = 0;
};

// Accessors check the tag and remember the first failure; they then return harmless values, so that a kernel reads all
// its arguments and asks once. Index i counts the operator's schema arguments, then its outputs.
class Call {
 public:
  Call(const edgecore_call *call, const char *op) : call_(call), op_(op) {}

  Tensor tensor(uint64_t i);
  // A complex tensor; nothing that takes a Tensor handles its type, see part_of() and real_view().
  Tensor complex_tensor(uint64_t i);
  Tensor optional_tensor(uint64_t i);  // t is NULL when absent
  Scalar scalar(uint64_t i);
  bool is_none(uint64_t i);
  int64_t integer(uint64_t i);
  int64_t integer_or(uint64_t i, int64_t otherwise) { return is_none(i) ? otherwise : integer(i); }
  double real(uint64_t i) { return scalar(i).real(); }
  bool flag(uint64_t i) { return scalar(i).integer() != 0; }
  Ints ints(uint64_t i);  // empty when None
  const double *doubles(uint64_t i, int64_t *count);
  const uint8_t *bools(uint64_t i, int64_t count);  // a list of that many
  edgecore_str string(uint64_t i);
  int64_t tensor_count(uint64_t i);                // of a tensor list
  Tensor list_tensor(uint64_t i, int64_t item);    // of a tensor list
  Tensor list_optional(uint64_t i, int64_t item);  // may be absent
  edgecore_value *result(uint64_t i);              // where a scalar result goes

  // A dim argument in [0, ndim); zero-dimensional tensors count as having one dim.
  int dim(uint64_t i, int ndim) { return wrap_dim(integer(i), ndim); }
  int wrap_dim(int64_t dim, int ndim);

  bool failed() const { return status_ != EDGECORE_OK; }
  int32_t status() const { return status_; }
  // Records the failure "OP: text" and returns the code, the first one only.
  int32_t fail(int32_t code, const Message &text);
  // Fails unless `ok`; returns whether the call is still good.
  bool check(bool ok, const char *text);
  bool check_same_shape(const Shape &a, const Shape &b, const char *what);

  // Gives `out` the shape through the host, before anything is written to it. False after a failure.
  bool resize(Tensor out, const Shape &shape, const char *name = "out");
  // The same for the shape that `out` has.
  bool keep_shape(Tensor out);
  // Fails if a result of type `from` may not be stored in `out`.
  bool check_cast(Type from, Tensor out);

  void *scratch(int64_t bytes);  // 64-byte aligned; NULL after a recorded failure
  template <class T>
  T *scratch(int64_t count) {
    return static_cast<T *>(scratch(count * static_cast<int64_t>(sizeof(T))));
  }
  int64_t worker_count() const;
  // fn over [0, n) in pieces of at least `grain`.
  void parallel(int64_t n, int64_t grain, edgecore_loop_fn fn, void *arg) const;
  // body(begin, end, worker) over [0, n).
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
  const edgecore_list *list(uint64_t i, uint32_t tag, const char *what);
  Tensor checked(edgecore_tensor *tensor, uint64_t i, bool complex = false);
  bool has_resize() const;
  bool host_resize(Tensor out, const int64_t *sizes);

  const edgecore_call *call_;
  const char *op_;
  int32_t status_ = EDGECORE_OK;
};

Shape broadcast(Call &call, const Tensor *tensors, int count);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_CALL_H_
