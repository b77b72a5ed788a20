// Memory between guard pages, so that an access beyond a buffer faults.
#ifndef EDGECORE_XNNPACK_TRIAL_GUARDED_H_
#define EDGECORE_XNNPACK_TRIAL_GUARDED_H_

#include <cstddef>
#include <cstdint>

namespace edgecore::xnnpack::trial {

// A range of pages between two guard pages, which fault on any access. Later calls of allocate reuse the range, or
// replace it if it is too small.
class GuardedMemory {
 public:
  GuardedMemory() = default;
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;
  ~GuardedMemory();

  // Returns a buffer of `bytes` bytes, aligned to `alignment`. With `at_start`, the buffer begins right after the lower
  // guard page; otherwise it ends `padding` bytes before the upper guard page, or a little earlier because of the
  // alignment. The buffer and the bytes after it are filled with 0xFF (NaN in fp32 and fp16), so that a kernel that
  // uses uninitialized bytes computes NaN. Earlier buffers become invalid. Returns null if memory is exhausted.
  uint8_t *allocate(size_t bytes, size_t padding, size_t alignment, bool at_start);

 private:
  uint8_t *pages_ = nullptr;  // the lower guard page
  size_t size_ = 0;           // number of bytes between the two guard pages
};

}  // namespace edgecore::xnnpack::trial

#endif  // EDGECORE_XNNPACK_TRIAL_GUARDED_H_
