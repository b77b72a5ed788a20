// General matrix multiplication (GEMM) on all threads of the host.
#ifndef EDGECORE_KERNELS_GEMM_H_
#define EDGECORE_KERNELS_GEMM_H_

#include "lib/call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// A matrix operand, with leading dimension ld: element (i, j) is data[i * ld + j], or data[j * ld + i] if `transposed`.
template <class C>
struct Matrix {
  const C *data;
  int64_t ld;
  bool transposed = false;
};

// The output c of a GEMM, row-major without gaps: c = alpha a b + bias, or c += alpha a b if `add` is true.
template <class C>
struct GemmOut {
  C *data;
  bool add = true;
  const C *bias = nullptr;  // one number for each of the n columns, or NULL; ignored if `add` is true
};

// Computes `count` products of m x k and k x n matrices. Consecutive matrices of operands a, b and c are a_step, b_step
// and c_step elements apart. Returns false after a recorded failure. C is float, double or int64_t.
template <class C>
bool gemm(Call &call, int64_t count, int64_t m, int64_t n, int64_t k, C alpha, Matrix<C> a, int64_t a_step, Matrix<C> b,
          int64_t b_step, GemmOut<C> c, int64_t c_step);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_GEMM_H_
