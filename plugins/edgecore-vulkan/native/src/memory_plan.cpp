#include "memory_plan.h"

#include <algorithm>

namespace edgecore::vulkan {

namespace {

constexpr uint64_t kAlignment = 256;  // in bytes: the largest allowed minStorageBufferOffsetAlignment

}  // namespace

void plan_memory(Recording *recording) {
  std::vector<Storage *> order;
  for (Storage &storage : recording->storages) {
    if (storage.kind == Storage::Kind::kArena && storage.first != SIZE_MAX) order.push_back(&storage);
  }
  std::stable_sort(order.begin(), order.end(), [](const Storage *a, const Storage *b) { return a->bytes > b->bytes; });
  std::vector<const Storage *> placed;  // sorted by offset
  for (Storage *storage : order) {
    uint64_t offset = 0;
    for (const Storage *other : placed) {
      if (other->last < storage->first || other->first > storage->last) continue;
      if (offset + storage->bytes <= other->offset) break;
      offset = std::max(offset, (other->offset + other->bytes + kAlignment - 1) / kAlignment * kAlignment);
    }
    storage->offset = offset;
    recording->arena_bytes = std::max(recording->arena_bytes, offset + storage->bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), storage,
                                   [](const Storage *a, const Storage *b) { return a->offset < b->offset; }),
                  storage);
  }
}

}  // namespace edgecore::vulkan
