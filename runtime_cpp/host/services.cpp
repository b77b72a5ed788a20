#include "host/services.h"

#include "host/platform.h"
#include "host/thread_pool.h"

namespace edgecore {
namespace {

uint32_t EDGECORE_CALL worker_count(edgecore_scope *scope) {
  return scope->context == nullptr ? 1 : static_cast<const HostContext *>(scope->context)->threads;
}

void EDGECORE_CALL parallel_for(edgecore_scope *scope, uint64_t n, uint64_t grain, edgecore_loop_fn fn, void *arg,
                                uint32_t) {
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
