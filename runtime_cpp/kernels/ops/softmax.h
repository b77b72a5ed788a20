// Computes the softmax of one row, for several operators.
#ifndef EDGECORE_KERNELS_OPS_SOFTMAX_H_
#define EDGECORE_KERNELS_OPS_SOFTMAX_H_

#include "lib/math.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Returns the largest of n >= 1 elements; NaN if an element is NaN.
template <class C>
C max_entry(const C *x, int64_t n) {
  C lanes[16];
  C best = x[0];
  for (int l = 0; l < 16; ++l) lanes[l] = best;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int l = 0; l < 16; ++l) lanes[l] = nan_max(lanes[l], x[i + l]);
  }
  for (int l = 0; l < 16; ++l) best = nan_max(best, lanes[l]);
  for (; i < n; ++i) best = nan_max(best, x[i]);
  return best;
}

// Returns the sum of the terms exp(x[i] - shift). If kStore is true, also stores the terms to y[i]; y may be x.
template <class C, bool kStore>
C sum_of_exp(const C *x, C *y, int64_t n, C shift) {
  C lanes[16] = {};
  double sum = 0;
  int64_t i = 0;
  while (i + 16 <= n) {  // every 4096 elements, add the partial sums to a double, to keep the rounding error small
    const int64_t end = n - i > 4096 ? i + 4096 : n;
    for (; i + 16 <= end; i += 16) {
      C terms[16];  // local terms, so that the loop vectorizes even if output y is input x
      for (int l = 0; l < 16; ++l) terms[l] = exp_of(x[i + l] - shift);
      for (int l = 0; l < 16; ++l) {
        if (kStore) y[i + l] = terms[l];
        lanes[l] += terms[l];
      }
    }
    for (int l = 0; l < 16; ++l) {
      sum += static_cast<double>(lanes[l]);
      lanes[l] = 0;
    }
  }
  for (; i < n; ++i) {
    const C e = exp_of(x[i] - shift);
    if (kStore) y[i] = e;
    sum += static_cast<double>(e);
  }
  return static_cast<C>(sum);
}

// Computes the softmax of a row of n elements, whose largest is `max`. y may be x.
template <class C>
void softmax_row(const C *x, C *y, int64_t n, C max) {
  const C factor = C{1} / sum_of_exp<C, true>(x, y, n, max);
  for (int64_t i = 0; i < n; ++i) y[i] *= factor;
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_OPS_SOFTMAX_H_
