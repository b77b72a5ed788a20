#include "instance.h"

#include <algorithm>
#include <cstring>

namespace edgecore::vulkan {

using backend::fail;

namespace {

unsigned long long number(uint64_t value) { return value; }

// The dtype that an argument must have on the host, of the blob's type: int64 and float64 values have 32 bits in the
// blob, so either width is accepted.
bool fits(const edgecore_dl_dtype &given, DataType type) {
  if (given.lanes != 1) return false;
  switch (type) {
    case DataType::kBool:
      return given.code == EDGECORE_DL_BOOL || (given.code == EDGECORE_DL_UINT && given.bits == 8);
    case DataType::kUint8:
      return given.code == EDGECORE_DL_UINT && given.bits == 8;
    case DataType::kInt8:
      return given.code == EDGECORE_DL_INT && given.bits == 8;
    case DataType::kInt32:
    case DataType::kInt64:
      return given.code == EDGECORE_DL_INT && (given.bits == 32 || given.bits == 64);
    case DataType::kFloat16:
      return given.code == EDGECORE_DL_FLOAT && given.bits == 16;
    case DataType::kFloat32:
    case DataType::kFloat64:
      return given.code == EDGECORE_DL_FLOAT && (given.bits == 32 || given.bits == 64);
  }
  return false;
}

template <typename From, typename To>
void convert(const void *from, void *to, int64_t elements) {
  const auto *source = static_cast<const From *>(from);
  auto *target = static_cast<To *>(to);
  for (int64_t i = 0; i < elements; ++i) target[i] = static_cast<To>(source[i]);
}

// Copies elements of the host's dtype to the device's, which is the same, or int32 or float32 for other widths.
void to_device(const edgecore_dl_dtype &dtype, const void *from, void *to, int64_t elements) {
  if (dtype.code == EDGECORE_DL_FLOAT) {
    if (dtype.bits == 64) return convert<double, float>(from, to, elements);
  } else if (dtype.bits == 64) {
    return convert<int64_t, int32_t>(from, to, elements);
  } else if (dtype.bits == 8) {
    if (dtype.code == EDGECORE_DL_INT) return convert<int8_t, int32_t>(from, to, elements);
    return convert<uint8_t, int32_t>(from, to, elements);
  }
  std::memcpy(to, from, static_cast<size_t>(elements) * dtype.bits / 8);
}

void to_host(const edgecore_dl_dtype &dtype, const void *from, void *to, int64_t elements) {
  if (dtype.code == EDGECORE_DL_FLOAT) {
    if (dtype.bits == 64) return convert<float, double>(from, to, elements);
  } else if (dtype.bits == 64) {
    return convert<int32_t, int64_t>(from, to, elements);
  } else if (dtype.bits == 8) {
    return convert<int32_t, uint8_t>(from, to, elements);
  }
  std::memcpy(to, from, static_cast<size_t>(elements) * dtype.bits / 8);
}

Layout layout_of(const edgecore_tensor &tensor, uint64_t index) {
  const auto rank = static_cast<size_t>(tensor.dl.ndim);
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    const std::vector<uint32_t> order = dims_in_memory(rank, layout);
    if (std::equal(order.begin(), order.end(), tensor.dim_order)) return layout;
  }
  fail(EDGECORE_NOT_SUPPORTED, "argument %llu has its dims in an order that is neither row-major nor channels last",
       number(index));
}

}  // namespace

Execution::Execution(const Graph &graph, Device &device, Weights &weights, uint64_t timeout_ns)
    : graph_(graph), device_(device), weights_(weights), timeout_ns_(timeout_ns),
      places_(graph.inputs.size() + graph.outputs.size()) {
  VkCommandPoolCreateInfo pool = {};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = device.queue_family();
  check(device.vk().vkCreateCommandPool(device.handle(), &pool, nullptr, &pool_), "creating a command pool");
  VkCommandBufferAllocateInfo allocate = {};
  allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  allocate.commandPool = pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  check(device.vk().vkAllocateCommandBuffers(device.handle(), &allocate, &commands_), "allocating a command buffer");
  VkFenceCreateInfo fence = {};
  fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  check(device.vk().vkCreateFence(device.handle(), &fence, nullptr, &fence_), "creating a fence");
}

Execution::~Execution() {
  destroy_commands();
  device_.vk().vkDestroyFence(device_.handle(), fence_, nullptr);
  device_.vk().vkDestroyCommandPool(device_.handle(), pool_, nullptr);
}

void Execution::prepare(const backend::Arguments &arguments) {
  const size_t inputs = graph_.inputs.size();
  if (arguments.size() != places_.size()) {
    fail(EDGECORE_INVALID_ARGUMENT, "the delegate has %zu arguments; got %llu", places_.size(),
         number(arguments.size()));
  }
  std::vector<ArgumentFormat> formats(inputs), max_formats(inputs);
  std::vector<int64_t> sizes(inputs);
  bool is_max = true;
  for (size_t i = 0; i < inputs; ++i) {
    const Value &value = graph_.values[graph_.inputs[i]];
    if (value.kind == Kind::kSymInt) {
      if (arguments.value(i).tag != EDGECORE_TAG_INT) fail(EDGECORE_INVALID_ARGUMENT, "argument %zu is no integer", i);
      sizes[i] = arguments.value(i).as.i;
      is_max = false;
      continue;
    }
    const edgecore_tensor &tensor = arguments.tensor(i);
    if (!fits(tensor.dl.dtype, value.staging)) {
      fail(EDGECORE_INVALID_TYPE, "argument %zu has a dtype of code %d and %d bits, which the blob does not expect", i,
           tensor.dl.dtype.code, tensor.dl.dtype.bits);
    }
    Shape shape(tensor.dl.shape, tensor.dl.shape + tensor.dl.ndim);
    bool allowed = shape.size() == value.shape.size();
    for (size_t d = 0; allowed && d < shape.size(); ++d) allowed = shape[d] >= 0 && shape[d] <= value.shape[d];
    if (!allowed) fail(EDGECORE_INVALID_ARGUMENT, "argument %zu has a shape that the delegate does not allow", i);
    is_max = is_max && shape == value.shape;
    formats[i] = {device_dtype(value.staging), layout_of(tensor, i), shape};
    max_formats[i] = {formats[i].dtype, formats[i].layout, value.shape};
  }
  if (!is_max && !has_max_shapes_ && std::all_of(sizes.begin(), sizes.end(), [](int64_t s) { return s == 0; })) {
    const Recording max = record(graph_, device_, weights_, max_formats, sizes);
    destroy_commands();
    allocate(max);  // so that no later shape needs more memory
    has_max_shapes_ = true;
  }
  recording_ = record(graph_, device_, weights_, formats, sizes);
  destroy_commands();
  allocate(recording_);
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const edgecore_tensor &tensor = arguments.tensor(inputs + i);
    const Value &value = graph_.values[graph_.outputs[i]];
    if (!fits(tensor.dl.dtype, value.staging) || layout_of(tensor, inputs + i) != Layout::kRowMajor) {
      fail(EDGECORE_INVALID_TYPE, "argument %zu has a dtype or an order of dims that the blob does not expect",
           inputs + i);
    }
    const Shape &shape = recording_.outputs[i].shape;
    arguments.resize(inputs + i, shape.data(), static_cast<int32_t>(shape.size()));
  }
}

void Execution::allocate(const Recording &recording) {
  for (const Storage &storage : recording.storages) {
    if (storage.kind != Storage::Kind::kArgument) continue;
    Place &place = places_[storage.argument];
    place.is_input = storage.argument < graph_.inputs.size();
    place.bytes = storage.bytes;
    if (place.host.size() >= storage.bytes) continue;
    place.host = Buffer(device_, storage.bytes, true);
    if (!device_.unified()) place.local = Buffer(device_, storage.bytes, false);
  }
  if (arena_.size() < recording.arena_bytes) arena_ = Buffer(device_, recording.arena_bytes, false);
}

VkDescriptorBufferInfo Execution::place_of(const Storage &storage) const {
  switch (storage.kind) {
    case Storage::Kind::kConstant:
      return {storage.constant->handle(), 0, storage.bytes};
    case Storage::Kind::kArgument: {
      const Place &place = places_[storage.argument];
      return {device_.unified() ? place.host.handle() : place.local.handle(), 0, storage.bytes};
    }
    case Storage::Kind::kArena:
      break;
  }
  return {arena_.handle(), storage.offset, storage.bytes};
}

void Execution::barrier() {
  VkMemoryBarrier memory = {};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT;
  constexpr VkPipelineStageFlags kStages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  device_.vk().vkCmdPipelineBarrier(commands_, kStages, kStages, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

void Execution::destroy_commands() {
  const VolkDeviceTable &vk = device_.vk();
  vk.vkDestroyDescriptorPool(device_.handle(), descriptors_, nullptr);
  descriptors_ = VK_NULL_HANDLE;
  for (const VkBufferView view : views_) vk.vkDestroyBufferView(device_.handle(), view, nullptr);
  views_.clear();
  is_written_ = false;
}

void Execution::write_commands() {
  const VolkDeviceTable &vk = device_.vk();
  const VkDevice device = device_.handle();
  destroy_commands();
  const auto sets = static_cast<uint32_t>(recording_.dispatches.size());
  uint32_t bindings = 0, texel_bindings = 0;
  for (const Dispatch &dispatch : recording_.dispatches) {
    bindings += static_cast<uint32_t>(dispatch.storages.size());
    texel_bindings += static_cast<uint32_t>(
        std::count_if(dispatch.formats.begin(), dispatch.formats.end(),
                      [](VkFormat format) { return format != VK_FORMAT_UNDEFINED; }));
  }
  views_.reserve(texel_bindings);
  if (sets != 0) {
    const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, bindings},
                                          {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, texel_bindings}};
    VkDescriptorPoolCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    info.maxSets = sets;
    info.poolSizeCount = texel_bindings == 0 ? 1 : 2;
    info.pPoolSizes = sizes;
    check(vk.vkCreateDescriptorPool(device, &info, nullptr, &descriptors_), "creating a descriptor pool");
  }
  check(vk.vkResetCommandPool(device, pool_, 0), "resetting commands");
  VkCommandBufferBeginInfo begin = {};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  check(vk.vkBeginCommandBuffer(commands_, &begin), "recording commands");
  if (!device_.unified()) {
    for (const Place &place : places_) {
      if (!place.is_input || place.bytes == 0) continue;
      const VkBufferCopy region = {0, 0, place.bytes};
      vk.vkCmdCopyBuffer(commands_, place.host.handle(), place.local.handle(), 1, &region);
    }
    barrier();
  }

  // Accesses since the last barrier: a dispatch needs another one only if it touches what was written, or writes what
  // was read.
  struct Range {
    VkBuffer buffer;
    uint64_t begin, end;
  };
  std::vector<Range> written, read;
  const auto overlaps = [](const std::vector<Range> &ranges, const Range &one) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const Range &other) {
      return one.buffer == other.buffer && one.begin < other.end && other.begin < one.end;
    });
  };
  for (const Dispatch &dispatch : recording_.dispatches) {
    VkDescriptorSetAllocateInfo allocate = {};
    allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    allocate.descriptorPool = descriptors_;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &dispatch.pipeline->set_layout;
    VkDescriptorSet set = VK_NULL_HANDLE;
    check(vk.vkAllocateDescriptorSets(device, &allocate, &set), "allocating a descriptor set");
    const size_t count = dispatch.storages.size();
    std::vector<VkDescriptorBufferInfo> infos(count);
    std::vector<VkWriteDescriptorSet> writes(count);
    bool needs_barrier = false;
    for (uint32_t i = 0; i < count; ++i) {
      infos[i] = place_of(recording_.storages[dispatch.storages[i]]);
      writes[i] = {};
      writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
      writes[i].dstSet = set;
      writes[i].dstBinding = i;
      writes[i].descriptorCount = 1;
      writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      writes[i].pBufferInfo = &infos[i];
      if (dispatch.formats[i] != VK_FORMAT_UNDEFINED) {
        VkBufferViewCreateInfo view = {};
        view.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO;
        view.buffer = infos[i].buffer;
        view.format = dispatch.formats[i];
        view.offset = infos[i].offset;
        view.range = infos[i].range;
        views_.push_back(VK_NULL_HANDLE);
        check(vk.vkCreateBufferView(device, &view, nullptr, &views_.back()), "creating a view of a buffer");
        writes[i].descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
        writes[i].pTexelBufferView = &views_.back();
      }
      const Range range = {infos[i].buffer, infos[i].offset, infos[i].offset + infos[i].range};
      needs_barrier = needs_barrier || overlaps(written, range) || (i < dispatch.written && overlaps(read, range));
    }
    if (needs_barrier) {
      barrier();
      written.clear();
      read.clear();
    }
    for (uint32_t i = 0; i < count; ++i) {
      (i < dispatch.written ? written : read)
          .push_back({infos[i].buffer, infos[i].offset, infos[i].offset + infos[i].range});
    }
    vk.vkUpdateDescriptorSets(device, static_cast<uint32_t>(count), writes.data(), 0, nullptr);
    vk.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, dispatch.pipeline->handle);
    vk.vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, dispatch.pipeline->layout, 0, 1, &set, 0,
                               nullptr);
    if (!dispatch.push.empty()) {
      vk.vkCmdPushConstants(commands_, dispatch.pipeline->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                            static_cast<uint32_t>(dispatch.push.size() * 4), dispatch.push.data());
    }
    vk.vkCmdDispatch(commands_, dispatch.groups[0], dispatch.groups[1], dispatch.groups[2]);
  }
  if (!device_.unified()) {
    barrier();
    for (const Place &place : places_) {
      if (place.is_input || place.bytes == 0) continue;
      const VkBufferCopy region = {0, 0, place.bytes};
      vk.vkCmdCopyBuffer(commands_, place.local.handle(), place.host.handle(), 1, &region);
    }
  }
  VkMemoryBarrier to_host_memory = {};
  to_host_memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  to_host_memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  to_host_memory.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                          VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host_memory, 0, nullptr, 0, nullptr);
  check(vk.vkEndCommandBuffer(commands_), "recording commands");
  is_written_ = true;
}

void Execution::execute(const backend::Arguments &arguments) {
  if (!is_written_) write_commands();
  const size_t inputs = graph_.inputs.size();
  for (size_t i = 0; i < inputs; ++i) {
    if (graph_.values[graph_.inputs[i]].kind != Kind::kTensor) continue;
    const edgecore_dl_tensor &dl = arguments.tensor(i).dl;
    int64_t elements = 1;
    for (int32_t d = 0; d < dl.ndim; ++d) elements *= dl.shape[d];
    if (elements == 0) continue;
    to_device(dl.dtype, arguments.data<char>(i), places_[i].host.mapped(), elements);
    places_[i].host.flush();
  }
  device_.run(commands_, fence_, timeout_ns_);
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const edgecore_dl_tensor &dl = arguments.tensor(inputs + i).dl;
    const int64_t elements = count(recording_.outputs[i].shape);
    if (elements == 0) continue;
    places_[inputs + i].host.invalidate();
    to_host(dl.dtype, places_[inputs + i].host.mapped(), arguments.data<char>(inputs + i), elements);
  }
}

}  // namespace edgecore::vulkan
