// The segments of a .pte or .ptd file, which a DataLoader gives when they are needed. Private to the core.
#ifndef EDGECORE_CORE_SEGMENTS_H_
#define EDGECORE_CORE_SEGMENTS_H_

#include "edgecore/allocator.h"
#include "edgecore/data_loader.h"

namespace edgecore {

// Asks `loader` for bytes, and checks their number and, unless they are kTables, which load_tables copies where their
// address does not fit, their alignment.
// Errors: INVALID_PROGRAM (misaligned), ACCESS_FAILED (another number of bytes), MEMORY_ALLOCATION_FAILED (more than
// the address space), and those that the loader returns.
Result<Bytes> load_bytes(DataLoader &loader, uint64_t offset, uint64_t size, LoadUse use, Error &error);

// Copies the first `size` bytes of the file to `to`. Errors: those that load_bytes returns.
Status copy_start(DataLoader &loader, size_t size, uint8_t *to, Error &error);

// Where a segment lies in the file, and its bytes if they are kept.
struct Segment {
  uint64_t offset;
  uint64_t size;
  const uint8_t *kept;  // accessed atomically: different threads may load methods of one program
};

class Segments {
 public:
  // Makes a table of `count` empty segments. Errors: MEMORY_ALLOCATION_FAILED.
  Status allocate(size_t count, Allocator &allocator, DataLoader *loader, Error &error);

  size_t size() const { return table_.size(); }
  Segment &operator[](size_t index) const { return table_[index]; }
  size_t tail() const { return loader_->tail(); }

  // Returns the bytes of a segment, which stay valid as long as the loader: the first call loads them.
  Result<Bytes> keep(size_t index, LoadUse use, Error &error) const;
  // Returns the bytes of a segment until the caller releases them.
  Result<Bytes> borrow(size_t index, LoadUse use, Error &error) const;
  void release(Bytes bytes) const;

 private:
  DataLoader *loader_ = nullptr;
  Span<Segment> table_;
};

}  // namespace edgecore

#endif  // EDGECORE_CORE_SEGMENTS_H_
