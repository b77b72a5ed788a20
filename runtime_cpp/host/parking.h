// Lets threads sleep until a 32-bit word changes. Uses a futex on Linux, and a mutex and a condition variable
// elsewhere.
#ifndef EDGECORE_HOST_PARKING_H_
#define EDGECORE_HOST_PARKING_H_

#include <atomic>
#include <cstdint>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#else
#include <condition_variable>
#include <mutex>
#endif

namespace edgecore {

// A 32-bit word; threads can wait until the word changes. A thread that changes `value` must call wake_all afterwards.
// `wait` returns when `value` differs from `expected`, and sometimes even while the two are equal.
class ParkingWord {
 public:
  std::atomic<uint32_t> value{0};

#if defined(__linux__)
  void wait(uint32_t expected) { syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0); }
  void wake_all() { syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }
#else
  void wait(uint32_t expected) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return value.load() != expected; });
  }
  void wake_all() {
    // a waiter holds the mutex from its check of `value` until it sleeps, so no waiter misses the notification
    { std::lock_guard<std::mutex> lock(mutex_); }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
#endif
};

// Tells the processor that this thread busy-waits, so that the processor saves power or runs the core's other
// hyperthread.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

}  // namespace edgecore

#endif  // EDGECORE_HOST_PARKING_H_
