// The engine of elementwise kernels: an operator is a few loops over dense arrays of a compute type; broadcasting,
// strides, conversion and threads happen here.
#ifndef EDGECORE_KERNELS_ELEMENTWISE_H_
#define EDGECORE_KERNELS_ELEMENTWISE_H_

#include "lib/convert.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Scalar parameters of an operator in every compute type.
struct Params {
  float f[3] = {};
  double d[3] = {};
  int64_t i[3] = {};
  void set(int at, Scalar s) {
    f[at] = s.as<float>();
    d[at] = s.as<double>();
    i[at] = s.as<int64_t>();
  }
  template <class C>
  const C *of() const;
};
template <>
inline const float *Params::of<float>() const {
  return f;
}
template <>
inline const double *Params::of<double>() const {
  return d;
}
template <>
inline const int64_t *Params::of<int64_t>() const {
  return i;
}

// n elements of each dense input to a dense output. The output may be one of the inputs exactly.
using DenseFn = void (*)(const void *const *in, void *out, int64_t n, const Params &params);

// One function for each compute type; NULL where the operator is not defined.
struct Functions {
  DenseFn by_compute[3];
};

// Makes a dense loop of `static R F::of(C a, C b, C c, const C *params)` with as many operands as `Arity`.
template <class F, class C, int Arity>
void dense_loop(const void *const *in, void *out, int64_t n, const Params &params) {
  using R = decltype(F::of(C{}, C{}, C{}, static_cast<const C *>(nullptr)));
  const C *p = params.of<C>();
  const C values[3] = {p[0], p[1], p[2]};  // local: stores to out cannot change them
  const C *__restrict a = static_cast<const C *>(in[0]);
  const C *__restrict b = static_cast<const C *>(in[Arity > 1 ? 1 : 0]);
  const C *__restrict c = static_cast<const C *>(in[Arity > 2 ? 2 : 0]);
  R *__restrict y = static_cast<R *>(out);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = F::of(a[i], Arity > 1 ? b[i] : C{}, Arity > 2 ? c[i] : C{}, values);
  }
}

template <class F, class C, int Arity>
constexpr DenseFn dense_function() {
  if constexpr (selected(compute_for<C>())) {
    return &dense_loop<F, C, Arity>;
  } else {
    return nullptr;
  }
}

template <class F, int Arity>
constexpr Functions real_functions() {
  return {{dense_function<F, float, Arity>(), dense_function<F, double, Arity>(), nullptr}};
}
template <class F, int Arity>
constexpr Functions int_functions() {
  return {{nullptr, nullptr, dense_function<F, int64_t, Arity>()}};
}
template <class F, int Arity>
constexpr Functions all_functions() {
  return {{dense_function<F, float, Arity>(), dense_function<F, double, Arity>(), dense_function<F, int64_t, Arity>()}};
}

enum class ResultKind { kSame, kBool };

// out[...] = function(inputs...). `common` is the type that ATen would compute in; kBool results are bytes 0 or 1.
// Resizes out to the broadcast shape first.
int32_t elementwise(Call &call, Tensor out, const Tensor *inputs, int count, Type common, ResultKind result,
                    const Functions &functions, const Params &params);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_ELEMENTWISE_H_
