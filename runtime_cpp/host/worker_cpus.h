// Keeps the workers of a thread pool off the CPU of the thread that starts their loops.
//
// When a thread wakes another one, Linux often starts the woken thread on the same CPU, although another CPU is idle.
// Both threads then share one CPU for some milliseconds, because the first thread never sleeps, and an idle CPU looks
// for work only at a timer tick. This code prevents that: it sets the CPUs on which workers may run. Other systems are
// left alone.
#ifndef EDGECORE_HOST_WORKER_CPUS_H_
#define EDGECORE_HOST_WORKER_CPUS_H_

#include <pthread.h>

#include <cstdint>

#if defined(__linux__)
#include <sched.h>
#endif

namespace edgecore {

// The CPUs on which the worker threads of one pool may run. The members are used by one thread at a time.
class WorkerCpus {
 public:
  // Called before a loop of `threads` participants, the calling thread included. Returns true if apply must be called
  // for each of the `workers` worker threads: workers were added, the calling thread has moved to another CPU, or the
  // CPUs of the process have changed, which is checked only every few thousand loops.
  bool update(uint32_t threads, uint32_t workers);

  // Lets a worker run on all CPUs of the process except the CPU of the thread that called the last update. If the
  // process has fewer CPUs than the loop has participants, lets the worker run on all CPUs of the process.
  void apply(pthread_t worker) const;

 private:
#if defined(__linux__)
  cpu_set_t mask_ = {};
  int avoided_ = -1;  // CPU that workers avoid: the last call of update ran on it
  uint32_t threads_ = 0;
  uint32_t workers_ = 0;
  uint32_t loops_ = 0;
#endif
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_WORKER_CPUS_H_
