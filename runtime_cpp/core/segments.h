// The segments of a .pte or .ptd file, which a DataLoader loads when they are needed. Private to the core.
#ifndef EDGECORE_CORE_SEGMENTS_H_
#define EDGECORE_CORE_SEGMENTS_H_

#include "edgecore/allocator.h"
#include "edgecore/data_loader.h"

namespace edgecore {

// Loads `size` bytes of a file and checks their number and alignment. Bytes for kTables may be misaligned, because
// load_tables then copies them. Errors: INVALID_PROGRAM (misaligned), ACCESS_FAILED (the loader returned another number
// of bytes), MEMORY_ALLOCATION_FAILED (`size` exceeds the address space), and the errors of the loader.
Result<Bytes> load_bytes(DataLoader &loader, uint64_t offset, uint64_t size, LoadUse use, Error &error);

// Copies the first `size` bytes of the file to `to`. Errors: as load_bytes.
Status copy_start(DataLoader &loader, size_t size, uint8_t *to, Error &error);

// The position of a segment in the file, and the address of its bytes if they are loaded and stay in memory.
struct Segment {
  uint64_t offset;
  uint64_t size;
  const uint8_t *kept;  // address of the segment's bytes, or NULL; atomic, because several threads load methods
};

class Segments {
 public:
  // Makes a table of `count` empty segments. Errors: MEMORY_ALLOCATION_FAILED.
  Status allocate(size_t count, Allocator &allocator, DataLoader *loader, Error &error);

  size_t size() const { return table_.size(); }
  Segment &operator[](size_t index) const { return table_[index]; }
  size_t tail() const { return loader_->tail(); }

  // Returns the bytes of a segment. The bytes stay valid as long as the loader exists. The first call loads the bytes
  // from the file.
  Result<Bytes> keep(size_t index, LoadUse use, Error &error) const;
  // Loads the bytes of a segment. The bytes stay valid until the caller passes them to `release`.
  Result<Bytes> borrow(size_t index, LoadUse use, Error &error) const;
  void release(Bytes bytes) const;

 private:
  DataLoader *loader_ = nullptr;
  Span<Segment> table_;
};

}  // namespace edgecore

#endif  // EDGECORE_CORE_SEGMENTS_H_
