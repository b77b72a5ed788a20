// A program's bytes in memory: a mapped file, or a private copy of bytes.
#ifndef EDGECORE_HOST_FILE_H_
#define EDGECORE_HOST_FILE_H_

#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// The bytes of a file. At least kTail bytes past the end are readable (zero), because delegates may read a few bytes
// past the end of the last weight.
class File {
 public:
  static constexpr size_t kTail = 128;

  File() = default;
  ~File();

  // Maps a regular file, read-only and private. Errors: ACCESS_FAILED (with the system's reason), INVALID_PROGRAM
  // (not a regular file, or empty), MEMORY_ALLOCATION_FAILED. `this` must be empty.
  Status map(const char *path, Error &error);
  // Copies `bytes` to an address that is a multiple of 128. Errors: MEMORY_ALLOCATION_FAILED. `this` must be empty.
  Status copy(Bytes bytes, Error &error);

  // Replaces a mapping by a copy, which another process cannot change.
  Status make_private(Error &error);

  // Gives the physical memory of a mapping back to the system. The bytes stay valid: the next read loads them from the
  // file again.
  void release() const;

  Bytes bytes() const { return bytes_; }

  File(const File &) = delete;
  File &operator=(const File &) = delete;

 private:
  void unmap();

  Bytes bytes_;
  void *mapping_ = nullptr;
  size_t mapped_ = 0;
  void *heap_ = nullptr;
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_FILE_H_
