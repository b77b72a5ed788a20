#include "workspace.h"

#include <new>

namespace edgecore::xnnpack {

std::shared_ptr<Workspace> Workspace::create() {
  xnn_workspace_t handle = nullptr;
  if (xnn_create_workspace(&handle) != xnn_status_success) throw std::bad_alloc();
  return std::shared_ptr<Workspace>(new Workspace(handle));
}

std::shared_ptr<Workspace> Workspace::of_process() {
  // Never destroy the two static objects, because programs may be loaded while the process exits.
  static auto &mutex = *new std::mutex;
  static auto &current = *new std::weak_ptr<Workspace>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Workspace> workspace = current.lock();
  if (workspace == nullptr) current = workspace = create();
  return workspace;
}

}  // namespace edgecore::xnnpack
