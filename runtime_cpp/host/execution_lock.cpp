#include "host/execution_lock.h"

namespace edgecore {

void Run::ready() {
  // Notify while the mutex is held: the thread that wakes up may destroy this Run as soon as it gets the mutex.
  const std::lock_guard<std::mutex> lock(mutex_);
  is_ready_ = true;
  device_done_.notify_one();
}

void Run::finish(Status status) {
  if (status.code() == EDGECORE_PENDING) return;
  status_ = status.ok() ? take_results_(error_) : status;
  take_results_ = nullptr;  // free the objects that take_results_ owns, such as the run's inputs
  finished_.store(true, std::memory_order_release);
}

bool Run::resume(std::chrono::milliseconds timeout) {
  while (!finished()) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!device_done_.wait_for(lock, timeout, [this] { return is_ready_; })) return false;
      is_ready_ = false;
    }
    finish(method_.resume(error_));
  }
  return true;
}

void ExecutionLock::start(std::shared_ptr<Run> run) {
  run->finish(run->method_.start(*run, run->error_));
  if (!run->finished()) pending_ = std::move(run);
}

bool ExecutionLock::wait(Run &run, std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  if (timeout.count() > 0) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return run.finished();
  }
  if (!run.resume(timeout)) return false;
  if (pending_.get() == &run) pending_ = nullptr;
  return true;
}

void ExecutionLock::finish_pending() {
  while (!pending_->resume(std::chrono::hours(1))) {
  }
  pending_ = nullptr;
}

}  // namespace edgecore
