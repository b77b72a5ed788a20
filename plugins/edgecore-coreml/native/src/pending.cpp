#include "pending.h"

#include <exception>
#include <memory>
#include <utility>

namespace edgecore_coreml {

using edgecore::backend::Failure;
using edgecore::backend::to_str;

Pending::~Pending() {
  if (ended_.valid()) ended_.wait();
}

int32_t Pending::begin(const edgecore_execute_info &info, const std::function<void(Done)> &start,
                       std::function<void()> finish) {
  const auto ended = std::make_shared<std::promise<void>>();
  ended_ = ended->get_future();
  const auto complete = info.completion;
  void *const arg = info.completion_arg;
  try {
    start([ended, complete, arg, finish = std::move(finish)](std::exception_ptr failure) {
      try {
        if (failure) std::rethrow_exception(failure);
        finish();
        complete(arg, EDGECORE_OK, {nullptr, 0});
      } catch (const Failure &error) {
        complete(arg, error.code, to_str(error.text));
      } catch (const std::exception &error) {
        complete(arg, EDGECORE_INTERNAL, to_str(error.what()));
      }
      ended->set_value();  // last: the instance may go now
    });
  } catch (...) {
    ended_ = {};  // nothing runs
    throw;
  }
  return EDGECORE_PENDING;
}

}  // namespace edgecore_coreml
