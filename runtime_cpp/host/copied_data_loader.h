// A DataLoader over a private copy of bytes, which no other code can change.
#ifndef EDGECORE_HOST_COPIED_DATA_LOADER_H_
#define EDGECORE_HOST_COPIED_DATA_LOADER_H_

#include "edgecore/file_data_loader.h"
#include "host/heap.h"

namespace edgecore {

class CopiedDataLoader final : public SystemDataLoader {
 public:
  // Copies `bytes` to an address that is a multiple of 128. Errors: MEMORY_ALLOCATION_FAILED.
  static Status copy(Bytes bytes, std::unique_ptr<SystemDataLoader> &loader, Error &error);

  uint64_t size() const override { return buffer_.size(); }
  Result<Bytes> load(uint64_t offset, size_t size, LoadUse use, Error &error) override {
    return buffer_.load(offset, size, use, error);
  }
  void release(Bytes) override {}

 private:
  CopiedDataLoader(HeapBlock memory, size_t size)
      : memory_(std::move(memory)), buffer_({static_cast<const uint8_t *>(memory_.get()), size}, kTail) {}

  HeapBlock memory_;
  BufferDataLoader buffer_;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_COPIED_DATA_LOADER_H_
