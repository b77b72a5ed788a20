// Reading numbers of file headers, and private copies of what is going to be checked.
#ifndef EDGECORE_CORE_EXTENDED_HEADER_H_
#define EDGECORE_CORE_EXTENDED_HEADER_H_

#include <string.h>

#include "edgecore/allocator.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

constexpr uint64_t kFlatbufferMax = 0x7fffffff;  // flatbuffers' own offsets are signed 32-bit numbers

inline uint64_t read_u64(const uint8_t *bytes) {
  uint64_t value;
  memcpy(&value, bytes, sizeof(value));
  return value;
}

inline uint32_t read_u32(const uint8_t *bytes) {
  uint32_t value;
  memcpy(&value, bytes, sizeof(value));
  return value;
}

// Copies `bytes` to private memory, so that nobody changes them after they were checked. A readable tail follows.
Result<Bytes> copy_bytes(Bytes bytes, Allocator &allocator, StringView what, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_CORE_EXTENDED_HEADER_H_
