#ifndef EDGECORE_XNNPACK_FUZZ_GUARDED_MEMORY_H_
#define EDGECORE_XNNPACK_FUZZ_GUARDED_MEMORY_H_

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace edgecore::xnnpack {

// Buffers of equal size (slots) for arguments. A page that cannot be accessed (guard page) follows each slot: XNNPACK's
// kernels are compiled without sanitizers, so only a guard page reveals an access past the end of an argument.
class GuardedMemory {
 public:
  GuardedMemory(size_t slots, size_t bytes) : stride_((bytes + kPage - 1) / kPage * kPage + kPage) {
    void *memory = mmap(nullptr, slots * stride_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    begin_ = static_cast<uint8_t *>(memory);
    for (size_t i = 0; i < slots; ++i) {
      if (mprotect(begin_ + i * stride_, stride_ - kPage, PROT_READ | PROT_WRITE) != 0) std::abort();
    }
  }

  // Returns `bytes` bytes of a slot, aligned to 16 and filled with small numbers. Between the end of these bytes and
  // the guard page lie fewer than `padding` + 16 bytes.
  uint8_t *take(size_t slot, uint64_t bytes, uint64_t padding) {
    const uint64_t whole = (bytes + padding + 15) / 16 * 16;
    if (whole > stride_ - kPage) std::abort();
    uint8_t *data = begin_ + slot * stride_ + (stride_ - kPage - whole);
    for (uint64_t i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(i % 13);
    return data;
  }

 private:
  static constexpr size_t kPage = 4096;
  size_t stride_;
  uint8_t *begin_ = nullptr;
};

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_FUZZ_GUARDED_MEMORY_H_
