// Memory for intermediate values, which several XNNPACK runtimes share. A mutex lets only one of them run at a time.
#ifndef EDGECORE_XNNPACK_WORKSPACE_H_
#define EDGECORE_XNNPACK_WORKSPACE_H_

#include <xnnpack.h>

#include <memory>
#include <mutex>

namespace edgecore::xnnpack {

class Workspace {
 public:
  // Throws std::bad_alloc.
  static std::shared_ptr<Workspace> create();
  // Returns the workspace that the whole process shares; it exists while a shared_ptr refers to it. Throws
  // std::bad_alloc.
  static std::shared_ptr<Workspace> of_process();

  ~Workspace() { xnn_release_workspace(handle_); }

  xnn_workspace_t handle() const { return handle_; }

  // A thread must lock this mutex to create, plan, run or delete a runtime that uses the workspace: if a plan needs
  // more memory, XNNPACK moves the workspace and changes the pointers in all other runtimes that use it.
  std::mutex mutex;

  // The number of failed plans, guarded by the mutex. After a failed plan the pointers in the workspace's other
  // runtimes may be wrong, so each of them plans again before it runs.
  uint64_t failures = 0;

  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;

 private:
  explicit Workspace(xnn_workspace_t handle) : handle_(handle) {}

  xnn_workspace_t handle_;
};

// Locks a workspace that several runtimes share. Locks nothing if `workspace` is null: the runtime has a private one.
inline std::unique_lock<std::mutex> lock_workspace(const std::shared_ptr<Workspace> &workspace) {
  return workspace == nullptr ? std::unique_lock<std::mutex>() : std::unique_lock<std::mutex>(workspace->mutex);
}

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_WORKSPACE_H_
