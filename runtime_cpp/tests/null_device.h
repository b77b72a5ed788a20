// The simulated device of the null backend (null_backend.h). The runtime can access the device's buffers only after
// buffer_map, as on a GPU, and submitted work waits in a queue until a test calls null_backend_drain.
#ifndef EDGECORE_TESTS_NULL_DEVICE_H_
#define EDGECORE_TESTS_NULL_DEVICE_H_

#include <functional>
#include <vector>

#include "edgecore/backend.h"

struct edgecore_driver {
  const edgecore_host *host;
};

// A buffer of the device. The device accesses `memory`, but buffer_map returns `shadow`. buffer_flush copies `shadow`
// to `memory`, and buffer_invalidate copies back, so that a test fails if the runtime forgets one of these two calls.
struct edgecore_buffer {
  const edgecore_host *host;
  uint64_t size;
  uint8_t *memory;
  bool owns_memory;
  bool mapped;
  std::vector<uint8_t> shadow;
};

namespace null_device {

// The memory_kind of the device's buffers in edgecore_buffer_requirement. 0 means host memory; a backend is free to
// choose any other number.
constexpr uint32_t kMemoryKind = 7;

// Sets buffer_create, buffer_map and the other buffer functions of a backend's function table.
void add_members(edgecore_backend &table);

// Queues pending work of an instance; null_backend_drain runs it.
void submit(edgecore_instance *instance, std::function<void()> work);
// Removes the queued work of an instance, and waits for its running work.
void cancel(edgecore_instance *instance);

}  // namespace null_device

// Runs all pending work, and returns the number of work items. May be called from any thread.
extern "C" uint64_t null_backend_drain();

// These functions return the number of buffers that exist now, and the number of calls of buffer_map since the start of
// the process.
extern "C" uint64_t null_backend_live_buffers();
extern "C" uint64_t null_backend_maps();

#endif  // EDGECORE_TESTS_NULL_DEVICE_H_
