#include "core/segments.h"

#include <new>

#include "core/checked.h"

namespace edgecore {
namespace {

// Returns the alignment that bytes at `offset` of the file have by their place in it, at most 16: what delegates
// expect.
uint64_t alignment_at(uint64_t offset) { return offset % 16 == 0 ? 16 : offset & (~offset + 1); }

StringView name_of(LoadUse use) {
  static constexpr StringView kNames[] = {"tables", "constants", "initial state", "a delegate", "named data"};
  return kNames[static_cast<size_t>(use)];
}

}  // namespace

Status check_range(uint64_t total, uint64_t offset, uint64_t size, StringView name, Error &error) {
  if (contains(total, offset, size)) return Status();
  return fail(error, EDGECORE_INVALID_ARGUMENT, name, " has ", total, " bytes; ", size, " bytes from byte ", offset,
              " are not in it.");
}

Result<Bytes> BufferDataLoader::load(uint64_t offset, size_t size, LoadUse, Error &error) {
  EDGECORE_TRY(check_range(file_.size(), offset, size, "The buffer", error));
  return Bytes(file_.data() + offset, size);
}

Result<Bytes> load_bytes(DataLoader &loader, uint64_t offset, uint64_t size, LoadUse use, Error &error) {
  if (size > SIZE_MAX) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "The ", size, " bytes of ", name_of(use),
                " exceed the address space.");
  }
  error.clear();
  const Result<Bytes> loaded = loader.load(offset, static_cast<size_t>(size), use, error);
  if (!loaded.ok()) {
    if (error.size != 0) return loaded;
    return fail(error, loaded.status().code(), "The data loader cannot load ", size, " bytes of ", name_of(use),
                " from byte ", offset, ".");
  }
  const Bytes bytes = *loaded;
  if (bytes.data() == nullptr || bytes.size() != size) {
    return fail(error, EDGECORE_ACCESS_FAILED, "The data loader returned ", static_cast<uint64_t>(bytes.size()),
                " bytes of ", name_of(use), " instead of ", size, " from byte ", offset, ".");
  }
  if (use != LoadUse::kTables && reinterpret_cast<uintptr_t>(bytes.data()) % alignment_at(offset) != 0) {
    loader.release(bytes);
    return fail(error, EDGECORE_INVALID_PROGRAM, "The ", size, " bytes of ", name_of(use), " from byte ", offset,
                " of the file are misaligned: they were loaded to an address that is no multiple of ",
                alignment_at(offset), ".");
  }
  return loaded;
}

Status Segments::allocate(size_t count, Allocator &allocator, DataLoader *loader, Error &error) {
  loader_ = loader;
  if (count == 0) return Status();
  auto *table = static_cast<Segment *>(allocator.allocate(count * sizeof(Segment), alignof(Segment)));
  if (table == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a table of ", static_cast<uint64_t>(count),
                " segments.");
  }
  for (size_t i = 0; i < count; ++i) new (table + i) Segment{0, 0, nullptr};
  table_ = {table, count};
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
    release(*loaded);  // another thread has loaded the segment meanwhile
  }
  return Bytes(kept, static_cast<size_t>(segment.size));
}

Result<Bytes> Segments::borrow(size_t index, LoadUse use, Error &error) const {
  static constexpr uint8_t kNothing = 0;
  const Segment &segment = table_[index];
  if (segment.size == 0) return Bytes(&kNothing, 0);
  return load_bytes(*loader_, segment.offset, segment.size, use, error);
}

void Segments::release(Bytes bytes) const {
  if (!bytes.empty()) loader_->release(bytes);
}

}  // namespace edgecore
