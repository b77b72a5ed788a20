#include "host/worker_cpus.h"

#if defined(__linux__)
#include <unistd.h>
#endif

namespace edgecore {

#if defined(__linux__)

namespace {

// Number of loops after which a pool checks again on which CPUs the process may run: a container or taskset may change
// these CPUs, but a check takes two system calls.
constexpr uint32_t kLoopsPerLook = 4096;

// Sets `out` to the CPUs on which the process may run: the union of the CPUs of the main thread and of the calling
// thread, because an application may bind one of these two threads to a CPU. Returns the number of CPUs, or 0 if the
// CPUs are unknown.
int allowed_cpus(cpu_set_t &out) {
  cpu_set_t of_main;
  if (sched_getaffinity(0, sizeof out, &out) != 0) return 0;
  if (sched_getaffinity(getpid(), sizeof of_main, &of_main) == 0) CPU_OR(&out, &out, &of_main);
  return CPU_COUNT(&out);
}

}  // namespace

bool WorkerCpus::update(uint32_t threads, uint32_t workers) {
  const int cpu = sched_getcpu();
  const bool same = cpu == avoided_ && threads == threads_ && workers == workers_;
  if (same && ++loops_ % kLoopsPerLook != 0) return false;
  avoided_ = cpu;
  threads_ = threads;
  cpu_set_t mask;
  const int allowed = allowed_cpus(mask);
  if (cpu < 0 || allowed < 2) {
    CPU_ZERO(&mask_);
    return false;
  }
  if (static_cast<uint32_t>(allowed) >= threads && cpu < CPU_SETSIZE) CPU_CLR(cpu, &mask);
  const bool changed = workers != workers_ || !CPU_EQUAL(&mask, &mask_);
  workers_ = workers;
  mask_ = mask;
  return changed;
}

// Ignores failures, after which the worker may run on the same CPUs as before: Linux may refuse a mask if CPUs of the
// mask were removed meanwhile.
void WorkerCpus::apply(pthread_t worker) const {
#if defined(__ANDROID__)
  (void)sched_setaffinity(pthread_gettid_np(worker), sizeof mask_, &mask_);
#else
  (void)pthread_setaffinity_np(worker, sizeof mask_, &mask_);
#endif
}

#else

bool WorkerCpus::update(uint32_t, uint32_t) { return false; }
void WorkerCpus::apply(pthread_t) const {}

#endif

}  // namespace edgecore
