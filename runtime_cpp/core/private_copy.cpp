#include "core/private_copy.h"

#include <string.h>

#include "core/segments.h"
#include "edgecore/method.h"

namespace edgecore {

Result<Bytes> private_copy(Bytes bytes, Allocator &allocator, StringView what, Error &error) {
  void *copy = allocator.allocate(bytes.size() + kArenaTail, kArenaAlignment);
  if (copy == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for the private copy of ", what, " (",
                bytes.size(), " bytes).");
  }
  memcpy(copy, bytes.data(), bytes.size());
  memset(static_cast<uint8_t *>(copy) + bytes.size(), 0, kArenaTail);
  return Bytes(static_cast<const uint8_t *>(copy), bytes.size());
}

Result<Bytes> private_copy(DataLoader &loader, uint64_t size, Allocator &allocator, StringView what, Error &error) {
  const Result<Bytes> loaded = load_bytes(loader, 0, size, LoadUse::kTables, error);
  EDGECORE_TRY(loaded.status());
  const Result<Bytes> copy = private_copy(*loaded, allocator, what, error);
  loader.release(*loaded);
  return copy;
}

}  // namespace edgecore
