// Tests 8-bit activations: they are stored in 8 bits if the device supports that, and the results are the same if it
// does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "execution.h"
#include "test_support.h"

namespace edgecore::vulkan {
namespace {

using test::AsDiscrete;
using test::BlobWriter;
using test::Bytes;

constexpr uint64_t kMinute = 60'000'000'000;

class DeviceInt8 : public test::DeviceTest {
 protected:
  // Another device, without 8-bit storage.
  std::shared_ptr<ShaderDevice> lesser_device() {
    const auto vulkan = std::make_shared<Vulkan>(InstanceSettings{});
    const std::unique_ptr<AsDiscrete> discrete(GetParam() == test::Memory::kOwn ? new AsDiscrete : nullptr);
    const test::Without8BitStorage without;
    return std::make_shared<ShaderDevice>(vulkan, "", "", false);
  }
};
EDGECORE_VULKAN_DEVICE_SUITE(DeviceInt8);

// Images [1, channels, 6, 5] that are quantized, convolved twice, added to themselves, permuted and dequantized. Sizes
// that are not multiples of four end within a word.
class Images {
 public:
  Images(uint32_t channels, bool is_depthwise) : channels_(channels), shape_({1, channels, 6, 5}) {
    const uint32_t x = blob_.tensor(shape_), q = image(), sum = image(), y = blob_.tensor({1, 6, 5, channels});
    const uint32_t permuted = blob_.tensor({1, 6, 5, channels}, DataType::kInt8);
    const uint32_t low = blob_.integer(-128), high = blob_.integer(127), none = blob_.none();
    blob_.call("quantized_decomposed.quantize_per_tensor.default", {x, scale_, zero_, low, high, none, q});
    const uint32_t twice = convolve(convolve(q, false), is_depthwise);
    blob_.call("et_vk.q8ta_add.default", {q, twice, scale_, zero_, scale_, zero_, scale_, zero_, blob_.number(1), sum});
    blob_.call("aten.permute_copy.default", {sum, blob_.integers({0, 2, 3, 1}), permuted});
    blob_.call("quantized_decomposed.dequantize_per_tensor.default",
               {permuted, scale_, zero_, low, high, none, none, y});
    bytes_ = blob_.finish({x}, {y});
    for (float &one : numbers_) one = static_cast<float>(random_() % 200) / 20 - 5;
  }

  struct Result {
    std::vector<float> numbers;
    uint64_t arena_bytes;  // of the intermediate tensors
  };

  Result run(ShaderDevice &device) {
    const Graph graph = read_blob(test::view(bytes_), backend::Host(test::host_table(), &scope_));
    Weights weights(device);
    const Shape shape(shape_.begin(), shape_.end());
    const Recording recording =
        record(graph, device, weights, {}, {{Dtype::kFloat32, Layout::kRowMajor, shape}}, {Layout::kRowMajor}, {0});
    Execution execution(graph, device, weights, {}, kMinute, false);
    test::TestArguments arguments;
    arguments.add(shape, numbers_);
    arguments.add({1, 6, 5, channels_});
    execution.prepare(arguments.get(scope_));
    execution.start(arguments.get(scope_));
    execution.finish();
    return {arguments.floats(1), recording.arena_bytes};
  }

 private:
  uint32_t image() { return blob_.tensor(shape_, DataType::kInt8); }

  // Adds a 3 x 3 convolution, depthwise if `is_depthwise`.
  uint32_t convolve(uint32_t x, bool is_depthwise) {
    std::vector<int8_t> weights(9 * channels_ * (is_depthwise ? 1 : channels_));
    for (int8_t &one : weights) one = static_cast<int8_t>(static_cast<int>(random_() % 255) - 127);
    const uint32_t w = is_depthwise ? blob_.int8_constant({3, 3, channels_}, weights)
                                    : blob_.int8_constant({channels_, 9 * channels_}, weights);
    const uint32_t scales = blob_.constant({channels_}, std::vector<float>(channels_, is_depthwise ? 0.004f : 0.001f));
    const uint32_t bias = blob_.constant({channels_}, std::vector<float>(channels_, 0.25f)), ones = pair(1);
    const uint32_t groups = blob_.integer(is_depthwise ? channels_ : 1), y = image();
    blob_.call(is_depthwise ? "et_vk.q8ta_conv2d_dw.default" : "et_vk.q8ta_conv2d.default",
               {x, scale_, zero_, w, blob_.none(), scales, scale_, zero_, bias, pair(3), ones, ones, ones, groups,
                blob_.text("none"), y});
    return y;
  }

  uint32_t pair(int64_t size) { return blob_.integers({size, size}); }

  const uint32_t channels_;
  const std::vector<uint32_t> shape_;
  std::mt19937 random_{1};
  BlobWriter blob_;
  const uint32_t scale_ = blob_.number(0.05), zero_ = blob_.integer(3);
  std::vector<float> numbers_ = std::vector<float>(size_t{channels_} * 30);
  edgecore_scope scope_;
  Bytes bytes_;
};

TEST_P(DeviceInt8, ActivationsLieIn8BitsAndTheResultsStayTheSame) {
  if (!device().has_8_bit_storage()) GTEST_SKIP() << "this device has no 8-bit storage";
  const std::shared_ptr<ShaderDevice> lesser = lesser_device();
  ASSERT_FALSE(lesser->has_8_bit_storage());
  for (const uint32_t channels : {16, 6, 3}) {
    for (const bool is_depthwise : {false, true}) {
      Images images(channels, is_depthwise);
      const Images::Result in_8_bits = images.run(device()), in_32_bits = images.run(*lesser);
      EXPECT_EQ(in_8_bits.numbers, in_32_bits.numbers) << channels;
      const auto [low, high] = std::minmax_element(in_8_bits.numbers.begin(), in_8_bits.numbers.end());
      EXPECT_GT(*high - *low, 5) << channels;  // the results are not constant
      if (channels == 16) {
        EXPECT_LE(3 * in_8_bits.arena_bytes, in_32_bits.arena_bytes);
      }
    }
  }
}

}  // namespace
}  // namespace edgecore::vulkan
