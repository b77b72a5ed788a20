// Whose turn it is to use methods, and runs that go on while their caller does something else.
#ifndef EDGECORE_HOST_TURN_H_
#define EDGECORE_HOST_TURN_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "edgecore/method.h"

namespace edgecore {

// A run of a method that may wait for a device. It goes on when somebody asks for it: advance, or the next taker of
// the turn. What it needs until it has ended belongs to `take_results`.
class StartedRun final : private Completion {
 public:
  // `take_results` is called after a run that succeeded, before anybody else uses the method.
  StartedRun(Method &method, std::function<Status(Error &)> take_results)
      : method_(method), take_results_(std::move(take_results)) {}
  ~StartedRun() = default;

  // From any thread. From then on status and error stay as they are.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  Status status() const { return status_; }
  const Error &error() const { return error_; }

 private:
  friend class Turn;
  void ready() override;
  void settle(Status status);
  bool go_on(std::chrono::milliseconds patience);

  Method &method_;
  std::function<Status(Error &)> take_results_;
  std::mutex mutex_;
  std::condition_variable fired_;
  bool is_ready_ = false;  // the device is done, and nobody has gone on yet
  std::atomic<bool> ended_{false};
  Status status_;
  Error error_;
};

// Calls of one method take turns, and so do those of methods that share state. A run that is pending keeps the turn,
// but no thread: whoever wants it next brings that run to its end.
class Turn {
 public:
  // Waits for the turn. The methods are free to use while the lock is held.
  std::unique_lock<std::mutex> take() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (pending_ != nullptr) end_pending();
    return lock;
  }

  // Starts a run whose inputs and outputs are set; the caller holds what take gave. Without a device it has ended
  // afterwards.
  void start(std::shared_ptr<StartedRun> run);

  // Goes on with a run that start was called with, as far as its device lets it; waits for that at most `patience` at a
  // time. Whether the run has ended. With no patience it also leaves a run alone that another thread sees to.
  bool advance(StartedRun &run, std::chrono::milliseconds patience);

 private:
  void end_pending();

  std::mutex mutex_;
  std::shared_ptr<StartedRun> pending_;  // guarded by mutex_
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_TURN_H_
