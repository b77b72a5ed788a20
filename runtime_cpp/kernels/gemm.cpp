#include "gemm.h"

#include <Eigen/Core>

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Block sizes for Eigen's product with memory that we own; Eigen's own class would allocate it.
template <class C>
class Blocking : public Eigen::internal::level3_blocking<C, C> {
 public:
  Blocking(int64_t mc, int64_t nc, int64_t kc, C *a, C *b) {
    this->m_blockA = a;
    this->m_blockB = b;
    this->m_mc = mc;
    this->m_nc = nc;
    this->m_kc = kc;
  }
};

template <class C, int OrderA, int OrderB>
void product(Blocking<C> &blocking, int64_t m, int64_t n, int64_t k, C alpha, Matrix<C> a, Matrix<C> b, C *c,
             int64_t ldc) {
  Eigen::internal::general_matrix_matrix_product<int64_t, C, OrderA, false, C, OrderB, false, Eigen::ColMajor, 1>::run(
      m, n, k, a.data, a.ld, b.data, b.ld, c, 1, ldc, alpha, blocking, nullptr);
}

template <class C>
using Vector = Eigen::Matrix<C, Eigen::Dynamic, 1>;
template <class C, int Order>
using Strided = Eigen::Map<const Eigen::Matrix<C, Eigen::Dynamic, Eigen::Dynamic, Order>, 0, Eigen::OuterStride<>>;

// y += alpha M x; M is rows x columns.
template <class C>
void matrix_vector(int64_t rows, int64_t columns, C alpha, Matrix<C> matrix, const C *x, C *y) {
  Eigen::Map<Vector<C>> target(y, rows);
  const Eigen::Map<const Vector<C>> source(x, columns);
  if (matrix.transposed) {
    const Strided<C, Eigen::ColMajor> map(matrix.data, rows, columns, Eigen::OuterStride<>(matrix.ld));
    target.noalias() += alpha * (map * source);
  } else {
    const Strided<C, Eigen::RowMajor> map(matrix.data, rows, columns, Eigen::OuterStride<>(matrix.ld));
    target.noalias() += alpha * (map * source);
  }
}

int64_t at_least_one(int64_t n) { return n < 1 ? 1 : n; }

}  // namespace

// Eigen computes column-major results: c transposed = b transposed times a transposed, so rows there are n here.
template <class C>
GemmSpace<C>::GemmSpace(Call &call, int64_t m, int64_t n, int64_t k) {
  kc_ = at_least_one(k);
  mc_ = at_least_one(n);
  nc_ = at_least_one(m);
  Eigen::internal::computeProductBlockingSizes<C, C, 1, int64_t>(kc_, mc_, nc_, 1);
  part_ = (kc_ * (mc_ + nc_) + 31) / 16 * 16;
  memory_ = call.scratch<C>(part_ * call.worker_count());
}

template <class C>
void gemm_serial(const GemmSpace<C> &space, int64_t worker, int64_t m, int64_t n, int64_t k, C alpha, Matrix<C> a,
                 Matrix<C> b, C *c, int64_t ldc) {
  if (m <= 0 || n <= 0 || k <= 0) return;
  if (n == 1 && ldc == 1 && (b.transposed || b.ld == 1)) return matrix_vector(m, k, alpha, a, b.data, c);
  if (m == 1 && (!a.transposed || a.ld == 1)) {
    return matrix_vector(n, k, alpha, {b.data, b.ld, !b.transposed}, a.data, c);
  }
  C *memory = space.memory_ + worker * space.part_;
  C *second = memory + (space.kc_ * space.mc_ + 15) / 16 * 16;
  const int64_t kc = k < space.kc_ ? k : space.kc_;
  Blocking<C> blocking(space.mc_ < n ? space.mc_ : n, space.nc_ < m ? space.nc_ : m, kc, memory, second);
  // A row-major operand is, read as its transpose, column-major.
  constexpr int kPlain = Eigen::ColMajor;
  constexpr int kOther = Eigen::RowMajor;
  if (b.transposed && a.transposed) return product<C, kOther, kOther>(blocking, n, m, k, alpha, b, a, c, ldc);
  if (b.transposed) return product<C, kOther, kPlain>(blocking, n, m, k, alpha, b, a, c, ldc);
  if (a.transposed) return product<C, kPlain, kOther>(blocking, n, m, k, alpha, b, a, c, ldc);
  product<C, kPlain, kPlain>(blocking, n, m, k, alpha, b, a, c, ldc);
}

// Integer products are rare; a row of c at a time.
template <>
GemmSpace<int64_t>::GemmSpace(Call &call, int64_t, int64_t, int64_t)
    : mc_(0), nc_(0), kc_(0), part_(0), memory_(call.scratch<int64_t>(1)) {}

template <>
void gemm_serial(const GemmSpace<int64_t> &, int64_t, int64_t m, int64_t n, int64_t k, int64_t alpha, Matrix<int64_t> a,
                 Matrix<int64_t> b, int64_t *c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      const int64_t factor = alpha * (a.transposed ? a.data[p * a.ld + i] : a.data[i * a.ld + p]);
      const int64_t step = b.transposed ? b.ld : 1;
      const int64_t *row = b.data + (b.transposed ? p : p * b.ld);
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] += factor * row[j * step];
    }
  }
}

template <class C>
bool gemm(Call &call, int64_t count, int64_t m, int64_t n, int64_t k, C alpha, Matrix<C> a, int64_t a_step, Matrix<C> b,
          int64_t b_step, C *c, int64_t c_step) {
  if (count <= 0 || m <= 0 || n <= 0 || k <= 0) return !call.failed();
  // One product is cut along its longer side, in multiples of the register block of every instruction set.
  constexpr int64_t kUnit = 48;
  const int64_t workers = call.worker_count();
  const bool by_rows = m >= n;
  const int64_t side = by_rows ? m : n;
  int64_t pieces = count >= workers || m * n * k < 65536 ? 1 : (workers + count - 1) / count;
  int64_t piece = ((side + pieces - 1) / pieces + kUnit - 1) / kUnit * kUnit;
  if (pieces == 1) piece = side;
  pieces = (side + piece - 1) / piece;
  const GemmSpace<C> space(call, by_rows ? piece : m, by_rows ? n : piece, k);
  if (!space.ok()) return false;
  const int64_t grain = 65536 / at_least_one(m * n * k / pieces) + 1;
  call.parallel(count * pieces, grain, [&](int64_t begin, int64_t end, int64_t worker) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t start = i % pieces * piece;
      const int64_t length = side - start < piece ? side - start : piece;
      Matrix<C> left = a;
      Matrix<C> right = b;
      left.data += i / pieces * a_step;
      right.data += i / pieces * b_step;
      C *target = c + i / pieces * c_step;
      if (by_rows) {
        gemm_serial(space, worker, length, n, k, alpha, left.row(start), right, target + start * n, n);
      } else {
        gemm_serial(space, worker, m, length, k, alpha, left, right.column(start), target + start, n);
      }
    }
  });
  return true;
}

#define EDGECORE_INSTANTIATE(C)                                                                                     \
  template bool gemm<C>(Call &, int64_t, int64_t, int64_t, int64_t, C, Matrix<C>, int64_t, Matrix<C>, int64_t, C *, \
                        int64_t);
template class GemmSpace<float>;
template class GemmSpace<double>;
template void gemm_serial<float>(const GemmSpace<float> &, int64_t, int64_t, int64_t, int64_t, float, Matrix<float>,
                                 Matrix<float>, float *, int64_t);
template void gemm_serial<double>(const GemmSpace<double> &, int64_t, int64_t, int64_t, int64_t, double, Matrix<double>,
                                  Matrix<double>, double *, int64_t);
EDGECORE_INSTANTIATE(float)
EDGECORE_INSTANTIATE(double)
EDGECORE_INSTANTIATE(int64_t)
#undef EDGECORE_INSTANTIATE

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
