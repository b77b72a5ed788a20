// Tests the commands of a recording by their calls of Vulkan: barriers, and reuse of commands. A software device runs
// one dispatch after the other, so results would not reveal a missing barrier.
#include "commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "test_support.h"

namespace edgecore::vulkan {
namespace {

using test::Memory;
using test::Replaced;

constexpr uint64_t kBytes = 64 << 10;

// A command as it is passed to Vulkan; a barrier with its masks.
struct Command {
  enum class Kind : uint8_t { kBarrier, kDispatch, kCopy };
  Kind kind;
  VkPipelineStageFlags from_stages = 0, to_stages = 0;
  VkAccessFlags from = 0, to = 0;
};

std::vector<Command> log;
PFN_vkCmdPipelineBarrier original_barrier = nullptr;
PFN_vkCmdDispatch original_dispatch = nullptr;
PFN_vkCmdCopyBuffer original_copy = nullptr;

void VKAPI_PTR log_barrier(VkCommandBuffer commands, VkPipelineStageFlags from_stages, VkPipelineStageFlags to_stages,
                           VkDependencyFlags flags, uint32_t count, const VkMemoryBarrier *memory, uint32_t,
                           const VkBufferMemoryBarrier *, uint32_t, const VkImageMemoryBarrier *) {
  ASSERT_EQ(count, 1u);
  log.push_back({Command::Kind::kBarrier, from_stages, to_stages, memory->srcAccessMask, memory->dstAccessMask});
  original_barrier(commands, from_stages, to_stages, flags, count, memory, 0, nullptr, 0, nullptr);
}

void VKAPI_PTR log_dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  log.push_back({Command::Kind::kDispatch});
  original_dispatch(commands, x, y, z);
}

void VKAPI_PTR log_copy(VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t count,
                        const VkBufferCopy *regions) {
  log.push_back({Command::Kind::kCopy});
  original_copy(commands, from, to, count, regions);
}

// Returns true if the commands between two positions of the log have a barrier from and to these uses of memory.
bool has_barrier(size_t first, size_t end, VkPipelineStageFlags from_stage, VkAccessFlags from,
                 VkPipelineStageFlags to_stage, VkAccessFlags to) {
  return std::any_of(log.begin() + static_cast<std::ptrdiff_t>(first), log.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](const Command &one) {
                       return one.kind == Command::Kind::kBarrier && (one.from_stages & from_stage) == from_stage &&
                              (one.to_stages & to_stage) == to_stage && (one.from & from) == from &&
                              (one.to & to) == to;
                     });
}

class DeviceCommands : public test::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    log.clear();
    barrier_.emplace(device(), &VolkDeviceTable::vkCmdPipelineBarrier, log_barrier);
    dispatch_.emplace(device(), &VolkDeviceTable::vkCmdDispatch, log_dispatch);
    copy_.emplace(device(), &VolkDeviceTable::vkCmdCopyBuffer, log_copy);
    original_barrier = barrier_->original();
    original_dispatch = dispatch_->original();
    original_copy = copy_->original();
    for (Buffer *one : {&arena_, &first_, &second_, &staging_}) *one = Buffer(device(), kBytes, false);
    pool_.emplace(device());
  }

  void TearDown() override {
    pool_.reset();
    for (Buffer *one : {&arena_, &first_, &second_, &staging_}) *one = Buffer();
    copy_.reset();
    dispatch_.reset();
    barrier_.reset();
  }

  Dispatch copy_of(uint32_t from, uint32_t to) {
    Dispatch dispatch;
    dispatch.push.assign(23, 0);
    const uint32_t local[3] = {64, 1, 1};
    dispatch.pipeline = &device().pipeline("copy_strided_f32_f32", {0, 0}, local, 2, 0, 92);
    dispatch.storages = {to, from};
    dispatch.formats = {VK_FORMAT_UNDEFINED, VK_FORMAT_UNDEFINED};
    dispatch.written = 1;
    return dispatch;
  }

  // The memory of two inputs, which share a buffer, and of an output.
  std::vector<Binding> bindings(VkBuffer host = VK_NULL_HANDLE) const {
    return {{first_.handle(), 0, host}, {first_.handle(), 4096, host}, {second_.handle(), 0, host}};
  }
  const Commands &commands(CommandCache &cache, const Recording &recording, const std::vector<Binding> &memory) {
    return cache.get(recording, arena_.handle(), 2, {256, 256, 256}, memory);
  }

  Buffer arena_, first_, second_, staging_;
  std::optional<CommandPool> pool_;

 private:
  std::optional<Replaced<PFN_vkCmdPipelineBarrier>> barrier_;
  std::optional<Replaced<PFN_vkCmdDispatch>> dispatch_;
  std::optional<Replaced<PFN_vkCmdCopyBuffer>> copy_;
};
EDGECORE_VULKAN_DEVICE_SUITE(DeviceCommands);

Storage argument(uint32_t number) {
  Storage storage;
  storage.kind = Storage::Kind::kArgument;
  storage.argument = number;
  storage.bytes = 256;
  return storage;
}

Storage part_of_arena(uint64_t offset, uint64_t bytes) {
  Storage storage;
  storage.offset = offset;
  storage.bytes = bytes;
  return storage;
}

// Random dispatches on memory that often overlaps. Two dispatches have a barrier between them if they use the same
// memory and one writes it; and each barrier separates two such dispatches.
TEST_P(DeviceCommands, DispatchesThatWouldRaceHaveABarrierBetweenThemAndOthersNone) {
  constexpr VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  std::mt19937 random(1);
  size_t barriers = 0, free_pairs = 0;
  for (int round = 0; round < 200; ++round) {
    Recording recording;
    for (uint32_t i = 0; i < 3; ++i) recording.storages.push_back(argument(i));
    for (int i = 0; i < 6; ++i) {
      const uint64_t offset = 256 * (random() % 8);
      recording.storages.push_back(part_of_arena(offset, 16 * (1 + random() % 32)));
    }
    Storage state;
    state.kind = Storage::Kind::kState;
    state.buffer = &staging_;
    state.bytes = 512;
    recording.storages.push_back(state);
    const auto storages = static_cast<uint32_t>(recording.storages.size());
    for (int i = 0; i < 12; ++i) recording.dispatches.push_back(copy_of(random() % storages, random() % storages));

    const std::vector<Binding> memory = bindings();
    log.clear();
    CommandCache cache(device(), *pool_, false);
    commands(cache, recording, memory);

    const auto overlap = [&](uint32_t one, uint32_t other) {
      const auto place = [&](uint32_t number) {
        const Storage &storage = recording.storages[number];
        const bool is_argument = storage.kind == Storage::Kind::kArgument;
        const VkBuffer buffer = storage.kind == Storage::Kind::kArena ? arena_.handle()
                                : is_argument                         ? memory[storage.argument].buffer
                                                                      : storage.buffer->handle();
        return std::tuple(buffer, is_argument ? memory[storage.argument].offset : storage.offset, storage.bytes);
      };
      const auto [a, a_begin, a_bytes] = place(one);
      const auto [b, b_begin, b_bytes] = place(other);
      return a == b && a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
    };
    const auto race = [&](size_t one, size_t other) {
      const std::vector<uint32_t> &a = recording.dispatches[one].storages, &b = recording.dispatches[other].storages;
      return overlap(a[0], b[0]) || overlap(a[0], b[1]) || overlap(a[1], b[0]);
    };
    std::vector<size_t> places;  // positions of the dispatches in the log
    for (size_t i = 0; i < log.size(); ++i) {
      if (log[i].kind == Command::Kind::kDispatch) places.push_back(i);
    }
    ASSERT_EQ(places.size(), recording.dispatches.size());
    size_t group = 0;  // the first dispatch since the last barrier
    for (size_t j = 1; j < places.size(); ++j) {
      const bool is_separated = places[j] != places[j - 1] + 1;
      bool needed = false;
      for (size_t i = group; i < j; ++i) needed = needed || race(i, j);
      EXPECT_EQ(is_separated, needed) << "round " << round << ", dispatch " << j;
      if (is_separated) {
        EXPECT_TRUE(has_barrier(places[j - 1], places[j], kCompute, VK_ACCESS_SHADER_WRITE_BIT, kCompute,
                                VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT));
        group = j;
      }
      (is_separated ? barriers : free_pairs) += 1;
    }
  }
  EXPECT_GT(barriers, 100u);
  EXPECT_GT(free_pairs, 100u);
}

TEST_P(DeviceCommands, CopiesOfArgumentsAreSeparatedFromTheDispatches) {
  constexpr VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                 kTransfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
  Recording recording;
  for (uint32_t i = 0; i < 3; ++i) recording.storages.push_back(argument(i));
  recording.dispatches = {copy_of(0, 2)};
  CommandCache cache(device(), *pool_, false);
  commands(cache, recording, bindings(staging_.handle()));
  std::vector<size_t> copies;
  for (size_t i = 0; i < log.size(); ++i) {
    if (log[i].kind == Command::Kind::kCopy) copies.push_back(i);
  }
  const auto dispatch = static_cast<size_t>(
      std::find_if(log.begin(), log.end(), [](const Command &one) { return one.kind == Command::Kind::kDispatch; }) -
      log.begin());
  ASSERT_EQ(copies.size(), 3u);
  EXPECT_LT(copies[1], dispatch);
  EXPECT_GT(copies[2], dispatch);
  // The barrier after writes and reads of earlier runs, before the first use of memory.
  EXPECT_TRUE(has_barrier(0, copies[0], kCompute | kTransfer, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                          kCompute | kTransfer, VK_ACCESS_TRANSFER_WRITE_BIT));
  EXPECT_TRUE(has_barrier(copies[1], dispatch, kTransfer, VK_ACCESS_TRANSFER_WRITE_BIT, kCompute,
                          VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT));
  EXPECT_TRUE(
      has_barrier(dispatch, copies[2], kCompute, VK_ACCESS_SHADER_WRITE_BIT, kTransfer, VK_ACCESS_TRANSFER_READ_BIT));
  EXPECT_TRUE(has_barrier(copies[2], log.size(), kCompute | kTransfer,
                          VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                          VK_ACCESS_HOST_READ_BIT));
}

TEST_P(DeviceCommands, APairOfBuffersThatExchangeTheirRolesIsWrittenOnce) {
  Recording recording;
  for (uint32_t i = 0; i < 3; ++i) recording.storages.push_back(argument(i));
  recording.dispatches = {copy_of(0, 2)};
  const std::vector<Binding> there = bindings();
  std::vector<Binding> back = there;
  std::swap(back[0], back[2]);
  CommandCache cache(device(), *pool_, false);
  const VkCommandBuffer one = commands(cache, recording, there).handle, other = commands(cache, recording, back).handle;
  EXPECT_NE(one, other);
  log.clear();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(commands(cache, recording, there).handle, one);
    EXPECT_EQ(commands(cache, recording, back).handle, other);
  }
  EXPECT_TRUE(log.empty());
  cache.clear();
  commands(cache, recording, there);
  EXPECT_FALSE(log.empty());
}

TEST_P(DeviceCommands, CommandsOfManyBuffersReplaceThoseUnusedForLongest) {
  Recording recording;
  for (uint32_t i = 0; i < 3; ++i) recording.storages.push_back(argument(i));
  recording.dispatches = {copy_of(0, 2)};
  CommandCache cache(device(), *pool_, false);
  const auto use = [&](uint64_t number) {
    std::vector<Binding> memory = bindings();
    memory[2].offset = 256 * number;
    log.clear();
    commands(cache, recording, memory);
    return !log.empty();  // true if the commands were written
  };
  for (uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(use(i));
  EXPECT_FALSE(use(16));  // now 17 is the least recently used
  EXPECT_TRUE(use(0));
  EXPECT_FALSE(use(16));
  EXPECT_TRUE(use(17));
}

TEST_P(DeviceCommands, ADeviceThatRefusesDescriptorsIsAskedAgain) {
  Recording recording;
  for (uint32_t i = 0; i < 3; ++i) recording.storages.push_back(argument(i));
  recording.dispatches = {copy_of(0, 2)};
  CommandCache cache(device(), *pool_, false);
  {
    const Replaced<PFN_vkAllocateDescriptorSets> refusing(
        device(), &VolkDeviceTable::vkAllocateDescriptorSets,
        [](VkDevice, const VkDescriptorSetAllocateInfo *, VkDescriptorSet *) { return VK_ERROR_OUT_OF_DEVICE_MEMORY; });
    test::expect_failure(EDGECORE_MEMORY_ALLOCATION_FAILED, "allocating a descriptor set: out of device memory",
                         [&] { commands(cache, recording, bindings()); });
  }
  log.clear();
  commands(cache, recording, bindings());
  EXPECT_EQ(
      std::count_if(log.begin(), log.end(), [](const Command &one) { return one.kind == Command::Kind::kDispatch; }),
      1);
}

}  // namespace
}  // namespace edgecore::vulkan
