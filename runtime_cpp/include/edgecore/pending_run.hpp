// The part of an Instance's run that continues after execute has returned. edgecore/backend.hpp includes this file.
#ifndef EDGECORE_PENDING_RUN_HPP_
#define EDGECORE_PENDING_RUN_HPP_

#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "edgecore/byte_reader.hpp"

namespace edgecore::backend {

// The pending run of an Instance (EDGECORE_PENDING in backend.h). The destructor waits for the end of the run. Make the
// PendingRun the last member of the Instance: members are destroyed in reverse order, and the run may still use the
// other members.
class PendingRun {
 public:
  // A function that the work must call once when it ends, from any thread. Its argument is null, or the exception that
  // ended the work.
  using Done = std::function<void(std::exception_ptr)>;

  PendingRun() = default;
  ~PendingRun() {
    if (ended_.valid()) ended_.wait();
  }
  PendingRun(const PendingRun &) = delete;
  PendingRun &operator=(const PendingRun &) = delete;

  // Calls start(done), which starts the work and may return before the work ends. When the work calls done, `finish`
  // makes the results ready; then the host receives EDGECORE_OK, or the code and message of the first exception.
  // Returns EDGECORE_PENDING. If `start` throws, the work must not call `done`; the exception propagates to the caller.
  template <typename Start>
  int32_t begin(const edgecore_execute_info &info, const Start &start, std::function<void()> finish) {
    const auto ended = std::make_shared<std::promise<void>>();
    ended_ = ended->get_future();
    const auto complete = info.completion;
    void *const arg = info.completion_arg;
    try {
      start(Done([ended, complete, arg, finish = std::move(finish)](std::exception_ptr failure) {
        try {
          if (failure) std::rethrow_exception(failure);
          finish();
          complete(arg, EDGECORE_OK, {nullptr, 0});
        } catch (const Failure &error) {
          complete(arg, error.code, to_str(error.text));
        } catch (const std::exception &error) {
          complete(arg, EDGECORE_INTERNAL, to_str(error.what()));
        }
        ended->set_value();  // must come last: from here on the host may destroy the instance
      }));
    } catch (...) {
      ended_ = {};  // no work is running
      throw;
    }
    return EDGECORE_PENDING;
  }

 private:
  std::future<void> ended_;
};

}  // namespace edgecore::backend

#endif  // EDGECORE_PENDING_RUN_HPP_
