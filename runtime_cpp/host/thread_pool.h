// The workers behind host->parallel_for: one pool for the whole process.
//
// A loop is split into units of `grain` items; every participant owns a contiguous range of units, takes them one by
// one from the front, and then takes those of others from the back. The calling thread is participant 0 and never waits
// for a worker that has not joined, so that a sleeping worker delays nothing.
#ifndef EDGECORE_HOST_THREAD_POOL_H_
#define EDGECORE_HOST_THREAD_POOL_H_

#include <atomic>
#include <cstdint>

#include "edgecore/abi.h"
#include "host/parking.h"

namespace edgecore {

constexpr uint32_t kMaxThreads = 256;  // participants of one loop, the calling thread included

class ThreadPool {
 public:
  ThreadPool() = default;
  ~ThreadPool();  // no loop may be running

  // The pool of this process; created on first use, and again in the child of a fork, whose parent's workers are gone.
  static ThreadPool &process();

  // Calls fn over [0, n) in pieces of at least `grain` items (0: chosen here), on at most `threads` participants, and
  // returns when all have run; what they wrote is visible to the caller. Runs inline when another thread's loop has the
  // workers or when called from within a loop. Missing workers are started here.
  void parallel_for(uint32_t threads, uint64_t n, uint64_t grain, edgecore_loop_fn fn, void *arg);

  // Of the calling thread: its participant number (0 outside a loop), and whether it is within a loop's body.
  static uint32_t worker_index();
  static bool in_loop();

  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

 private:
  // Units [begin, end) that a participant still has, packed as begin << 32 | end; a line of its own.
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

  // The running loop; written by its caller before `gate_` opens, read by those who joined.
  edgecore_loop_fn fn_ = nullptr;
  void *arg_ = nullptr;
  uint64_t n_ = 0;
  uint64_t unit_ = 1;
  Range ranges_[kMaxThreads];

  // participants << 32 | workers inside; participants 0: closed, nobody may join.
  alignas(64) std::atomic<uint64_t> gate_{0};
  alignas(64) ParkingWord loops_;  // counts loops; workers wait for its change
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  alignas(64) ParkingWord left_;  // changes when the last worker left a closed loop
  std::atomic<bool> caller_sleeps_{false};
  alignas(64) std::atomic<bool> busy_{false};
  Worker *workers_ = nullptr;  // list, newest first; changed by the holder of busy_
  uint32_t worker_count_ = 0;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_THREAD_POOL_H_
