// Tests the places of intermediate tensors: tensors that are in use at the same time never share memory.
#include "memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace edgecore::vulkan {
namespace {

Storage arena(uint64_t bytes, size_t first, size_t last) {
  Storage storage;
  storage.bytes = bytes;
  storage.first = first;
  storage.last = last;
  return storage;
}

// Returns the maximum number of bytes in use during one dispatch: a lower bound for every plan.
uint64_t most_bytes_at_once(const Recording &recording, size_t dispatches) {
  uint64_t most = 0;
  for (size_t time = 0; time < dispatches; ++time) {
    uint64_t bytes = 0;
    for (const Storage &one : recording.storages) {
      if (one.kind == Storage::Kind::kArena && one.first <= time && time <= one.last) bytes += one.bytes;
    }
    most = std::max(most, bytes);
  }
  return most;
}

void expect_valid(const Recording &recording, size_t dispatches) {
  uint64_t without_sharing = 0;
  for (size_t i = 0; i < recording.storages.size(); ++i) {
    const Storage &a = recording.storages[i];
    if (a.kind != Storage::Kind::kArena || a.first == SIZE_MAX) continue;
    EXPECT_EQ(a.offset % 256, 0u);
    EXPECT_LE(a.offset + a.bytes, recording.arena_bytes);
    without_sharing += (a.bytes + 255) / 256 * 256;
    for (size_t j = 0; j < i; ++j) {
      const Storage &b = recording.storages[j];
      if (b.kind != Storage::Kind::kArena || b.first == SIZE_MAX) continue;
      bool together = false;
      for (size_t time = 0; time < dispatches; ++time) {
        together = together || (a.first <= time && time <= a.last && b.first <= time && time <= b.last);
      }
      const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      EXPECT_TRUE(!together || apart) << "storages " << i << " and " << j;
    }
  }
  EXPECT_LE(recording.arena_bytes, without_sharing);
  EXPECT_GE(recording.arena_bytes, most_bytes_at_once(recording, dispatches));
}

TEST(MemoryPlan, TensorsInUseAtTheSameTimeNeverOverlap) {
  std::mt19937 random(1);
  const auto below = [&](size_t end) { return random() % end; };
  for (int round = 0; round < 1000 && !::testing::Test::HasFailure(); ++round) {
    const size_t dispatches = 1 + below(20);
    Recording recording;
    for (size_t i = 1 + below(30); i > 0; --i) {
      const size_t a = below(dispatches), b = below(dispatches);
      Storage storage = arena(16 * (1 + below(round % 2 == 0 ? 40 : 4)), std::min(a, b), std::max(a, b));
      if (below(8) == 0) storage.first = SIZE_MAX, storage.last = 0;  // no dispatch uses it
      if (below(8) == 0) storage.kind = Storage::Kind::kArgument;
      recording.storages.push_back(storage);
    }
    plan_memory(&recording);
    expect_valid(recording, dispatches);
    if (HasFailure()) ADD_FAILURE() << "in round " << round;
  }
}

TEST(MemoryPlan, AChainOfTensorsNeedsThePlacesOfTwo) {
  Recording recording;
  for (size_t i = 0; i < 50; ++i) recording.storages.push_back(arena(4096, i, i + 1));
  plan_memory(&recording);
  EXPECT_EQ(recording.arena_bytes, 2 * 4096u);
}

TEST(MemoryPlan, ConstantsArgumentsAndUnusedTensorsNeedNoPlace) {
  Recording recording;
  for (const Storage::Kind kind : {Storage::Kind::kConstant, Storage::Kind::kState, Storage::Kind::kArgument}) {
    recording.storages.push_back(arena(1 << 20, 0, 9));
    recording.storages.back().kind = kind;
  }
  recording.storages.push_back(arena(1 << 20, SIZE_MAX, 0));
  plan_memory(&recording);
  EXPECT_EQ(recording.arena_bytes, 0u);
}

}  // namespace
}  // namespace edgecore::vulkan
