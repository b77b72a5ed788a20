#include "core/segments.h"

#include <string.h>

#include "core/checked.h"

namespace edgecore {
namespace {

// Returns the alignment in bytes of file position `offset`, at most 16, because delegates expect no more.
uint64_t alignment_at(uint64_t offset) { return offset % 16 == 0 ? 16 : offset & (~offset + 1); }

const char *name_of(LoadUse use) {
  static constexpr const char *kNames[] = {"tables", "constants", "initial state", "a delegate", "named data"};
  return kNames[static_cast<size_t>(use)];
}

}  // namespace

Status check_range(uint64_t total, uint64_t offset, uint64_t size, StringView name, Error &error) {
  if (contains(total, offset, size)) return Status();
  return fail(error, EDGECORE_INVALID_ARGUMENT, name, " has ", total, " bytes; ", size, " bytes from byte ", offset,
              " are not in it.");
}

Result<Bytes> BufferDataLoader::load(uint64_t offset, size_t size, LoadUse, Error &) {
  if (!contains(file_.size(), offset, size)) return Status(EDGECORE_INVALID_ARGUMENT);
  return Bytes(file_.data() + offset, size);
}

Result<Bytes> load_bytes(DataLoader &loader, uint64_t offset, uint64_t size, LoadUse use, Error &error) {
  error.clear();
  int32_t code = EDGECORE_MEMORY_ALLOCATION_FAILED;
  const char *problem = "exceed the address space";
  if (size <= SIZE_MAX) {
    const Result<Bytes> loaded = loader.load(offset, static_cast<size_t>(size), use, error);
    const Bytes bytes = *loaded;
    code = EDGECORE_ACCESS_FAILED;
    if (!loaded.ok()) {
      if (error.size != 0) return loaded;
      code = loaded.status().code();
      problem = "cannot be loaded";
    } else if (bytes.data() == nullptr || bytes.size() != size) {
      if (bytes.data() != nullptr) loader.release(bytes);
      problem = "were not loaded whole";
    } else if (use == LoadUse::kTables || reinterpret_cast<uintptr_t>(bytes.data()) % alignment_at(offset) == 0) {
      return loaded;
    } else {
      loader.release(bytes);
      code = EDGECORE_INVALID_PROGRAM;
      problem = "were loaded to a misaligned address";
    }
  }
  return fail(error, code, "The ", size, " bytes of ", name_of(use), " from byte ", offset, " of the file ", problem,
              ".");
}

Status copy_start(DataLoader &loader, size_t size, uint8_t *to, Error &error) {
  const Result<Bytes> loaded = load_bytes(loader, 0, size, LoadUse::kTables, error);
  EDGECORE_TRY(loaded.status());
  memcpy(to, (*loaded).data(), size);
  loader.release(*loaded);
  return Status();
}

Status Segments::allocate(size_t count, Allocator &allocator, DataLoader *loader, Error &error) {
  loader_ = loader;
  void *table = allocator.allocate(count * sizeof(Segment), alignof(Segment));
  if (table == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a table of ", count, " segments.");
  }
  memset(table, 0, count * sizeof(Segment));
  table_ = {static_cast<Segment *>(table), count};
  return Status();
}

Result<Bytes> Segments::keep(size_t index, LoadUse use, Error &error) const {
  Segment &segment = table_[index];
  const uint8_t *kept = __atomic_load_n(&segment.kept, __ATOMIC_ACQUIRE);
  if (kept == nullptr) {
    const Result<Bytes> loaded = borrow(index, use, error);
    EDGECORE_TRY(loaded.status());
    if (__atomic_compare_exchange_n(&segment.kept, &kept, (*loaded).data(), false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
      return loaded;
    }
    release(*loaded);  // another thread has loaded and stored this segment meanwhile: release our copy
  }
  return Bytes(kept, static_cast<size_t>(segment.size));
}

Result<Bytes> Segments::borrow(size_t index, LoadUse use, Error &error) const {
  alignas(16) static constexpr uint8_t kNothing = 0;  // even an empty tensor needs an aligned address
  const Segment &segment = table_[index];
  if (segment.size == 0) return Bytes(&kNothing, 0);
  return load_bytes(*loader_, segment.offset, segment.size, use, error);
}

void Segments::release(Bytes bytes) const {
  if (!bytes.empty()) loader_->release(bytes);
}

}  // namespace edgecore
