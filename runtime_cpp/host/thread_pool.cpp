#include "host/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

namespace edgecore {
namespace {

// The time for which a thread busy-waits before it sleeps. A worker waits for the next loop; the caller of parallel_for
// waits for the workers in its loop. In a network the next loop begins after a few microseconds, but waking a sleeping
// thread takes about 50 us.
constexpr std::chrono::microseconds kSpinTime{100};
// A worker that has not slept or yielded for this time yields the CPU between two loops. Without this, if another
// thread waits for the CPU, the kernel preempts the worker after about 3 ms, possibly within a loop. Yielding takes 0.5
// us if no thread waits.
constexpr std::chrono::microseconds kYieldTime{500};
constexpr int kSpinsPerClock = 32;        // number of pauses of a busy-waiting thread between two reads of the clock
constexpr uint64_t kUnitsPerThread = 32;  // maximum number of units of a loop per thread, however small the grain is
constexpr uint64_t kOwnGrainPieces = 4;   // number of units of a loop per thread if the pool chooses the grain

struct Identity {
  uint32_t index = 0;
  bool in_loop = false;
};
thread_local Identity identity;

// Busy-waits until done() returns true or kSpinTime has passed. Returns the last result of done().
template <typename Done>
bool spin(Done done) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kSpinsPerClock; ++i) {
      if (done()) return true;
      spin_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

uint64_t pack(uint64_t begin, uint64_t end) { return begin << 32 | end; }

std::atomic<ThreadPool *> process_pool{nullptr};

// Runs in the child process after a fork. The child has none of the pool's threads, so the next call of process()
// creates a new pool there. The memory of the old pool is not freed.
void forget_pool() {
  process_pool.store(nullptr, std::memory_order_relaxed);
  identity = Identity();
}

}  // namespace

struct ThreadPool::Worker {
  ThreadPool *pool;
  uint32_t index;
  uint32_t seen;  // value of `loops_` when this worker was started
  pthread_t thread;
  Worker *next;
};

ThreadPool &ThreadPool::process() {
  ThreadPool *pool = process_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return *pool;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  (void)registered;
  // The pool is never destroyed, because its workers may outlive every static object.
  auto *created = new ThreadPool();
  if (process_pool.compare_exchange_strong(pool, created, std::memory_order_acq_rel)) return *created;
  delete created;
  return *pool;
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  loops_.value.fetch_add(1);
  loops_.wake_all();
  while (workers_ != nullptr) {
    Worker *worker = workers_;
    workers_ = worker->next;
    pthread_join(worker->thread, nullptr);
    delete worker;
  }
}

uint32_t ThreadPool::worker_index() { return identity.index; }
bool ThreadPool::in_loop() { return identity.in_loop; }

void ThreadPool::parallel_for(uint32_t threads, uint64_t n, uint64_t grain, edgecore_loop_fn fn, void *arg) {
  if (n == 0) return;
  threads = std::min(threads, kMaxThreads);
  if (grain == 0) grain = std::max<uint64_t>(1, n / (kOwnGrainPieces * std::max(1u, threads)));
  if (threads <= 1 || n <= grain || identity.in_loop || busy_.exchange(true, std::memory_order_acquire)) {
    // A thread that already runs a loop keeps its index, because kernels select per-worker memory by this index.
    const Identity before = identity;
    identity.in_loop = true;
    fn(arg, 0, n, identity.index);
    identity = before;
    return;
  }

  const uint64_t unit = std::max(grain, (n - 1) / (kUnitsPerThread * threads) + 1);
  const uint64_t units = (n - 1) / unit + 1;
  uint32_t participants = static_cast<uint32_t>(std::min<uint64_t>(threads, units));
  participants = std::min(participants, start_workers(participants - 1) + 1);
  if (worker_cpus_.update(threads, worker_count_)) {
    for (const Worker *worker = workers_; worker != nullptr; worker = worker->next) worker_cpus_.apply(worker->thread);
  }
  fn_ = fn;
  arg_ = arg;
  n_ = n;
  unit_ = unit;
  for (uint32_t i = 0; i < participants; ++i) {
    ranges_[i].units.store(pack(units * i / participants, units * (i + 1) / participants), std::memory_order_relaxed);
  }
  gate_.store(uint64_t{participants} << 32, std::memory_order_release);
  // No worker can sleep through the loop: a worker that goes to sleep increments sleepers_ and then reads loops_ again,
  // while this thread increments loops_ and then reads sleepers_. All four operations are sequentially consistent, so
  // at least one of the two threads sees the other's write.
  loops_.value.fetch_add(1);
  if (sleepers_.load() != 0) loops_.wake_all();

  identity.in_loop = true;
  run_units(0, participants);
  identity.in_loop = false;
  wait_until_left();
  busy_.store(false, std::memory_order_release);
}

void ThreadPool::run_units(uint32_t index, uint32_t participants) {
  for (uint32_t offset = 0; offset < participants; ++offset) {
    const bool own = offset == 0;
    std::atomic<uint64_t> &range = ranges_[(index + offset) % participants].units;
    uint64_t current = range.load(std::memory_order_relaxed);
    for (;;) {
      const uint64_t begin = current >> 32;
      const uint64_t end = current & 0xffffffffu;
      if (begin >= end) break;
      const uint64_t rest = own ? pack(begin + 1, end) : pack(begin, end - 1);
      if (!range.compare_exchange_weak(current, rest, std::memory_order_relaxed)) continue;
      const uint64_t first = (own ? begin : end - 1) * unit_;
      fn_(arg_, first, std::min(n_, first + unit_), index);
      current = range.load(std::memory_order_relaxed);
    }
  }
}

bool ThreadPool::join(uint32_t index, uint32_t *participants) {
  uint64_t gate = gate_.load(std::memory_order_acquire);
  do {
    *participants = static_cast<uint32_t>(gate >> 32);
    if (index >= *participants) return false;
  } while (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel, std::memory_order_acquire));
  return true;
}

void ThreadPool::leave() {
  // If the old value is 1, this was the last worker in the loop, and the upper half is 0, so no other worker may join.
  // The caller sets caller_sleeps_ and then reads gate_ again; all four operations are sequentially consistent, so at
  // least one side sees the other's write, and the caller does not sleep forever.
  if (gate_.fetch_sub(1) == 1 && caller_sleeps_.load()) {
    departures_.value.fetch_add(1);
    departures_.wake_all();
  }
}

void ThreadPool::wait_until_left() {
  // All units of the loop are taken: close the gate, and wait until the workers inside have finished their units.
  if (gate_.fetch_and(0xffffffffu, std::memory_order_acq_rel) << 32 == 0) return;
  if (spin([this] { return gate_.load(std::memory_order_acquire) == 0; })) return;
  caller_sleeps_.store(true);
  for (;;) {
    const uint32_t seen = departures_.value.load();
    if (gate_.load() == 0) break;
    departures_.wait(seen);
  }
  caller_sleeps_.store(false, std::memory_order_relaxed);
}

void *ThreadPool::worker_main(void *argument) {
  auto *worker = static_cast<Worker *>(argument);
  ThreadPool &pool = *worker->pool;
  identity = {worker->index, true};
  auto rested = std::chrono::steady_clock::now();
  for (uint32_t seen = worker->seen; !pool.stop_.load(std::memory_order_acquire);) {
    const auto changed = [&] { return pool.loops_.value.load(std::memory_order_acquire) != seen; };
    if (!spin(changed)) {
      pool.sleepers_.fetch_add(1);
      while (pool.loops_.value.load() == seen) pool.loops_.wait(seen);
      pool.sleepers_.fetch_sub(1);
      rested = std::chrono::steady_clock::now();
    }
    seen = pool.loops_.value.load(std::memory_order_acquire);
    uint32_t participants;
    if (pool.join(worker->index, &participants)) {
      pool.run_units(worker->index, participants);
      pool.leave();
    }
    if (std::chrono::steady_clock::now() - rested > kYieldTime) {
      std::this_thread::yield();
      rested = std::chrono::steady_clock::now();
    }
  }
  return nullptr;
}

uint32_t ThreadPool::start_workers(uint32_t wanted) {
  while (worker_count_ < wanted) {
    auto *worker = new (std::nothrow) Worker{this, worker_count_ + 1, loops_.value.load(), pthread_t{}, workers_};
    if (worker == nullptr) break;
    // if a thread cannot be created, continue with the existing workers
    if (pthread_create(&worker->thread, nullptr, worker_main, worker) != 0) {
      delete worker;
      break;
    }
    workers_ = worker;
    ++worker_count_;
  }
  return worker_count_;
}

}  // namespace edgecore
