// The thread pool that runs the loops of host->parallel_for. Each process has one.
//
// A loop is split into units of at least `grain` items, and every participant (the calling thread or a worker thread)
// owns a contiguous range of units. A participant takes its own units one by one from the front of its range, then
// units of other participants from the back of their ranges. The calling thread is participant 0; it computes the units
// of workers that are still asleep instead of waiting for them. Workers do not run on the CPU of the calling thread
// (worker_cpus.h). A worker yields the CPU from time to time between two loops; otherwise the kernel could preempt the
// worker within a unit, and all participants would wait for that unit.
#ifndef EDGECORE_HOST_THREAD_POOL_H_
#define EDGECORE_HOST_THREAD_POOL_H_

#include <atomic>
#include <cstdint>

#include "edgecore/abi.h"
#include "host/parking.h"
#include "host/worker_cpus.h"

namespace edgecore {

constexpr uint32_t kMaxThreads = 256;  // maximum number of participants of one loop, the calling thread included

class ThreadPool {
 public:
  ThreadPool() = default;
  ~ThreadPool();  // the pool must not be destroyed while a loop runs

  // Returns the pool of this process. The first call creates the pool; the first call in the child process after a fork
  // creates another pool, because a child has none of its parent's threads.
  static ThreadPool &process();

  // Splits the items [0, n) into ranges of at least `grain` items (0: the pool chooses), calls fn for each range on at
  // most `threads` threads, and returns when all calls have ended. The caller then sees what fn has written. Starts
  // missing workers. Calls fn once for all items, on the calling thread, if the workers are busy with a loop of another
  // thread, or if parallel_for is called within a loop.
  void parallel_for(uint32_t threads, uint64_t n, uint64_t grain, edgecore_loop_fn fn, void *arg);

  // worker_index returns the number of the calling thread among the participants of its loop (0 outside a loop).
  // in_loop returns true while the thread runs the body of a loop.
  static uint32_t worker_index();
  static bool in_loop();

  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

 private:
  // The units [begin, end) of one participant that no thread has taken yet, packed as begin << 32 | end, so that one
  // compare-and-swap takes a unit. Each range has a cache line of its own, to avoid false sharing.
  struct alignas(64) Range {
    std::atomic<uint64_t> units{0};
  };
  struct Worker;

  static void *worker_main(void *argument);
  void work(uint32_t index);
  void run_units(uint32_t index, uint32_t participants);
  bool join(uint32_t index, uint32_t *participants);
  void leave();
  void wait_until_left();
  uint32_t start_workers(uint32_t wanted);

  // The running loop. Its calling thread writes these members before it opens `gate_`; workers in the loop read them.
  edgecore_loop_fn fn_ = nullptr;
  void *arg_ = nullptr;
  uint64_t n_ = 0;
  uint64_t unit_ = 1;
  Range ranges_[kMaxThreads];

  // Upper 32 bits: the number of participants of the running loop, or 0 if no more workers may join. Lower 32 bits: the
  // number of workers that are computing units of the loop.
  alignas(64) std::atomic<uint64_t> gate_{0};
  alignas(64) ParkingWord loops_;  // number of loops that the pool has run; workers sleep until it changes
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  alignas(64) ParkingWord departures_;  // changes when the last worker leaves a finished loop
  std::atomic<bool> caller_sleeps_{false};
  // true while a loop is running; set by the thread that calls parallel_for
  alignas(64) std::atomic<bool> busy_{false};
  Worker *workers_ = nullptr;  // newest first; changed only by the thread that runs a loop
  uint32_t worker_count_ = 0;
  WorkerCpus worker_cpus_;  // used only by the thread that runs a loop of the pool
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_THREAD_POOL_H_
