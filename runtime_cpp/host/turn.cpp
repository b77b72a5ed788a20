#include "host/turn.h"

namespace edgecore {

void StartedRun::ready() {
  // Notified under the lock: whoever is woken may destroy this.
  const std::lock_guard<std::mutex> lock(mutex_);
  is_ready_ = true;
  fired_.notify_one();
}

void StartedRun::settle(Status status) {
  if (status.code() == EDGECORE_PENDING) return;
  status_ = status.ok() ? take_results_(error_) : status;
  take_results_ = nullptr;  // and what it kept
  ended_.store(true, std::memory_order_release);
}

bool StartedRun::go_on(std::chrono::milliseconds patience) {
  while (!ended()) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!fired_.wait_for(lock, patience, [this] { return is_ready_; })) return false;
      is_ready_ = false;
    }
    settle(method_.resume(error_));
  }
  return true;
}

void Turn::start(std::shared_ptr<StartedRun> run) {
  run->settle(run->method_.start(*run, run->error_));
  if (!run->ended()) pending_ = std::move(run);
}

bool Turn::advance(StartedRun &run, std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  if (patience.count() > 0) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return run.ended();
  }
  if (!run.go_on(patience)) return false;
  if (pending_.get() == &run) pending_ = nullptr;
  return true;
}

void Turn::end_pending() {
  while (!pending_->go_on(std::chrono::hours(1))) {
  }
  pending_ = nullptr;
}

}  // namespace edgecore
