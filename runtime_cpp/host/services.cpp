#include "host/services.h"

#include <algorithm>
#include <array>

#include "core/platform.h"
#include "host/platform.h"
#include "host/thread_pool.h"
#include "host/trace.h"

namespace edgecore {
namespace {

uint32_t EDGECORE_CALL worker_count(edgecore_scope *scope) {
  return scope->context == nullptr ? 1 : static_cast<const HostContext *>(scope->context)->threads;
}

// A parallel loop whose threads are traced. `threads` has the times when each thread began its first call of `fn` and
// ended its last call. Both are 0 for a thread that has not called `fn`.
struct TracedLoop {
  struct alignas(64) Times {
    uint64_t begin;
    uint64_t end;
  };
  edgecore_loop_fn fn;
  void *arg;
  std::array<Times, kMaxThreads> threads;  // indexed by thread number; only entries of threads of this loop are set

  static void EDGECORE_CALL run(void *self, uint64_t begin, uint64_t end, uint32_t worker) {
    TracedLoop &loop = *static_cast<TracedLoop *>(self);
    Times &times = loop.threads[worker];
    if (times.begin == 0) times.begin = platform_nanoseconds();
    loop.fn(loop.arg, begin, end, worker);
    times.end = platform_nanoseconds();
  }
};

void trace_loop(edgecore_scope *scope, uint64_t n, uint64_t grain, edgecore_loop_fn fn, void *arg) {
  const uint32_t count = std::min(worker_count(scope), kMaxThreads);
  TracedLoop loop;
  loop.fn = fn;
  loop.arg = arg;
  std::fill_n(loop.threads.begin(), count, TracedLoop::Times{0, 0});
  ThreadPool::process().parallel_for(count, n, grain, TracedLoop::run, &loop);
  Trace &trace = *static_cast<const HostContext *>(scope->context)->loops;
  for (uint32_t i = 0; i < count; ++i) {
    if (loop.threads[i].end != 0) trace.add_thread(i, loop.threads[i].begin, loop.threads[i].end);
  }
}

void EDGECORE_CALL parallel_for(edgecore_scope *scope, uint64_t n, uint64_t grain, edgecore_loop_fn fn, void *arg,
                                uint32_t) {
  const auto *context = static_cast<const HostContext *>(scope->context);
  // A nested loop is not traced, because any thread may run a nested loop, but only one thread may use a trace.
  if (context != nullptr && context->loops != nullptr && !ThreadPool::in_loop()) {
    return trace_loop(scope, n, grain, fn, arg);
  }
  ThreadPool::process().parallel_for(worker_count(scope), n, grain, fn, arg);
}

uint32_t EDGECORE_CALL worker_index(edgecore_scope *) { return ThreadPool::worker_index(); }
int32_t EDGECORE_CALL is_worker(edgecore_scope *) { return ThreadPool::in_loop() ? 1 : 0; }

}  // namespace

const edgecore_host *host_services() {
  static const edgecore_host table = [] {
    use_host_platform();
    edgecore_host services = core_services();
    services.parallel_for = parallel_for;
    services.worker_count = worker_count;
    services.worker_index = worker_index;
    services.is_worker = is_worker;
    return services;
  }();
  return &table;
}

}  // namespace edgecore
