// The device of the null backend: memory that the host reaches through maps only, and a queue that tests drain.
#ifndef EDGECORE_TESTS_NULL_DEVICE_H_
#define EDGECORE_TESTS_NULL_DEVICE_H_

#include <functional>
#include <vector>

#include "edgecore/backend.h"

struct edgecore_driver {
  const edgecore_host *host;
};

// `memory` is what the device sees; the host maps `shadow`, which flush and invalidate copy.
struct edgecore_buffer {
  const edgecore_host *host;
  uint64_t size;
  uint8_t *memory;
  bool owns_memory;
  bool mapped;
  std::vector<uint8_t> shadow;
};

namespace null_device {

// The memory kind of its buffers.
constexpr uint32_t kMemoryKind = 7;

// Fills in the buffer members of the table.
void add_members(edgecore_backend &table);

// Work that an instance left pending: runs when the queue is drained. cancel forgets that of an instance, or waits for
// it.
void submit(edgecore_instance *instance, std::function<void()> work);
void cancel(edgecore_instance *instance);

}  // namespace null_device

// Runs what is pending, and gives its number. From any thread.
extern "C" uint64_t null_backend_drain();

// Buffers that exist now, and calls of buffer_map since the start.
extern "C" uint64_t null_backend_live_buffers();
extern "C" uint64_t null_backend_maps();

#endif  // EDGECORE_TESTS_NULL_DEVICE_H_
