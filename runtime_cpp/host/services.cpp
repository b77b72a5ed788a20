#include "host/services.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "host/thread_pool.h"

namespace edgecore {
namespace {

constexpr const char *kLevels[] = {"debug", "info", "warning", "error"};

int32_t log_level() {
  const char *name = std::getenv("EDGECORE_LOG");
  for (int32_t level = EDGECORE_LOG_DEBUG; name != nullptr && level <= EDGECORE_LOG_ERROR; ++level) {
    if (std::strcmp(name, kLevels[level]) == 0) return level;
  }
  return EDGECORE_LOG_WARNING;
}

void EDGECORE_CALL log(edgecore_scope *, int32_t level, edgecore_str text) {
  static const int32_t min_level = log_level();
  if (level < min_level) return;
  const int32_t shown = std::clamp(level, EDGECORE_LOG_DEBUG, EDGECORE_LOG_ERROR);
  // One fprintf per message, so that lines of several threads do not mix.
  std::fprintf(stderr, "edgecore %s: %.*s\n", kLevels[shown], static_cast<int>(std::min<uint64_t>(text.size, 4096)),
               text.data);
}

void *EDGECORE_CALL allocate(edgecore_scope *, uint64_t size, uint64_t alignment) {
  void *data = nullptr;
  if (size > SIZE_MAX || alignment > SIZE_MAX) return nullptr;
  const size_t min_alignment = std::max<size_t>(static_cast<size_t>(alignment), sizeof(void *));
  return posix_memalign(&data, min_alignment, static_cast<size_t>(size)) == 0 ? data : nullptr;
}

void EDGECORE_CALL deallocate(edgecore_scope *, void *data, uint64_t, uint64_t) { std::free(data); }

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
    edgecore_host services = core_services();
    services.log = log;
    services.allocate = allocate;
    services.deallocate = deallocate;
    services.parallel_for = parallel_for;
    services.worker_count = worker_count;
    services.worker_index = worker_index;
    services.is_worker = is_worker;
    return services;
  }();
  return &table;
}

}  // namespace edgecore
