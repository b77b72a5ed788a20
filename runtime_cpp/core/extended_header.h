// Reads unaligned little-endian numbers from file headers.
#ifndef EDGECORE_CORE_EXTENDED_HEADER_H_
#define EDGECORE_CORE_EXTENDED_HEADER_H_

#include <stdint.h>
#include <string.h>

namespace edgecore {

constexpr uint64_t kFlatbufferMax = 0x7fffffff;  // maximum size of a flatbuffer: its offsets are signed 32-bit numbers

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

}  // namespace edgecore

#endif  // EDGECORE_CORE_EXTENDED_HEADER_H_
