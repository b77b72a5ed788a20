#include "threadpool.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace {

// Flushes denormals to zero while it lives, if asked to.
class Denormals {
 public:
  explicit Denormals(bool flush) : flush_(flush) {
    if (flush_) saved_ = Enable();
  }
  ~Denormals() {
    if (flush_) Restore(saved_);
  }
  Denormals(const Denormals &) = delete;
  Denormals &operator=(const Denormals &) = delete;

 private:
#if defined(__SSE__)
  using State = unsigned int;
  static State Enable() {
    const State state = _mm_getcsr();
    _mm_setcsr(state | 0x8040u);  // flush to zero, denormals are zero
    return state;
  }
  static void Restore(State state) { _mm_setcsr(state); }
#elif defined(__aarch64__)
  using State = uint64_t;
  static State Enable() {
    State state;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(state));
    Restore(state | State{1} << 24);  // FZ
    return state;
  }
  static void Restore(State state) { __asm__ __volatile__("msr fpcr, %0" : : "r"(state)); }
#else
  using State = int;
  static State Enable() { return 0; }
  static void Restore(State) {}
#endif
  bool flush_;
  State saved_ = {};
};

// A loop nest of Rank dims, the last Tiled of which advance by tiles. Its tiles are numbered row by row; a piece of the
// numbering is decomposed once and then stepped through.
template <size_t Rank, size_t Tiled, typename Call>
struct Nest {
  std::array<size_t, Rank> range;
  std::array<size_t, Tiled> tile;
  std::array<size_t, Rank> steps;  // tiles per dim
  Call call;
  bool flush_denormals;

  void Piece(size_t begin, size_t end, size_t worker) const {
    const Denormals denormals(flush_denormals);
    std::array<size_t, Rank> at;  // first index of the tile, by dim
    size_t rest = begin;
    for (size_t d = Rank; d-- > 0;) {
      at[d] = rest % steps[d] * Width(d);
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
        at[d] += Width(d);
        if (at[d] < range[d]) break;
        at[d] = 0;
      }
    }
  }

  size_t Width(size_t d) const { return d < Rank - Tiled ? 1 : tile[d + Tiled - Rank]; }

  static void EDGECORE_CALL Body(void *self, uint64_t begin, uint64_t end, uint32_t worker) {
    static_cast<const Nest *>(self)->Piece(begin, end, worker);
  }
};

// `call` receives the tile's first indices, the sizes of its tiled dims, and the worker.
template <size_t Rank, size_t Tiled, typename Call>
void Run(pthreadpool_t pool, std::array<size_t, Rank> range, std::array<size_t, Tiled> tile, uint32_t flags,
         Call call) {
  Nest<Rank, Tiled, Call> nest = {range, tile, {}, call, (flags & PTHREADPOOL_FLAG_DISABLE_DENORMALS) != 0};
  size_t total = 1;
  for (size_t d = 0; d < Rank; ++d) {
    const size_t width = nest.Width(d);
    nest.steps[d] = range[d] / width + (range[d] % width != 0);
    total *= nest.steps[d];
  }
  if (total == 0) return;
  if (pool == nullptr || total == 1 || pool->host->worker_count(pool->scope) == 1) {
    const uint32_t worker = pool == nullptr ? 0 : pool->host->worker_index(pool->scope);
    nest.Piece(0, total, worker);
    return;
  }
  pool->host->parallel_for(pool->scope, total, 0, nest.Body, &nest, 0);
}

// Cores are not told apart: kernels are asked for microarchitecture 0, which exists everywhere.
constexpr uint32_t kUarch = 0;

using Size = size_t;
using At = const size_t *;

}  // namespace

extern "C" {

size_t pthreadpool_get_threads_count(pthreadpool_t pool) {
  return pool == nullptr ? 1 : pool->host->worker_count(pool->scope);
}

void pthreadpool_parallelize_1d(pthreadpool_t pool, pthreadpool_task_1d_t task, void *arg, Size i, uint32_t flags) {
  Run<1, 0>(pool, {i}, {}, flags, [=](At at, At, Size) { task(arg, at[0]); });
}

void pthreadpool_parallelize_1d_with_thread(pthreadpool_t pool, pthreadpool_task_1d_with_thread_t task, void *arg,
                                            Size i, uint32_t flags) {
  Run<1, 0>(pool, {i}, {}, flags, [=](At at, At, Size worker) { task(arg, worker, at[0]); });
}

void pthreadpool_parallelize_1d_tile_1d(pthreadpool_t pool, pthreadpool_task_1d_tile_1d_t task, void *arg, Size i,
                                        Size ti, uint32_t flags) {
  Run<1, 1>(pool, {i}, {ti}, flags, [=](At at, At size, Size) { task(arg, at[0], size[0]); });
}

void pthreadpool_parallelize_2d(pthreadpool_t pool, pthreadpool_task_2d_t task, void *arg, Size i, Size j,
                                uint32_t flags) {
  Run<2, 0>(pool, {i, j}, {}, flags, [=](At at, At, Size) { task(arg, at[0], at[1]); });
}

void pthreadpool_parallelize_2d_with_thread(pthreadpool_t pool, pthreadpool_task_2d_with_thread_t task, void *arg,
                                            Size i, Size j, uint32_t flags) {
  Run<2, 0>(pool, {i, j}, {}, flags, [=](At at, At, Size worker) { task(arg, worker, at[0], at[1]); });
}

void pthreadpool_parallelize_2d_tile_1d(pthreadpool_t pool, pthreadpool_task_2d_tile_1d_t task, void *arg, Size i,
                                        Size j, Size tj, uint32_t flags) {
  Run<2, 1>(pool, {i, j}, {tj}, flags, [=](At at, At size, Size) { task(arg, at[0], at[1], size[0]); });
}

void pthreadpool_parallelize_2d_tile_1d_with_uarch(pthreadpool_t pool, pthreadpool_task_2d_tile_1d_with_id_t task,
                                                   void *arg, uint32_t, uint32_t, Size i, Size j, Size tj,
                                                   uint32_t flags) {
  Run<2, 1>(pool, {i, j}, {tj}, flags, [=](At at, At size, Size) { task(arg, kUarch, at[0], at[1], size[0]); });
}

// Matrix products are the nests with two tiled dims: rows, then columns. Rows change fastest here, so that all of them
// pass while the cache holds a tile's columns (third_party/patches.py cuts the tiles).
void pthreadpool_parallelize_2d_tile_2d(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_t task, void *arg, Size i,
                                        Size j, Size ti, Size tj, uint32_t flags) {
  Run<2, 2>(pool, {j, i}, {tj, ti}, flags, [=](At at, At size, Size) { task(arg, at[1], at[0], size[1], size[0]); });
}

void pthreadpool_parallelize_2d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_2d_tile_2d_with_id_t task,
                                                   void *arg, uint32_t, uint32_t, Size i, Size j, Size ti, Size tj,
                                                   uint32_t flags) {
  Run<2, 2>(pool, {i, j}, {ti, tj}, flags,
            [=](At at, At size, Size) { task(arg, kUarch, at[0], at[1], size[0], size[1]); });
}

void pthreadpool_parallelize_3d(pthreadpool_t pool, pthreadpool_task_3d_t task, void *arg, Size i, Size j, Size k,
                                uint32_t flags) {
  Run<3, 0>(pool, {i, j, k}, {}, flags, [=](At at, At, Size) { task(arg, at[0], at[1], at[2]); });
}

void pthreadpool_parallelize_3d_tile_1d(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_t task, void *arg, Size i,
                                        Size j, Size k, Size tk, uint32_t flags) {
  Run<3, 1>(pool, {i, j, k}, {tk}, flags, [=](At at, At size, Size) { task(arg, at[0], at[1], at[2], size[0]); });
}

void pthreadpool_parallelize_3d_tile_1d_with_thread(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_with_thread_t task,
                                                    void *arg, Size i, Size j, Size k, Size tk, uint32_t flags) {
  Run<3, 1>(pool, {i, j, k}, {tk}, flags,
            [=](At at, At size, Size worker) { task(arg, worker, at[0], at[1], at[2], size[0]); });
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch(pthreadpool_t pool, pthreadpool_task_3d_tile_1d_with_id_t task,
                                                   void *arg, uint32_t, uint32_t, Size i, Size j, Size k, Size tk,
                                                   uint32_t flags) {
  Run<3, 1>(pool, {i, j, k}, {tk}, flags,
            [=](At at, At size, Size) { task(arg, kUarch, at[0], at[1], at[2], size[0]); });
}

void pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(pthreadpool_t pool,
                                                               pthreadpool_task_3d_tile_1d_with_id_with_thread_t task,
                                                               void *arg, uint32_t, uint32_t, Size i, Size j, Size k,
                                                               Size tk, uint32_t flags) {
  Run<3, 1>(pool, {i, j, k}, {tk}, flags,
            [=](At at, At size, Size worker) { task(arg, kUarch, worker, at[0], at[1], at[2], size[0]); });
}

void pthreadpool_parallelize_3d_tile_2d(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_t task, void *arg, Size i,
                                        Size j, Size k, Size tj, Size tk, uint32_t flags) {
  Run<3, 2>(pool, {i, k, j}, {tk, tj}, flags,
            [=](At at, At size, Size) { task(arg, at[0], at[2], at[1], size[1], size[0]); });
}

void pthreadpool_parallelize_3d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_3d_tile_2d_with_id_t task,
                                                   void *arg, uint32_t, uint32_t, Size i, Size j, Size k, Size tj,
                                                   Size tk, uint32_t flags) {
  Run<3, 2>(pool, {i, j, k}, {tj, tk}, flags,
            [=](At at, At size, Size) { task(arg, kUarch, at[0], at[1], at[2], size[0], size[1]); });
}

void pthreadpool_parallelize_4d(pthreadpool_t pool, pthreadpool_task_4d_t task, void *arg, Size i, Size j, Size k,
                                Size l, uint32_t flags) {
  Run<4, 0>(pool, {i, j, k, l}, {}, flags, [=](At at, At, Size) { task(arg, at[0], at[1], at[2], at[3]); });
}

void pthreadpool_parallelize_4d_tile_2d(pthreadpool_t pool, pthreadpool_task_4d_tile_2d_t task, void *arg, Size i,
                                        Size j, Size k, Size l, Size tk, Size tl, uint32_t flags) {
  Run<4, 2>(pool, {i, j, k, l}, {tk, tl}, flags,
            [=](At at, At size, Size) { task(arg, at[0], at[1], at[2], at[3], size[0], size[1]); });
}

void pthreadpool_parallelize_4d_tile_2d_with_uarch(pthreadpool_t pool, pthreadpool_task_4d_tile_2d_with_id_t task,
                                                   void *arg, uint32_t, uint32_t, Size i, Size j, Size k, Size l,
                                                   Size tk, Size tl, uint32_t flags) {
  Run<4, 2>(pool, {i, j, k, l}, {tk, tl}, flags,
            [=](At at, At size, Size) { task(arg, kUarch, at[0], at[1], at[2], at[3], size[0], size[1]); });
}

void pthreadpool_parallelize_5d(pthreadpool_t pool, pthreadpool_task_5d_t task, void *arg, Size i, Size j, Size k,
                                Size l, Size m, uint32_t flags) {
  Run<5, 0>(pool, {i, j, k, l, m}, {}, flags, [=](At at, At, Size) { task(arg, at[0], at[1], at[2], at[3], at[4]); });
}

void pthreadpool_parallelize_5d_tile_2d(pthreadpool_t pool, pthreadpool_task_5d_tile_2d_t task, void *arg, Size i,
                                        Size j, Size k, Size l, Size m, Size tl, Size tm, uint32_t flags) {
  Run<5, 2>(pool, {i, j, k, l, m}, {tl, tm}, flags,
            [=](At at, At size, Size) { task(arg, at[0], at[1], at[2], at[3], at[4], size[0], size[1]); });
}

void pthreadpool_parallelize_6d_tile_2d(pthreadpool_t pool, pthreadpool_task_6d_tile_2d_t task, void *arg, Size i,
                                        Size j, Size k, Size l, Size m, Size n, Size tm, Size tn, uint32_t flags) {
  Run<6, 2>(pool, {i, j, k, l, m, n}, {tm, tn}, flags,
            [=](At at, At size, Size) { task(arg, at[0], at[1], at[2], at[3], at[4], at[5], size[0], size[1]); });
}

}  // extern "C"
