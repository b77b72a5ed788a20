// A thread that waits for the end of runs whose execute() has returned EDGECORE_PENDING.
#ifndef EDGECORE_VULKAN_WAITER_H_
#define EDGECORE_VULKAN_WAITER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace edgecore::vulkan {

// Runs tasks in order on one thread, which starts with the first task. The destructor waits until all tasks have run.
// One thread suffices to wait for runs, because a device's queue completes submissions in order.
class Waiter {
 public:
  Waiter() = default;
  ~Waiter();
  Waiter(const Waiter &) = delete;
  Waiter &operator=(const Waiter &) = delete;

  // Runs `task`, which must not throw, after all earlier tasks.
  void add(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_WAITER_H_
