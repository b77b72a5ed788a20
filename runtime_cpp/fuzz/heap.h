#ifndef EDGECORE_FUZZ_HEAP_H_
#define EDGECORE_FUZZ_HEAP_H_

#include <stdlib.h>
#include <string.h>

#include <vector>

#include "edgecore/allocator.h"

namespace edgecore {

// Makes a separate heap allocation for each request, so that the sanitizer detects accesses past its end. Returns NULL
// past 8 MiB.
class FuzzAllocator final : public ScratchAllocator {
 public:
  ~FuzzAllocator() { reset(); }
  void *allocate(size_t size, size_t alignment) override {
    constexpr size_t kMaxBytes = size_t{8} << 20;
    if (size > kMaxBytes - used_) return nullptr;
    used_ += size;
    void *data = nullptr;
    const size_t min_alignment = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    if (posix_memalign(&data, min_alignment, size == 0 ? 1 : size) != 0) return nullptr;
    blocks_.push_back(data);
    return data;
  }
  void reset() override {
    for (void *block : blocks_) free(block);
    blocks_.clear();
    used_ = 0;
  }

 private:
  size_t used_ = 0;
  std::vector<void *> blocks_;
};

// A copy of the fuzzer's input at a multiple of 128, in exactly `size` bytes: the sanitizer detects reads past its end.
class FuzzFile {
 public:
  FuzzFile(const uint8_t *data, size_t size) : size_(size) {
    if (posix_memalign(&memory_, 128, size == 0 ? 1 : size) != 0) abort();
    if (size != 0) memcpy(memory_, data, size);
  }
  ~FuzzFile() { free(memory_); }
  Bytes bytes() const { return {static_cast<const uint8_t *>(memory_), size_}; }

  FuzzFile(const FuzzFile &) = delete;
  FuzzFile &operator=(const FuzzFile &) = delete;

 private:
  void *memory_ = nullptr;
  size_t size_;
};

}  // namespace edgecore

#endif  // EDGECORE_FUZZ_HEAP_H_
