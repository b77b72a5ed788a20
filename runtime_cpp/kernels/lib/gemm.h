// Matrix products on the host's threads.
#ifndef EDGECORE_KERNELS_GEMM_H_
#define EDGECORE_KERNELS_GEMM_H_

#include "lib/call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// A matrix operand: element (i, j) is data[i * ld + j], or data[j * ld + i] when transposed.
template <class C>
struct Matrix {
  const C *data;
  int64_t ld;
  bool transposed = false;
};

// What a product writes, row-major without gaps: alpha a b, plus `bias` (n elements, if given), or added to c.
template <class C>
struct GemmOut {
  C *data;
  bool add = true;
  const C *bias = nullptr;  // not together with add
};

// `count` products m x k by k x n whose operands are `a_step`, `b_step`, `c_step` elements apart. False after a
// recorded failure. C: float, double, int64_t.
template <class C>
bool gemm(Call &call, int64_t count, int64_t m, int64_t n, int64_t k, C alpha, Matrix<C> a, int64_t a_step, Matrix<C> b,
          int64_t b_step, GemmOut<C> c, int64_t c_step);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_GEMM_H_
