// GEMM on all threads, used by gemm() and the convolutions. The right operand is packed panel by panel: a panel is a
// few columns, copied so that each of its rows is contiguous.
#ifndef EDGECORE_KERNELS_PACKED_GEMM_H_
#define EDGECORE_KERNELS_PACKED_GEMM_H_

#include "lib/call.h"
#include "lib/tile.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// The left operand and the result of one matrix product. Rows of `left` are dense, and `left_step` elements apart.
template <class C>
struct GemmOperands {
  const C *left;
  int64_t left_step;
  GemmResult<C> result;
};

// Computes rows [row0, row1) of the result, in the columns of one panel of the right operand. The sums have only the
// terms [k0, k0 + depth) of the inner dimension. If k0 > 0, adds the sums to the result, and does not add the bias.
template <class C>
void multiply_rows(const GemmOperands<C> &p, int64_t row0, int64_t row1, int64_t k0, int64_t depth, Panel<C> panel,
                   int64_t width, int64_t column, int64_t n) {
  for (int64_t row = row0; row < row1; row += kTileRows) {
    const int64_t m = min_of(kTileRows, row1 - row);
    const C *rows[kTileRows];
    for (int64_t i = 0; i < kTileRows; ++i) rows[i] = p.left + (row + min_of(i, m - 1)) * p.left_step + k0;
    GemmResult<C> result = p.result.at(row, column);
    if (k0 > 0) {
      result.add = true;
      result.row_bias = result.column_bias = nullptr;
    }
    multiply_panel(rows, 1, depth, panel, width, result, m, n);
  }
}

// Packs `depth` rows and n columns of a row-major matrix, whose rows are `step` elements apart, as a panel of `width`
// columns. If `direct` is true and n == width, returns a panel that refers to the matrix itself, without a copy.
template <class C>
Panel<C> pack_rows(const C *source, int64_t step, int64_t depth, int64_t n, int64_t width, bool direct, C *target) {
  if (direct && n == width) return {source, step};
  for (int64_t p = 0; p < depth; ++p, source += step) {
    C *row = target + p * width;
    if (n == width) {
      for (int64_t j = 0; j < width; j += kLanes<C>) store_vector(row + j, load_vector(source + j));
      continue;
    }
    copy_run<1>(row, source, n);
    for (int64_t j = n; j < width; ++j) row[j] = 0;
  }
  return {target, width};
}

constexpr int64_t kDepth = 1024;              // maximum rows of a packed panel; longer sums are split
constexpr int64_t kSharedBytes = 1 << 20;     // maximum bytes of the packed panels that all threads share
constexpr int64_t kLeftInCache = 512 * 1024;  // maximum bytes of a left operand that stays in the L2 cache
// minimum multiplications of a task; with fewer, waking a thread costs more than it saves
constexpr int64_t kWorkOfTask = 1 << 17;

// Computes `count` products of m x k and k x n matrices. operands(i) returns the left operand and the result of product
// i. pack(i, k0, depth, column, n, width, target) packs `depth` rows and n columns of the right operand, from (k0,
// column) on, into `target`, and returns them as a panel [depth, width] with zeros in the columns from n on; `pack` may
// write up to one vector past the end of the panel. If m is at most kTileRows, packing takes longer than it saves: then
// pack may return a panel that refers to the right operand itself.
//
// There are two schedules for the threads. (1) Usually a task packs one panel and multiplies it by all rows. (2) If
// there are fewer panels than the threads need, or if the left operand does not fit into the L2 cache and there are few
// columns, all panels are packed first, and then each task multiplies some rows by all panels.
template <class C, class Operands, class Pack>
void packed_gemm(Call &call, int64_t count, int64_t m, int64_t n, int64_t k, const Operands &operands,
                 const Pack &pack) {
  if (call.failed() || count <= 0 || m <= 0 || n <= 0) return;
  const Panels<C> panels(n);
  const int64_t workers = call.worker_count();
  const int64_t item = sizeof(C);
  const int64_t slack = kLanes<C>;
  const bool few = count * panels.count < 4 * workers;
  const bool shared = m > kTileRows && (few || (m * k * item > kLeftInCache && n <= kDepth));
  const int64_t max_depth = shared ? max_of(128, kSharedBytes / (panels.vectors * kLanes<C> * item)) : kDepth;
  const int64_t blocks = max_of(1, (k + max_depth - 1) / max_depth);
  const int64_t depth = (k + blocks - 1) / blocks;
  if (!shared) {  // schedule 1: each task multiplies one panel by all rows
    const int64_t part = round_up(depth * kPanel<C> + slack, 16);
    C *memory = call.scratch<C>(part * workers);
    if (memory == nullptr) return;
    const int64_t grain = kWorkOfTask / (m * k * kPanel<C> + 1) + 1;
    call.parallel(count * panels.count, grain, [&](int64_t begin, int64_t end, int64_t worker) {
      C *target = memory + worker * part;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t panel = i % panels.count;
        const int64_t column = panels.begin(panel);
        const int64_t width = panels.width(panel);
        const int64_t columns = min_of(width, n - column);
        const GemmOperands<C> p = operands(i / panels.count);
        int64_t k0 = 0;
        do {
          const int64_t steps = min_of(depth, k - k0);
          const Panel<C> packed = pack(i / panels.count, k0, steps, column, columns, width, target);
          multiply_rows(p, 0, m, k0, steps, packed, width, column, columns);
          k0 += depth;
        } while (k0 < k);
      }
    });
    return;
  }
  // Schedule 2: pack all panels; then a task multiplies some rows by all panels.
  const int64_t stride = round_up(depth * kPanel<C> + slack, 16);
  C *memory = call.scratch<C>(panels.count * stride);
  if (memory == nullptr) return;
  const int64_t rows = min_of(64, round_up((m + 4 * workers - 1) / (4 * workers), kTileRows));
  for (int64_t i = 0; i < count; ++i) {
    const GemmOperands<C> p = operands(i);
    int64_t k0 = 0;
    do {
      const int64_t steps = min_of(depth, k - k0);
      call.parallel(panels.count, 8192 / (steps * kPanel<C> + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t panel = begin; panel < end; ++panel) {
          const int64_t column = panels.begin(panel);
          const int64_t width = panels.width(panel);
          pack(i, k0, steps, column, min_of(width, n - column), width, memory + panel * stride);
        }
      });
      const int64_t grain = kWorkOfTask / (rows * steps * n + 1) + 1;
      call.parallel((m + rows - 1) / rows, grain, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t task = begin; task < end; ++task) {
          for (int64_t panel = 0; panel < panels.count; ++panel) {
            const int64_t column = panels.begin(panel);
            const int64_t width = panels.width(panel);
            multiply_rows<C>(p, task * rows, min_of(m, (task + 1) * rows), k0, steps, {memory + panel * stride, width},
                             width, column, min_of(width, n - column));
          }
        }
      });
      k0 += depth;
    } while (k0 < k);
  }
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_PACKED_GEMM_H_
