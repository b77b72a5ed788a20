#include "test_support.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "vulkan_generated.h"

namespace edgecore::vulkan::test {

namespace {

int32_t EDGECORE_CALL host_fail(edgecore_error *error, int32_t code, edgecore_str text) {
  if (error != nullptr) *error = {code, std::string(backend::to_view(text))};
  return code;
}

int32_t EDGECORE_CALL host_named_data(edgecore_scope *scope, edgecore_str key, edgecore_bytes *out,
                                      edgecore_error *error) {
  const auto found = scope->named.find(std::string(backend::to_view(key)));
  if (found == scope->named.end()) return host_fail(error, EDGECORE_NOT_FOUND, backend::to_str("no such key"));
  *out = view(found->second);
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL host_resize(edgecore_scope *, edgecore_tensor *tensor, const int64_t *shape, int32_t ndim,
                                  edgecore_error *error) {
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] > tensor->max_shape[i]) {
      return host_fail(error, EDGECORE_OUT_OF_RESOURCES, backend::to_str("an output is too large"));
    }
  }
  std::copy(shape, shape + ndim, tensor->dl.shape);
  return EDGECORE_OK;
}

const edgecore_host kHost = [] {
  edgecore_host host = {};
  host.header = backend::header<edgecore_host>();
  host.fail = host_fail;
  host.named_data = host_named_data;
  host.resize = host_resize;
  return host;
}();

PFN_vkGetPhysicalDeviceProperties original_properties = nullptr;
PFN_vkGetPhysicalDeviceFeatures2 original_features = nullptr;

}  // namespace

Bytes bytes_of(const std::vector<float> &numbers) {
  Bytes bytes(numbers.size() * 4);
  if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

const edgecore_host *host_table() { return &kHost; }

// --- Blobs -----------------------------------------------------------------------------------------------------------

struct BlobWriter::Parts {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::VkValue>> values;
  std::vector<flatbuffers::Offset<wire::OperatorCall>> chain;
  std::vector<flatbuffers::Offset<wire::VkBytes>> constants;
  Bytes data;

  template <typename Table>
  uint32_t add(wire::GraphTypes type, flatbuffers::Offset<Table> table) {
    values.push_back(wire::CreateVkValue(builder, type, table.Union()));
    return static_cast<uint32_t>(values.size() - 1);
  }

  // Adds a constant in the blob, and returns its number.
  int32_t add_data(const Bytes &bytes) {
    constants.push_back(wire::CreateVkBytes(builder, data.size(), bytes.size()));
    data.insert(data.end(), bytes.begin(), bytes.end());
    return static_cast<int32_t>(constants.size() - 1);
  }
};

BlobWriter::BlobWriter() : parts_(std::make_unique<Parts>()) {}
BlobWriter::~BlobWriter() = default;

uint32_t BlobWriter::none() { return parts_->add(wire::GraphTypes::Null, wire::CreateNull(parts_->builder)); }

uint32_t BlobWriter::number(double value) {
  return parts_->add(wire::GraphTypes::Double, wire::CreateDouble(parts_->builder, value));
}

uint32_t BlobWriter::integer(int64_t value) {
  return parts_->add(wire::GraphTypes::Int, wire::CreateInt(parts_->builder, value));
}

uint32_t BlobWriter::symbolic_integer() {
  return parts_->add(wire::GraphTypes::SymInt, wire::CreateSymInt(parts_->builder, 0));
}

uint32_t BlobWriter::integers(const std::vector<int64_t> &items) {
  return parts_->add(wire::GraphTypes::IntList, wire::CreateIntListDirect(parts_->builder, &items));
}

uint32_t BlobWriter::text(const std::string &value) {
  return parts_->add(wire::GraphTypes::String, wire::CreateStringDirect(parts_->builder, value.c_str()));
}

uint32_t BlobWriter::tensor(const std::vector<uint32_t> &dims, DataType type, int32_t constant) {
  return parts_->add(
      wire::GraphTypes::VkTensor,
      wire::CreateVkTensorDirect(parts_->builder, static_cast<wire::VkDataType>(type), &dims, constant, -1,
                                 wire::VkStorageType::DEFAULT_STORAGE, wire::VkMemoryLayout::TENSOR_WIDTH_PACKED));
}

uint32_t BlobWriter::constant(const std::vector<uint32_t> &dims, const std::vector<float> &numbers) {
  return tensor(dims, DataType::kFloat32, parts_->add_data(bytes_of(numbers)));
}

uint32_t BlobWriter::int8_constant(const std::vector<uint32_t> &dims, const std::vector<int8_t> &numbers) {
  return tensor(dims, DataType::kInt8, parts_->add_data(Bytes(numbers.begin(), numbers.end())));
}

uint32_t BlobWriter::named_constant(const std::vector<uint32_t> &dims, const std::string &key) {
  const uint64_t elements = std::accumulate(dims.begin(), dims.end(), uint64_t{1}, std::multiplies<>());
  parts_->constants.push_back(wire::CreateVkBytesDirect(parts_->builder, UINT64_MAX, 4 * elements, key.c_str()));
  return tensor(dims, DataType::kFloat32, static_cast<int32_t>(parts_->constants.size() - 1));
}

void BlobWriter::call(const std::string &name, const std::vector<uint32_t> &args) {
  const std::vector<int32_t> numbers(args.begin(), args.end());
  parts_->chain.push_back(wire::CreateOperatorCallDirect(parts_->builder, static_cast<uint32_t>(parts_->chain.size()),
                                                         name.c_str(), &numbers));
}

uint32_t BlobWriter::add(uint32_t a, uint32_t b, const std::vector<uint32_t> &dims) {
  const uint32_t alpha = number(1), result = tensor(dims);
  call("aten.add.Tensor", {a, b, alpha, result});
  return result;
}

uint32_t BlobWriter::view(uint32_t source, const std::vector<uint32_t> &dims) {
  const uint32_t sizes = integers({dims.begin(), dims.end()}), result = tensor(dims);
  call("aten.view_copy.default", {source, sizes, result});
  return result;
}

Bytes BlobWriter::finish(const std::vector<uint32_t> &inputs, const std::vector<uint32_t> &outputs) {
  Parts &parts = *parts_;
  parts.builder.Finish(
      wire::CreateVkGraphDirect(parts.builder, "0", &parts.chain, &parts.values, &inputs, &outputs, &parts.constants),
      "VK00");
  const uint32_t size = parts.builder.GetSize(), offset = 32, constants = (offset + size + 15) / 16 * 16;
  Bytes blob(constants + parts.data.size());
  const uint16_t header = 30;
  const uint64_t constant_size = parts.data.size();
  std::memcpy(blob.data() + 4, "VH00", 4);
  std::memcpy(blob.data() + 8, &header, 2);
  std::memcpy(blob.data() + 10, &offset, 4);
  std::memcpy(blob.data() + 14, &size, 4);
  std::memcpy(blob.data() + 18, &constants, 4);
  std::memcpy(blob.data() + 22, &constant_size, 8);
  std::memcpy(blob.data() + offset, parts.builder.GetBufferPointer(), size);
  std::copy(parts.data.begin(), parts.data.end(), blob.begin() + constants);
  return blob;
}

// --- Arguments -------------------------------------------------------------------------------------------------------

void TestArguments::add(const Shape &shape, std::vector<float> values) {
  values.resize(static_cast<size_t>(vulkan::count(shape)));
  arguments_.push_back({shape, shape, std::move(values), nullptr, 0, {}, {}});
}

void TestArguments::add(const Shape &shape, edgecore_buffer *buffer, uint64_t offset) {
  arguments_.push_back({shape, shape, {}, buffer, offset, {}, {}});
}

const std::vector<edgecore_value> &TestArguments::values() {
  values_.clear();
  for (Argument &one : arguments_) {
    one.dim_order.resize(one.shape.size());
    std::iota(one.dim_order.begin(), one.dim_order.end(), uint8_t{0});
    edgecore_tensor &tensor = one.tensor;
    tensor.header = backend::header<edgecore_tensor>();
    tensor.scalar_type = 6;
    tensor.dl.data = one.buffer == nullptr ? one.floats.data() : nullptr;
    tensor.dl.device_type = EDGECORE_DEVICE_CPU;
    tensor.dl.ndim = static_cast<int32_t>(one.shape.size());
    tensor.dl.dtype = {EDGECORE_DL_FLOAT, 32, 1};
    tensor.dl.shape = one.shape.data();
    tensor.dl.byte_offset = one.offset;
    tensor.dim_order = one.dim_order.data();
    tensor.max_shape = one.max_shape.data();
    tensor.capacity = 4 * static_cast<uint64_t>(vulkan::count(one.max_shape));
    tensor.buffer = one.buffer;
    edgecore_value value = {};
    value.tag = EDGECORE_TAG_TENSOR;
    value.as.tensor = &tensor;
    values_.push_back(value);
  }
  return values_;
}

backend::Arguments TestArguments::get(edgecore_scope &scope) {
  values();
  return {backend::Host(&kHost, &scope), values_.data(), values_.size(), sizeof(edgecore_value), &error};
}

// --- Devices ---------------------------------------------------------------------------------------------------------

AsDiscrete::AsDiscrete() {
  original_properties = vkGetPhysicalDeviceProperties;
  vkGetPhysicalDeviceProperties = [](VkPhysicalDevice device, VkPhysicalDeviceProperties *properties) {
    original_properties(device, properties);
    properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  };
}

AsDiscrete::~AsDiscrete() { vkGetPhysicalDeviceProperties = original_properties; }

Without8BitStorage::Without8BitStorage() {
  original_features = vkGetPhysicalDeviceFeatures2;
  vkGetPhysicalDeviceFeatures2 = [](VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *features) {
    original_features(device, features);
    for (auto *one = static_cast<VkBaseOutStructure *>(features->pNext); one != nullptr; one = one->pNext) {
      if (one->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES) continue;
      reinterpret_cast<VkPhysicalDevice8BitStorageFeatures *>(one)->storageBuffer8BitAccess = VK_FALSE;
    }
  };
}

Without8BitStorage::~Without8BitStorage() { vkGetPhysicalDeviceFeatures2 = original_features; }

Gate::Gate(Device &device) : device_(device), pool_(device) {
  const VkEventCreateInfo info = {VK_STRUCTURE_TYPE_EVENT_CREATE_INFO, nullptr, 0};
  check(device.vk().vkCreateEvent(device.handle(), &info, nullptr, &event_), "creating an event");
  const VkCommandBuffer commands = pool_.allocate();
  VkCommandBufferBeginInfo begin = {};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  check(device.vk().vkBeginCommandBuffer(commands, &begin), "recording commands");
  device.vk().vkCmdWaitEvents(commands, 1, &event_, VK_PIPELINE_STAGE_HOST_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0,
                              nullptr, 0, nullptr, 0, nullptr);
  check(device.vk().vkEndCommandBuffer(commands), "recording commands");
  device.submit(commands, pool_.fence());
}

Gate::~Gate() {
  open();
  device_.wait(pool_.fence(), UINT64_MAX);
  device_.vk().vkDestroyEvent(device_.handle(), event_, nullptr);
}

void Gate::open() { device_.vk().vkSetEvent(device_.handle(), event_); }

namespace {

struct Devices {
  std::shared_ptr<Vulkan> vulkan;
  std::shared_ptr<ShaderDevice> devices[2];
};

Devices open_devices;  // the devices of the current suite

}  // namespace

void DeviceTest::SetUp() {
  const std::string reason = why_no_device();
  if (!reason.empty()) GTEST_SKIP() << "no test with a Vulkan device: " << reason;
  if (open_devices.vulkan == nullptr) open_devices.vulkan = std::make_shared<Vulkan>(InstanceSettings{});
  std::shared_ptr<ShaderDevice> &device = open_devices.devices[static_cast<size_t>(GetParam())];
  if (device == nullptr) {
    std::unique_ptr<AsDiscrete> discrete;
    if (GetParam() == Memory::kOwn) discrete = std::make_unique<AsDiscrete>();
    device = std::make_shared<ShaderDevice>(open_devices.vulkan, "", "", false);
  }
  if (GetParam() == Memory::kShared && !device->unified()) GTEST_SKIP() << "this device shares no memory with the host";
  device_ = device;
}

void DeviceTest::TearDownTestSuite() { open_devices = {}; }

std::string why_no_device() {
  static const std::string reason = [] {
    try {
      auto vulkan = std::make_unique<Vulkan>(InstanceSettings{});
      find_device(*vulkan, "");
      // Never closed, so that the driver stays loaded: a sanitizer can then attribute its memory, and name its
      // functions.
      static const Vulkan *const kept = vulkan.release();
      static_cast<void>(kept);
      return std::string();
    } catch (const backend::Failure &failure) {
      if (failure.code != EDGECORE_NOT_FOUND) throw;
      return failure.text;
    }
  }();
  return reason;
}

}  // namespace edgecore::vulkan::test
