// An ExecutionLock lets one call at a time use a method. A Run is a started call that may wait for a device.
#ifndef EDGECORE_HOST_EXECUTION_LOCK_H_
#define EDGECORE_HOST_EXECUTION_LOCK_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "edgecore/method.h"

namespace edgecore {

// A started call of a method that may wait for a device. No thread belongs to the run: the run advances when
// ExecutionLock::wait is called for it, or when another call acquires the ExecutionLock of the method.
class Run final : private Completion {
 public:
  // `take_results` is called when the run has succeeded, before another call can use the method. The function object
  // may own everything that must live until that call, such as the run's inputs.
  Run(Method &method, std::function<Status(Error &)> take_results)
      : method_(method), take_results_(std::move(take_results)) {}
  ~Run() = default;

  // Returns true when the run has ended; from then on, `status` and `error` do not change. Callable from any thread.
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  Status status() const { return status_; }
  const Error &error() const { return error_; }

 private:
  friend class ExecutionLock;
  void ready() override;
  // Records the result of the run; does nothing if `status` is pending.
  void finish(Status status);
  // Resumes the run each time the device has finished a step, and waits at most `timeout` for each step. Returns true
  // when the run has ended. The caller holds the mutex of the ExecutionLock.
  bool resume(std::chrono::milliseconds timeout);

  Method &method_;
  std::function<Status(Error &)> take_results_;
  std::mutex mutex_;
  std::condition_variable device_done_;
  bool is_ready_ = false;  // true: the device is done, and the run must be resumed; guarded by mutex_
  std::atomic<bool> finished_{false};
  Status status_;
  Error error_;
};

// Serializes the calls of one method, or of all methods that share mutable buffers. A run that has started but not
// ended does not hold the mutex, so it blocks no thread; instead, the next call of acquire() first finishes that run.
class ExecutionLock {
 public:
  // Waits until the pending run, if there is one, has ended, and until no other call uses the methods. The caller may
  // use the methods as long as it holds the returned lock.
  std::unique_lock<std::mutex> acquire() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (pending_ != nullptr) finish_pending();
    return lock;
  }

  // Starts a run whose inputs and outputs are set. The caller holds the lock that acquire() returned. If the run uses
  // no device, it has ended when start() returns.
  void start(std::shared_ptr<Run> run);

  // Advances a started run as far as its device allows, and waits at most `timeout` for each step of the device.
  // Returns true when the run has ended. With a timeout of 0, wait() never blocks: if another thread holds the lock,
  // wait() only reports whether the run has ended.
  bool wait(Run &run, std::chrono::milliseconds timeout);

 private:
  void finish_pending();

  std::mutex mutex_;
  std::shared_ptr<Run> pending_;  // guarded by mutex_
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_EXECUTION_LOCK_H_
