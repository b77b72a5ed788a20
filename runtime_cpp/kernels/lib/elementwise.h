// The common part of all elementwise kernels: broadcasting, strides, dtype conversion and threads. An operator provides
// only a loop over dense arrays for each compute type (float, double, int64).
#ifndef EDGECORE_KERNELS_ELEMENTWISE_H_
#define EDGECORE_KERNELS_ELEMENTWISE_H_

#include "lib/convert.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// The number arguments of an operator (such as alpha), converted to every compute type, because a loop reads them in
// the type in which it computes.
struct Params {
  float f[3] = {};
  double d[3] = {};
  int64_t i[3] = {};
  void set(int index, Scalar s) {
    f[index] = s.as<float>();
    d[index] = s.as<double>();
    i[index] = s.as<int64_t>();
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

// A function that computes n elements of a dense output from dense inputs. The output must not overlap an input.
using DenseFn = void (*)(const void *const *in, void *out, int64_t n, const Params &params);

// The functions of an operator, one for each compute type (float, double, int64); NULL if the operator lacks this type.
struct Functions {
  DenseFn by_compute[3];
};

// Computes out[i] = F::of(a[i], b[i], c[i], params) for i in [0, n), where a, b and c are the inputs; an input number
// kArity or higher counts as 0. F::of(C a, C b, C c, const C *params) is the scalar function of an operator.
template <class F, class C, int kArity>
void dense_loop(const void *const *in, void *out, int64_t n, const Params &params) {
  using R = decltype(F::of(C{}, C{}, C{}, static_cast<const C *>(nullptr)));
  const C *p = params.of<C>();
  const C values[3] = {p[0], p[1], p[2]};  // a local copy, which stores to `out` cannot change
  const C *__restrict a = static_cast<const C *>(in[0]);
  const C *__restrict b = static_cast<const C *>(in[kArity > 1 ? 1 : 0]);
  const C *__restrict c = static_cast<const C *>(in[kArity > 2 ? 2 : 0]);
  R *__restrict y = static_cast<R *>(out);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = F::of(a[i], kArity > 1 ? b[i] : C{}, kArity > 2 ? c[i] : C{}, values);
  }
}

template <class F, class C, int kArity>
constexpr DenseFn dense_function() {
  if constexpr (selected(compute_for<C>())) {
    return &dense_loop<F, C, kArity>;
  } else {
    return nullptr;
  }
}

template <class F, int kArity>
constexpr Functions real_functions() {
  return {{dense_function<F, float, kArity>(), dense_function<F, double, kArity>(), nullptr}};
}
template <class F, int kArity>
constexpr Functions int_functions() {
  return {{nullptr, nullptr, dense_function<F, int64_t, kArity>()}};
}
template <class F, int kArity>
constexpr Functions all_functions() {
  return {
      {dense_function<F, float, kArity>(), dense_function<F, double, kArity>(), dense_function<F, int64_t, kArity>()}};
}

enum class ResultKind { kSame, kBool };

// Resizes `out` to the broadcast shape of the inputs. For each element, computes out = f(inputs...), where `functions`
// has an f for each compute type. `common` is the promoted dtype of the inputs. With ResultKind::kBool f writes bytes 0
// or 1.
int32_t elementwise(Call &call, Tensor out, const Tensor *inputs, int count, Type common, ResultKind result,
                    const Functions &functions, const Params &params);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_ELEMENTWISE_H_
