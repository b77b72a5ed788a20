// Shared helpers of the C++ tests: a host, blobs, arguments, and devices.
#ifndef EDGECORE_VULKAN_TEST_SUPPORT_H_
#define EDGECORE_VULKAN_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "blob.h"
#include "buffers.h"
#include "edgecore/backend.hpp"
#include "shader_device.h"

struct edgecore_error {
  int32_t code = EDGECORE_OK;
  std::string text;
};

// The named data of a file.
struct edgecore_scope {
  std::map<std::string, std::vector<uint8_t>> named;
};

namespace edgecore::vulkan::test {

using Bytes = std::vector<uint8_t>;

Bytes bytes_of(const std::vector<float> &numbers);
inline edgecore_bytes view(const Bytes &bytes) { return {bytes.data(), bytes.size()}; }

// A minimal replacement of edgecore's runtime: errors, named data, and resizing of outputs.
const edgecore_host *host_table();

// Expects that `body` throws a Failure with this code and a message that contains `part`.
template <typename Body>
void expect_failure(int32_t code, const std::string &part, const Body &body) {
  try {
    body();
    ADD_FAILURE() << "nothing failed: " << part;
  } catch (const backend::Failure &failure) {
    EXPECT_EQ(failure.code, code) << failure.text;
    EXPECT_NE(failure.text.find(part), std::string::npos) << failure.text;
  }
}

// Writes a blob. Members that add a value return its index.
class BlobWriter {
 public:
  BlobWriter();
  ~BlobWriter();

  uint32_t none();
  uint32_t number(double value);
  uint32_t integer(int64_t value);
  uint32_t symbolic_integer();
  uint32_t integers(const std::vector<int64_t> &items);
  uint32_t text(const std::string &value);
  uint32_t tensor(const std::vector<uint32_t> &dims, DataType type = DataType::kFloat32, int32_t constant = -1);
  // constant and int8_constant add a constant in the blob, named_constant adds one in the named data of the file.
  uint32_t constant(const std::vector<uint32_t> &dims, const std::vector<float> &numbers);
  uint32_t int8_constant(const std::vector<uint32_t> &dims, const std::vector<int8_t> &numbers);
  uint32_t named_constant(const std::vector<uint32_t> &dims, const std::string &key);
  void call(const std::string &name, const std::vector<uint32_t> &args);
  // add adds a call of `aten.add.Tensor`, view a call that copies a tensor in another shape. Return the result.
  uint32_t add(uint32_t a, uint32_t b, const std::vector<uint32_t> &dims);
  uint32_t view(uint32_t source, const std::vector<uint32_t> &dims);
  Bytes finish(const std::vector<uint32_t> &inputs, const std::vector<uint32_t> &outputs);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The arguments of a delegate: tensors of floats in row-major order, in memory of the host or in buffers.
class TestArguments {
 public:
  void add(const Shape &shape, std::vector<float> values = {});
  void add(const Shape &shape, edgecore_buffer *buffer, uint64_t offset);

  // Valid until the next call of add.
  backend::Arguments get(edgecore_scope &scope);
  const std::vector<edgecore_value> &values();
  const std::vector<float> &floats(size_t index) const { return arguments_[index].floats; }
  void set_floats(size_t index, const std::vector<float> &values) { arguments_[index].floats = values; }
  const Shape &shape(size_t index) const { return arguments_[index].shape; }
  edgecore_error error;

 private:
  struct Argument {
    Shape shape, max_shape;
    std::vector<float> floats;
    edgecore_buffer *buffer = nullptr;
    uint64_t offset = 0;
    std::vector<uint8_t> dim_order;
    edgecore_tensor tensor = {};
  };
  std::vector<Argument> arguments_;
  std::vector<edgecore_value> values_;
};

// While it exists, newly opened devices have separate memory: they claim to be discrete GPUs, so the delegate copies
// between host and device memory. For one thread; create it after the Vulkan instance.
class AsDiscrete {
 public:
  AsDiscrete();
  ~AsDiscrete();
  AsDiscrete(const AsDiscrete &) = delete;
  AsDiscrete &operator=(const AsDiscrete &) = delete;
};

// While it exists, newly opened devices have no 8-bit storage. For one thread; create it after the Vulkan instance.
class Without8BitStorage {
 public:
  Without8BitStorage();
  ~Without8BitStorage();
  Without8BitStorage(const Without8BitStorage &) = delete;
  Without8BitStorage &operator=(const Without8BitStorage &) = delete;
};

// Blocks the queue of a device: work submitted later waits until open() or the destructor.
class Gate {
 public:
  explicit Gate(Device &device);
  ~Gate();
  Gate(const Gate &) = delete;
  Gate &operator=(const Gate &) = delete;
  void open();

 private:
  Device &device_;
  CommandPool pool_;
  VkEvent event_ = VK_NULL_HANDLE;
};

// Replaces a function of the device by another one during its lifetime.
template <typename Function>
class Replaced {
 public:
  Replaced(const Device &device, Function VolkDeviceTable::*member, Function function)
      : place_(&(const_cast<VolkDeviceTable &>(device.vk()).*member)), original_(*place_) {
    *place_ = function;
  }
  ~Replaced() { *place_ = original_; }
  Replaced(const Replaced &) = delete;
  Replaced &operator=(const Replaced &) = delete;
  Function original() const { return original_; }

 private:
  Function *place_;
  Function original_;
};

// The relation between a device's memory and the host's; lavapipe's memory is shared.
enum class Memory : uint8_t { kShared, kOwn };

// A test on the first device of this machine, run once with shared and once with separate memory. It is skipped without
// a Vulkan driver. The names of all test suites with a device begin with `Device`: CMakeLists.txt recognizes them by
// that.
class DeviceTest : public ::testing::TestWithParam<Memory> {
 protected:
  static void TearDownTestSuite();
  void SetUp() override;
  ShaderDevice &device() { return *device_; }
  const std::shared_ptr<ShaderDevice> &shared_device() { return device_; }

 private:
  std::shared_ptr<ShaderDevice> device_;
};

// Returns the reason why this machine runs no test with a device, or an empty text.
std::string why_no_device();

}  // namespace edgecore::vulkan::test

// Instantiates a suite of DeviceTest.
#define EDGECORE_VULKAN_DEVICE_SUITE(suite)                                                                 \
  INSTANTIATE_TEST_SUITE_P(                                                                                 \
      Memory, suite,                                                                                        \
      ::testing::Values(::edgecore::vulkan::test::Memory::kShared, ::edgecore::vulkan::test::Memory::kOwn), \
      [](const auto &one) { return one.param == ::edgecore::vulkan::test::Memory::kShared ? "shared" : "own"; })

#endif  // EDGECORE_VULKAN_TEST_SUPPORT_H_
