#include "threadpool.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace {

// If `flush` is true, makes the processor flush denormals to zero during the lifetime of this object.
class Denormals {
 public:
  explicit Denormals(bool flush) : flush_(flush) {
    if (flush_) saved_ = enable();
  }
  ~Denormals() {
    if (flush_) restore(saved_);
  }
  Denormals(const Denormals &) = delete;
  Denormals &operator=(const Denormals &) = delete;

 private:
#if defined(__SSE__)
  using State = unsigned int;
  static State enable() {
    const State state = _mm_getcsr();
    _mm_setcsr(state | 0x8040u);  // set the bits "flush to zero" and "denormals are zero" of MXCSR
    return state;
  }
  static void restore(State state) { _mm_setcsr(state); }
#elif defined(__aarch64__)
  using State = uint64_t;
  static State enable() {
    State state;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(state));
    restore(state | State{1} << 24);  // set the bit FZ (flush to zero) of FPCR
    return state;
  }
  static void restore(State state) { __asm__ __volatile__("msr fpcr, %0" : : "r"(state)); }
#elif defined(__arm__) && defined(__ARM_FP)
  using State = uint32_t;
  static State enable() {
    State state;
    __asm__ __volatile__("vmrs %0, fpscr" : "=r"(state));
    restore(state | State{1} << 24);  // set the bit FZ (flush to zero) of FPSCR; NEON instructions always flush
    return state;
  }
  static void restore(State state) { __asm__ __volatile__("vmsr fpscr, %0" : : "r"(state)); }
#else
  using State = int;
  static State enable() { return 0; }
  static void restore(State) {}
#endif
  bool flush_;
  State saved_ = {};
};

// Nested loops over Rank dims; the innermost Tiled loops advance by tiles. Tiles are numbered in row-major order.
// piece() runs the tiles [begin, end): it computes the position of tile `begin`, then steps from tile to tile.
template <size_t Rank, size_t Tiled, typename Call>
struct Nest {
  std::array<size_t, Rank> range;
  std::array<size_t, Tiled> tile;
  std::array<size_t, Rank> steps;  // tiles per dim
  Call call;
  bool flush_denormals;

  void piece(size_t begin, size_t end, size_t worker) const {
    const Denormals denormals(flush_denormals);
    std::array<size_t, Rank> at;  // first index of the current tile, by dim
    size_t rest = begin;
    for (size_t d = Rank; d-- > 0;) {
      at[d] = rest % steps[d] * width(d);
      rest /= steps[d];
    }
    for (size_t i = begin; i < end; ++i) {
      std::array<size_t, Tiled + 1> size;
      for (size_t t = 0; t < Tiled; ++t) {
        const size_t d = Rank - Tiled + t;
        size[t] = std::min(tile[t], range[d] - at[d]);
      }
      call(at.data(), size.data(), worker);
      for (size_t d = Rank; d-- > 0;) {
        at[d] += width(d);
        if (at[d] < range[d]) break;
        at[d] = 0;
      }
    }
  }

  size_t width(size_t d) const { return d < Rank - Tiled ? 1 : tile[d + Tiled - Rank]; }
};

constexpr uint64_t kPieces = 4;  // the tiles of a loop are split into at most this many pieces per worker

// Runs all tiles of nested loops on the pool. `call` receives the first indices of a tile, the sizes of its tiled dims,
// and the worker.
template <size_t Rank, size_t Tiled, typename Call>
void run(pthreadpool_t pool, std::array<size_t, Rank> range, std::array<size_t, Tiled> tile, uint32_t flags,
         Call call) {
  Nest<Rank, Tiled, Call> nest = {range, tile, {}, call, (flags & PTHREADPOOL_FLAG_DISABLE_DENORMALS) != 0};
  size_t total = 1;
  for (size_t d = 0; d < Rank; ++d) {
    const size_t width = nest.width(d);
    nest.steps[d] = range[d] / width + (range[d] % width != 0);
    total *= nest.steps[d];
  }
  if (total == 0) return;
  if (pool == nullptr || total == 1 || pool->host.worker_count() == 1) {
    nest.piece(0, total, pool == nullptr ? 0 : pool->host.worker_index());
    return;
  }
  // Split the tiles so that each worker runs the same number of pieces, whose sizes differ by at most one tile.
  const uint64_t workers = pool->host.worker_count();
  const uint64_t pieces = workers * std::clamp<uint64_t>(total / workers, 1, kPieces);
  pool->host.parallel_for(pieces, 1, [&](uint64_t begin, uint64_t end, uint32_t worker) {
    nest.piece(static_cast<size_t>(begin * total / pieces), static_cast<size_t>(end * total / pieces), worker);
  });
}

// The microarchitecture index that XNNPACK's tasks receive on every core: always 0, because XNNPACK has kernels for
// this index on every processor.
constexpr uint32_t kUarch = 0;

using Size = size_t;
using At = const size_t *;

}  // namespace

extern "C" {

size_t pthreadpool_get_threads_count(pthreadpool_t pool) { return pool == nullptr ? 1 : pool->host.worker_count(); }

void pthreadpool_parallelize_1d(pthreadpool_t pool, pthreadpool_task_1d_t task, void *arg, Size i, uint32_t flags) {
  run<1, 0>(pool, {i}, {}, flags, [=](At at, At, Size) { task(arg, at[0]); });
}

void pthreadpool_parallelize_1d_with_thread(pthreadpool_t pool, pthreadpool_task_1d_with_thread_t task, void *arg,
                                            Size i, uint32_t flags) {
  run<1, 0>(pool, {i}, {}, flags, [=](At at, At, Size worker) { task(arg, worker, at[0]); });
}

void pthreadpool_parallelize_1d_tile_1d(pthreadpool_t pool, pthreadpool_task_1d_tile_1d_t task, void *arg, Size i,
                                        Size ti, uint32_t flags) {
  run<1, 1>(pool, {i}, {ti}, flags, [=](At at, At size, Size) { task(arg, at[0], size[0]); });
}

void pthreadpool_parallelize_2d(pthreadpool_t pool, pthreadpool_task_2d_t task, void *arg, Size i, Size j,
                                uint32_t flags) {
  run<2, 0>(pool, {i, j}, {}, flags, [=](At at, At, Size) { task(arg, at[0], at[1]); });
}

void pthreadpool_parallelize_2d_with_thread(pthreadpool_t pool, pthreadpool_task_2d_with_thread_t task, void *arg,
                                            Size i, Size j, uint32_t flags) {
  run<2, 0>(pool, {i, j}, {}, flags, [=](At at, At, Size worker) { task(arg, worker, at[0], at[1]); });
}

void pthreadpool_parallelize_2d_tile_1d(pthreadpool_t pool, pthreadpool_task_2d_tile_1d_t task, void *arg, Size i,
                                        Size j, Size tj, uint32_t flags) {
  run<2, 1>(pool, {i, j}, {tj}, flags, [=](At at, At size, Size) { task(arg, at[0], at[1], size[0]); });
}

void pthreadpool_parallelize_2d_tile_1d_with_uarch(pthreadpool_t pool, pthreadpool_task_2d_tile_1d_with_id_t task,
                                                   void *arg, uint32_t, uint32_t, Size i, Size j, Size tj,
                                                   uint32_t flags) {
  run<2, 1>(pool, {i, j}, {tj}, flags, [=](At at, At size, Size) { task(arg, kUarch, at[0], at[1], size[0]); });
}

// XNNPACK calls this for GEMMs, whose two tiled dims are rows (i) and columns (j). The rows are made the inner loop, so
// that all rows are computed while the cache holds the weights of a tile of columns
// (third_party/patches/18-gemm-columns.patch chooses the tile sizes).
void pthreadpool_parallelize_2d_tile_2d(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_t task, void *arg, Size i,
                                        Size j, Size ti, Size tj, uint32_t flags) {
  run<2, 2>(pool, {j, i}, {tj, ti}, flags, [=](At at, At size, Size) { task(arg, at[1], at[0], size[1], size[0]); });
}

void pthreadpool_parallelize_2d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_with_id_t task,
                                                   void *arg, uint32_t, uint32_t, Size i, Size j, Size ti, Size tj,
                                                   uint32_t flags) {
  run<2, 2>(pool, {i, j}, {ti, tj}, flags,
            [=](At at, At size, Size) { task(arg, kUarch, at[0], at[1], size[0], size[1]); });
}

void pthreadpool_parallelize_3d(pthreadpool_t pool, pthreadpool_task_3d_t task, void *arg, Size i, Size j, Size k,
                                uint32_t flags) {
  run<3, 0>(pool, {i, j, k}, {}, flags, [=](At at, At, Size) { task(arg, at[0], at[1], at[2]); });
}

void pthreadpool_parallelize_3d_tile_1d(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_t task, void *arg, Size i,
                                        Size j, Size k, Size tk, uint32_t flags) {
  run<3, 1>(pool, {i, j, k}, {tk}, flags, [=](At at, At size, Size) { task(arg, at[0], at[1], at[2], size[0]); });
}

void pthreadpool_parallelize_3d_tile_1d_with_thread(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_with_thread_t task,
                                                    void *arg, Size i, Size j, Size k, Size tk, uint32_t flags) {
  run<3, 1>(pool, {i, j, k}, {tk}, flags,
            [=](At at, At size, Size worker) { task(arg, worker, at[0], at[1], at[2], size[0]); });
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_with_id_t task,
                                                   void *arg, uint32_t, uint32_t, Size i, Size j, Size k, Size tk,
                                                   uint32_t flags) {
  run<3, 1>(pool, {i, j, k}, {tk}, flags,
            [=](At at, At size, Size) { task(arg, kUarch, at[0], at[1], at[2], size[0]); });
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(pthreadpool_t pool,
                                                               pthreadpool_task_3d_tile_1d_with_id_with_thread_t task,
                                                               void *arg, uint32_t, uint32_t, Size i, Size j, Size k,
                                                               Size tk, uint32_t flags) {
  run<3, 1>(pool, {i, j, k}, {tk}, flags,
            [=](At at, At size, Size worker) { task(arg, kUarch, worker, at[0], at[1], at[2], size[0]); });
}

void pthreadpool_parallelize_3d_tile_2d(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_t task, void *arg, Size i,
                                        Size j, Size k, Size tj, Size tk, uint32_t flags) {
  run<3, 2>(pool, {i, k, j}, {tk, tj}, flags,
            [=](At at, At size, Size) { task(arg, at[0], at[2], at[1], size[1], size[0]); });
}

void pthreadpool_parallelize_3d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_with_id_t task,
                                                   void *arg, uint32_t, uint32_t, Size i, Size j, Size k, Size tj,
                                                   Size tk, uint32_t flags) {
  run<3, 2>(pool, {i, j, k}, {tj, tk}, flags,
            [=](At at, At size, Size) { task(arg, kUarch, at[0], at[1], at[2], size[0], size[1]); });
}

void pthreadpool_parallelize_4d(pthreadpool_t pool, pthreadpool_task_4d_t task, void *arg, Size i, Size j, Size k,
                                Size l, uint32_t flags) {
  run<4, 0>(pool, {i, j, k, l}, {}, flags, [=](At at, At, Size) { task(arg, at[0], at[1], at[2], at[3]); });
}

void pthreadpool_parallelize_4d_tile_2d(pthreadpool_t pool, pthreadpool_task_4d_tile_2d_t task, void *arg, Size i,
                                        Size j, Size k, Size l, Size tk, Size tl, uint32_t flags) {
  run<4, 2>(pool, {i, j, k, l}, {tk, tl}, flags,
            [=](At at, At size, Size) { task(arg, at[0], at[1], at[2], at[3], size[0], size[1]); });
}

void pthreadpool_parallelize_4d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_4d_tile_2d_with_id_t task,
                                                   void *arg, uint32_t, uint32_t, Size i, Size j, Size k, Size l,
                                                   Size tk, Size tl, uint32_t flags) {
  run<4, 2>(pool, {i, j, k, l}, {tk, tl}, flags,
            [=](At at, At size, Size) { task(arg, kUarch, at[0], at[1], at[2], at[3], size[0], size[1]); });
}

void pthreadpool_parallelize_5d(pthreadpool_t pool, pthreadpool_task_5d_t task, void *arg, Size i, Size j, Size k,
                                Size l, Size m, uint32_t flags) {
  run<5, 0>(pool, {i, j, k, l, m}, {}, flags, [=](At at, At, Size) { task(arg, at[0], at[1], at[2], at[3], at[4]); });
}

void pthreadpool_parallelize_5d_tile_2d(pthreadpool_t pool, pthreadpool_task_5d_tile_2d_t task, void *arg, Size i,
                                        Size j, Size k, Size l, Size m, Size tl, Size tm, uint32_t flags) {
  run<5, 2>(pool, {i, j, k, l, m}, {tl, tm}, flags,
            [=](At at, At size, Size) { task(arg, at[0], at[1], at[2], at[3], at[4], size[0], size[1]); });
}

void pthreadpool_parallelize_6d_tile_2d(pthreadpool_t pool, pthreadpool_task_6d_tile_2d_t task, void *arg, Size i,
                                        Size j, Size k, Size l, Size m, Size n, Size tm, Size tn, uint32_t flags) {
  run<6, 2>(pool, {i, j, k, l, m, n}, {tm, tn}, flags,
            [=](At at, At size, Size) { task(arg, at[0], at[1], at[2], at[3], at[4], at[5], size[0], size[1]); });
}

}  // extern "C"
