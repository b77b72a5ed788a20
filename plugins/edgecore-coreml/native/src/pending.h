// A run that may go on after `execute` has returned, see EDGECORE_PENDING in backend.h.
#ifndef EDGECORE_COREML_PENDING_H_
#define EDGECORE_COREML_PENDING_H_

#include <functional>
#include <future>

#include "edgecore/backend.hpp"
#include "model.h"

namespace edgecore_coreml {

class Pending {
 public:
  Pending() = default;
  // Waits for the end of the run.
  ~Pending();
  Pending(const Pending &) = delete;
  Pending &operator=(const Pending &) = delete;

  // Calls `start` with the function that it calls at the end of its work, as Session::start does. `finish` then makes
  // the results ready, and the host gets the code and the message of the first failure. Returns EDGECORE_PENDING, or
  // throws what `start` throws.
  int32_t begin(const edgecore_execute_info &info, const std::function<void(Done)> &start,
                std::function<void()> finish);

 private:
  std::future<void> ended_;
};

}  // namespace edgecore_coreml

#endif  // EDGECORE_COREML_PENDING_H_
