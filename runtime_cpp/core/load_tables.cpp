#include "core/load_tables.h"

#include <string.h>

#include "core/segments.h"
#include "edgecore/method.h"

namespace edgecore {

constexpr size_t kTableAlignment = 16;  // alignment in bytes of flatbuffer tables that are used without a copy

Result<Bytes> load_tables(DataLoader &loader, uint64_t offset, uint64_t size, bool in_place, Allocator &allocator,
                          StringView what, Error &error) {
  const Result<Bytes> loaded = load_bytes(loader, offset, size, LoadUse::kTables, error);
  EDGECORE_TRY(loaded.status());
  const Bytes bytes = *loaded;
  if (in_place && reinterpret_cast<uintptr_t>(bytes.data()) % kTableAlignment == 0) return bytes;
  uint8_t *copy = static_cast<uint8_t *>(allocator.allocate(bytes.size() + kArenaTail, kArenaAlignment));
  if (copy != nullptr) {
    memcpy(copy, bytes.data(), bytes.size());
    memset(copy + bytes.size(), 0, kArenaTail);
  }
  loader.release(bytes);
  if (copy != nullptr) return Bytes(copy, static_cast<size_t>(size));
  return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for the private copy of ", what, " (", size,
              " bytes).");
}

}  // namespace edgecore
