// Memory for the intermediate values of several runtimes, which therefore take turns.
#ifndef EDGECORE_XNNPACK_WORKSPACE_H_
#define EDGECORE_XNNPACK_WORKSPACE_H_

#include <xnnpack.h>

#include <memory>
#include <mutex>

namespace edgecore::xnnpack {

class Workspace {
 public:
  // NULL if there is no memory.
  static std::shared_ptr<Workspace> Make();
  // The one of the process, as long as somebody uses it.
  static std::shared_ptr<Workspace> OfProcess();

  ~Workspace() { xnn_release_workspace(handle_); }

  xnn_workspace_t handle() const { return handle_; }

  // Held by whoever creates, plans, runs or deletes a runtime: a plan that needs more memory moves it, and XNNPACK sets
  // the pointers of all other runtimes.
  std::mutex mutex;

  // Counts plans that failed, after which the pointers of other runtimes may be wrong: each plans anew. Under the
  // mutex.
  uint64_t failures = 0;

  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;

 private:
  explicit Workspace(xnn_workspace_t handle) : handle_(handle) {}

  xnn_workspace_t handle_;
};

// The lock of a workspace; none for one that is not shared (NULL).
inline std::unique_lock<std::mutex> TakeTurn(const std::shared_ptr<Workspace> &workspace) {
  return workspace == nullptr ? std::unique_lock<std::mutex>() : std::unique_lock<std::mutex>(workspace->mutex);
}

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_WORKSPACE_H_
