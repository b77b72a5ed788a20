#include "host/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>

namespace edgecore {
namespace {

// How long a worker without work, or a caller waiting for the last unit, spins before it sleeps. The loops of a network
// are a few microseconds apart; waking a thread costs ten times that.
constexpr std::chrono::microseconds kSpinTime{100};
constexpr int kSpinsPerClock = 32;        // the clock is read once in so many pauses
constexpr uint64_t kUnitsPerThread = 32;  // no more pieces than that a participant, however small the grain
constexpr uint64_t kOwnGrainPieces = 4;   // pieces a participant where the grain is ours

struct Identity {
  uint32_t index = 0;
  bool in_loop = false;
};
thread_local Identity identity;

// Spins until `done` or the time is up; gives `done`'s answer.
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

// The child of a fork has none of the threads: it forgets the pool and makes a new one. What the old one holds is lost.
void forget_pool() {
  process_pool.store(nullptr, std::memory_order_relaxed);
  identity = Identity();
}

}  // namespace

struct ThreadPool::Worker {
  ThreadPool *pool;
  uint32_t index;
  uint32_t seen;  // value of loops_ when it was started
  pthread_t thread;
  Worker *next;
};

ThreadPool &ThreadPool::process() {
  ThreadPool *pool = process_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return *pool;
  static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  (void)registered;
  // Never destroyed: its workers may outlive every static object.
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
    // Whoever is already in a loop keeps its number: its scratch memory is its own.
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
  fn_ = fn;
  arg_ = arg;
  n_ = n;
  unit_ = unit;
  for (uint32_t i = 0; i < participants; ++i) {
    ranges_[i].units.store(pack(units * i / participants, units * (i + 1) / participants), std::memory_order_relaxed);
  }
  gate_.store(uint64_t{participants} << 32, std::memory_order_release);
  // Sequentially consistent with a worker's "count me as sleeping, then look again": one of the two sees the other.
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
  // Sequentially consistent with the caller's "I sleep, then look again". 1: closed, and this was the last inside.
  if (gate_.fetch_sub(1) == 1 && caller_sleeps_.load()) {
    left_.value.fetch_add(1);
    left_.wake_all();
  }
}

void ThreadPool::wait_until_left() {
  // All units are taken: nobody else needs to join, those inside finish theirs.
  if (gate_.fetch_and(0xffffffffu, std::memory_order_acq_rel) << 32 == 0) return;
  if (spin([this] { return gate_.load(std::memory_order_acquire) == 0; })) return;
  caller_sleeps_.store(true);
  for (;;) {
    const uint32_t seen = left_.value.load();
    if (gate_.load() == 0) break;
    left_.wait(seen);
  }
  caller_sleeps_.store(false, std::memory_order_relaxed);
}

void *ThreadPool::worker_main(void *argument) {
  auto *worker = static_cast<Worker *>(argument);
  ThreadPool &pool = *worker->pool;
  identity = {worker->index, true};
  for (uint32_t seen = worker->seen; !pool.stop_.load(std::memory_order_acquire);) {
    const auto changed = [&] { return pool.loops_.value.load(std::memory_order_acquire) != seen; };
    if (!spin(changed)) {
      pool.sleepers_.fetch_add(1);
      while (pool.loops_.value.load() == seen) pool.loops_.wait(seen);
      pool.sleepers_.fetch_sub(1);
    }
    seen = pool.loops_.value.load(std::memory_order_acquire);
    uint32_t participants;
    if (pool.join(worker->index, &participants)) {
      pool.run_units(worker->index, participants);
      pool.leave();
    }
  }
  return nullptr;
}

uint32_t ThreadPool::start_workers(uint32_t wanted) {
  while (worker_count_ < wanted) {
    auto *worker = new (std::nothrow) Worker{this, worker_count_ + 1, loops_.value.load(), pthread_t{}, workers_};
    if (worker == nullptr) break;
    if (pthread_create(&worker->thread, nullptr, worker_main, worker) != 0) {  // a limit of the system: use fewer
      delete worker;
      break;
    }
    workers_ = worker;
    ++worker_count_;
  }
  return worker_count_;
}

}  // namespace edgecore
