// The device of the null backend: memory that the host can access only through maps, and a queue that tests drain.
#ifndef EDGECORE_TESTS_NULL_DEVICE_H_
#define EDGECORE_TESTS_NULL_DEVICE_H_

#include <functional>
#include <vector>

#include "edgecore/backend.h"

struct edgecore_driver {
  const edgecore_host *host;
};

// The device uses `memory`; the host maps `shadow`. flush and invalidate copy between the two, so that a test fails if
// the host forgets one of them.
struct edgecore_buffer {
  const edgecore_host *host;
  uint64_t size;
  uint8_t *memory;
  bool owns_memory;
  bool mapped;
  std::vector<uint8_t> shadow;
};

namespace null_device {

// The memory kind of the device's buffers.
constexpr uint32_t kMemoryKind = 7;

// Sets the buffer functions of the table.
void add_members(edgecore_backend &table);

// Queues pending work of an instance; null_backend_drain runs it.
void submit(edgecore_instance *instance, std::function<void()> work);
// Removes the work of an instance from the queue. Waits for its work that is running.
void cancel(edgecore_instance *instance);

}  // namespace null_device

// Runs all pending work, and returns the number of work items. May be called from any thread.
extern "C" uint64_t null_backend_drain();

// These functions return the number of buffers that exist now, and the number of calls of buffer_map since the start of
// the process.
extern "C" uint64_t null_backend_live_buffers();
extern "C" uint64_t null_backend_maps();

#endif  // EDGECORE_TESTS_NULL_DEVICE_H_
