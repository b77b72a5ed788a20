#include "commands.h"

#include <algorithm>

namespace edgecore::vulkan {

namespace {

constexpr size_t kMaxEntries = 4;
constexpr VkPipelineStageFlags kStages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;

// A range of bytes of a buffer that a dispatch uses.
struct Range {
  VkBuffer buffer;
  uint64_t begin, end;
};

bool overlaps(const std::vector<Range> &ranges, const Range &range) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range &other) {
    return range.buffer == other.buffer && range.begin < other.end && other.begin < range.end;
  });
}

// Writes the Vulkan commands for one recording (the dispatches of a graph).
class Writer {
 public:
  Writer(Device &device, const Recording &recording, VkBuffer arena, bool is_profiled, Commands &commands)
      : vk_(device.vk()),
        device_(device),
        recording_(recording),
        arena_(arena),
        is_profiled_(is_profiled),
        commands_(commands) {}

  void write(size_t inputs, const std::vector<uint64_t> &bytes) {
    make_pools();
    VkCommandBufferBeginInfo begin = {};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    check(vk_.vkBeginCommandBuffer(commands_.handle, &begin), "recording commands");
    if (commands_.queries != VK_NULL_HANDLE) {
      vk_.vkCmdResetQueryPool(commands_.handle, commands_.queries, 0, queries());
    }
    barrier();  // wait for the writes of commands that were submitted earlier
    bool copies = false;
    for (size_t i = 0; i < inputs; ++i) copies = copy(i, bytes[i], true) || copies;
    if (copies) barrier();
    for (size_t i = 0; i < recording_.dispatches.size(); ++i) dispatch(i);
    barrier();
    for (size_t i = inputs; i < bytes.size(); ++i) copy(i, bytes[i], false);
    VkMemoryBarrier to_host = {};
    to_host.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    to_host.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    to_host.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
    vk_.vkCmdPipelineBarrier(commands_.handle, kStages, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host, 0, nullptr, 0,
                             nullptr);
    check(vk_.vkEndCommandBuffer(commands_.handle), "recording commands");
  }

 private:
  uint32_t queries() const { return static_cast<uint32_t>(2 * recording_.dispatches.size()); }

  void make_pools() {
    const auto sets = static_cast<uint32_t>(recording_.dispatches.size());
    if (sets == 0) return;
    uint32_t bindings = 0, texels = 0;
    for (const Dispatch &dispatch : recording_.dispatches) {
      bindings += static_cast<uint32_t>(dispatch.storages.size());
      texels += static_cast<uint32_t>(std::count_if(dispatch.formats.begin(), dispatch.formats.end(),
                                                    [](VkFormat format) { return format != VK_FORMAT_UNDEFINED; }));
    }
    commands_.views.reserve(texels);
    const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, bindings},
                                          {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, texels}};
    VkDescriptorPoolCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    info.maxSets = sets;
    info.poolSizeCount = texels == 0 ? 1 : 2;
    info.pPoolSizes = sizes;
    check(vk_.vkCreateDescriptorPool(device_.handle(), &info, nullptr, &commands_.descriptors),
          "creating a descriptor pool");
    if (!is_profiled_) return;
    VkQueryPoolCreateInfo times = {};
    times.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    times.queryType = VK_QUERY_TYPE_TIMESTAMP;
    times.queryCount = queries();
    check(vk_.vkCreateQueryPool(device_.handle(), &times, nullptr, &commands_.queries), "creating a query pool");
  }

  // Copies an argument between host and device memory. Returns false if the argument needs no copy.
  bool copy(size_t argument, uint64_t bytes, bool to_device) {
    const Binding &binding = commands_.bindings[argument];
    if (binding.host == VK_NULL_HANDLE || bytes == 0) return false;
    const VkBufferCopy region = {0, 0, bytes};
    vk_.vkCmdCopyBuffer(commands_.handle, to_device ? binding.host : binding.buffer,
                        to_device ? binding.buffer : binding.host, 1, &region);
    return true;
  }

  void barrier() {
    VkMemoryBarrier memory = {};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    memory.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                           VK_ACCESS_TRANSFER_WRITE_BIT;
    vk_.vkCmdPipelineBarrier(commands_.handle, kStages, kStages, 0, 1, &memory, 0, nullptr, 0, nullptr);
    written_.clear();
    read_.clear();
  }

  VkDescriptorBufferInfo place_of(const Storage &storage) const {
    switch (storage.kind) {
      case Storage::Kind::kConstant:
      case Storage::Kind::kState:
        return {storage.buffer->handle(), 0, storage.bytes};
      case Storage::Kind::kArgument: {
        const Binding &binding = commands_.bindings[storage.argument];
        return {binding.buffer, binding.offset, storage.bytes};
      }
      case Storage::Kind::kArena:
        break;
    }
    return {arena_, storage.offset, storage.bytes};
  }

  // Adds a dispatch. A barrier precedes it if a dispatch since the last barrier has written memory that this dispatch
  // uses, or has read memory that this dispatch writes.
  void dispatch(size_t number) {
    const Dispatch &dispatched = recording_.dispatches[number];
    const VkDevice device = device_.handle();
    VkDescriptorSetAllocateInfo allocate = {};
    allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    allocate.descriptorPool = commands_.descriptors;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &dispatched.pipeline->set_layout;
    VkDescriptorSet set = VK_NULL_HANDLE;
    check(vk_.vkAllocateDescriptorSets(device, &allocate, &set), "allocating a descriptor set");
    const size_t count = dispatched.storages.size();
    std::vector<VkDescriptorBufferInfo> infos(count);
    std::vector<VkWriteDescriptorSet> writes(count);
    std::vector<Range> ranges(count);
    bool needs_barrier = is_profiled_;  // when profiling, a barrier keeps the times of dispatches apart
    for (uint32_t i = 0; i < count; ++i) {
      infos[i] = place_of(recording_.storages[dispatched.storages[i]]);
      writes[i] = {};
      writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
      writes[i].dstSet = set;
      writes[i].dstBinding = i;
      writes[i].descriptorCount = 1;
      writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      writes[i].pBufferInfo = &infos[i];
      if (dispatched.formats[i] != VK_FORMAT_UNDEFINED) {
        VkBufferViewCreateInfo view = {};
        view.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO;
        view.buffer = infos[i].buffer;
        view.format = dispatched.formats[i];
        view.offset = infos[i].offset;
        view.range = infos[i].range;
        commands_.views.push_back(VK_NULL_HANDLE);
        check(vk_.vkCreateBufferView(device, &view, nullptr, &commands_.views.back()), "creating a view of a buffer");
        writes[i].descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
        writes[i].pTexelBufferView = &commands_.views.back();
      }
      ranges[i] = {infos[i].buffer, infos[i].offset, infos[i].offset + infos[i].range};
      needs_barrier =
          needs_barrier || overlaps(written_, ranges[i]) || (i < dispatched.written && overlaps(read_, ranges[i]));
    }
    if (needs_barrier) barrier();
    for (uint32_t i = 0; i < count; ++i) (i < dispatched.written ? written_ : read_).push_back(ranges[i]);
    vk_.vkUpdateDescriptorSets(device, static_cast<uint32_t>(count), writes.data(), 0, nullptr);
    vk_.vkCmdBindPipeline(commands_.handle, VK_PIPELINE_BIND_POINT_COMPUTE, dispatched.pipeline->handle());
    vk_.vkCmdBindDescriptorSets(commands_.handle, VK_PIPELINE_BIND_POINT_COMPUTE, dispatched.pipeline->layout, 0, 1,
                                &set, 0, nullptr);
    if (!dispatched.push.empty()) {
      vk_.vkCmdPushConstants(commands_.handle, dispatched.pipeline->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             static_cast<uint32_t>(dispatched.push.size() * 4), dispatched.push.data());
    }
    timestamp(VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, 2 * number);
    vk_.vkCmdDispatch(commands_.handle, dispatched.groups[0], dispatched.groups[1], dispatched.groups[2]);
    timestamp(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 2 * number + 1);
  }

  void timestamp(VkPipelineStageFlagBits stage, size_t query) {
    if (!is_profiled_) return;
    vk_.vkCmdWriteTimestamp(commands_.handle, stage, commands_.queries, static_cast<uint32_t>(query));
  }

  const VolkDeviceTable &vk_;
  Device &device_;
  const Recording &recording_;
  const VkBuffer arena_;
  const bool is_profiled_;
  Commands &commands_;
  std::vector<Range> written_, read_;  // accesses since the last barrier
};

}  // namespace

CommandCache::~CommandCache() {
  for (Commands &entry : entries_) destroy(entry);
}

void CommandCache::destroy(Commands &commands) {
  device_.vk().vkDestroyDescriptorPool(device_.handle(), commands.descriptors, nullptr);
  for (const VkBufferView view : commands.views) device_.vk().vkDestroyBufferView(device_.handle(), view, nullptr);
  commands.views.clear();
  device_.vk().vkDestroyQueryPool(device_.handle(), commands.queries, nullptr);
  commands.descriptors = VK_NULL_HANDLE;
  commands.queries = VK_NULL_HANDLE;
  commands.is_written = false;
}

void CommandCache::clear() {
  for (Commands &entry : entries_) destroy(entry);
}

const Commands &CommandCache::get(const Recording &recording, VkBuffer arena, size_t inputs,
                                  const std::vector<uint64_t> &bytes, const std::vector<Binding> &bindings) {
  ++uses_;
  Commands *oldest = nullptr;
  for (Commands &entry : entries_) {
    if (entry.is_written && entry.bindings == bindings) {
      entry.last_use = uses_;
      return entry;
    }
    if (oldest == nullptr || entry.last_use < oldest->last_use) oldest = &entry;
  }
  if (entries_.size() < kMaxEntries) {
    entries_.reserve(kMaxEntries);
    entries_.push_back({});
    oldest = &entries_.back();
    oldest->handle = pool_.allocate();
  }
  destroy(*oldest);
  oldest->last_use = uses_;
  oldest->bindings = bindings;
  try {
    Writer(device_, recording, arena, is_profiled_, *oldest).write(inputs, bytes);
    oldest->is_written = true;
  } catch (...) {
    destroy(*oldest);
    throw;
  }
  return *oldest;
}

}  // namespace edgecore::vulkan
