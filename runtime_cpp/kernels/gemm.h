// Matrix products over Eigen's kernels, with blocking memory from the host and the host's threads.
#ifndef EDGECORE_KERNELS_GEMM_H_
#define EDGECORE_KERNELS_GEMM_H_

#include "call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// A matrix operand: element (i, j) is data[i * ld + j], or data[j * ld + i] when transposed.
template <class C>
struct Matrix {
  const C *data;
  int64_t ld;
  bool transposed = false;

  Matrix row(int64_t i) const { return {data + (transposed ? i : i * ld), ld, transposed}; }
  Matrix column(int64_t j) const { return {data + (transposed ? j * ld : j), ld, transposed}; }
};

// Memory for the packed blocks of products up to m x n x k, one part for each worker.
template <class C>
class GemmSpace {
 public:
  GemmSpace(Call &call, int64_t m, int64_t n, int64_t k);
  bool ok() const { return memory_ != nullptr; }

 private:
  template <class T>
  friend void gemm_serial(const GemmSpace<T> &, int64_t, int64_t, int64_t, int64_t, T, Matrix<T>, Matrix<T>, T *,
                          int64_t);
  int64_t mc_, nc_, kc_, part_;
  C *memory_;
};

// c (m x n, row-major, ldc) += alpha a b on the calling thread, which is worker `worker`.
template <class C>
void gemm_serial(const GemmSpace<C> &space, int64_t worker, int64_t m, int64_t n, int64_t k, C alpha, Matrix<C> a,
                 Matrix<C> b, C *c, int64_t ldc);

// The same on all threads, for `count` products whose operands are `a_step`, `b_step`, `c_step` elements apart.
// False after a recorded failure. C: float, double, int64_t.
template <class C>
bool gemm(Call &call, int64_t count, int64_t m, int64_t n, int64_t k, C alpha, Matrix<C> a, int64_t a_step, Matrix<C> b,
          int64_t b_step, C *c, int64_t c_step);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_GEMM_H_
