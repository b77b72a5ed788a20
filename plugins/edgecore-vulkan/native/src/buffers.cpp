#include "buffers.h"

namespace edgecore::vulkan {

void *map(edgecore_buffer &buffer, uint64_t offset, uint64_t bytes) {
  const Buffer &seen = buffer.device->unified() ? buffer.memory : buffer.staging;
  if (offset > seen.size() || bytes > seen.size() - offset) {
    backend::fail(EDGECORE_INVALID_ARGUMENT, "a mapping of a buffer ends after the end of the buffer");
  }
  buffer.mapped_offset = offset;
  buffer.mapped_bytes = bytes;
  return static_cast<char *>(seen.mapped()) + offset;
}

void flush(edgecore_buffer &buffer) {
  if (buffer.device->unified()) return buffer.memory.flush();
  if (buffer.mapped_bytes == 0) return;
  buffer.staging.flush();
  buffer.device->copy(buffer.staging, buffer.memory, buffer.mapped_offset, buffer.mapped_bytes);
}

void invalidate(edgecore_buffer &buffer) {
  if (buffer.device->unified()) return buffer.memory.invalidate();
  buffer.device->copy(buffer.memory, buffer.staging, 0, buffer.memory.size());
  buffer.staging.invalidate();
}

}  // namespace edgecore::vulkan
