// Tests convolutions and linear layers of 8-bit integers against sums in 64 bits. All scales are powers of two, so that
// fusing a product and a sum does not change the rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>

#include "execution.h"
#include "test_support.h"

namespace edgecore::vulkan {
namespace {

using test::BlobWriter;
using test::Bytes;

constexpr uint64_t kMinute = 60'000'000'000;

class DeviceInt8Layers : public test::DeviceTest {
 protected:
  // A device with the shaders for GPUs.
  static std::shared_ptr<ShaderDevice> gpu_device() {
    return std::make_shared<ShaderDevice>(std::make_shared<Vulkan>(InstanceSettings{}), "", "", true);
  }
};
EDGECORE_VULKAN_DEVICE_SUITE(DeviceInt8Layers);

// A convolution of an image [1, in, height, width].
struct Sizes {
  uint32_t in = 1, out = 1, groups = 1, height = 3, width = 3, kernel_height = 1, kernel_width = 1, padding = 0;
  int32_t zero = 3;
  bool relu = false;

  uint32_t in_group() const { return in / groups; }
  uint32_t out_height() const { return height + 2 * padding - kernel_height + 1; }
  uint32_t out_width() const { return width + 2 * padding - kernel_width + 1; }
  bool is_depthwise() const { return groups == in && groups == out && groups > 1; }
};

class Layer {
 public:
  // `input` returns input values without the zero point; `weight` returns weights.
  Layer(const Sizes &sizes, const std::function<int()> &input, const std::function<int()> &weight) : sizes_(sizes) {
    x_.resize(size_t{sizes.in} * sizes.height * sizes.width);
    w_.resize(size_t{sizes.out} * sizes.kernel_height * sizes.kernel_width * sizes.in_group());
    for (int &one : x_) one = input();
    for (int &one : w_) one = weight();
  }

  // Makes the inputs of each channel equal, so that without padding all pixels have the same sums.
  void repeat_pixels() {
    for (size_t i = 0; i < x_.size(); ++i)
      x_[i] = x_[i / (sizes_.height * sizes_.width) * sizes_.height * sizes_.width];
  }

  std::vector<int64_t> sums() const {
    std::vector<int64_t> result;
    const Sizes &s = sizes_;
    for (uint32_t o = 0; o < s.out; ++o) {
      for (uint32_t y = 0; y < s.out_height(); ++y) {
        for (uint32_t x = 0; x < s.out_width(); ++x) {
          int64_t sum = 0;
          for (uint32_t ky = 0; ky < s.kernel_height; ++ky) {
            for (uint32_t kx = 0; kx < s.kernel_width; ++kx) {
              const int64_t row = int64_t{y} + ky - s.padding, column = int64_t{x} + kx - s.padding;
              if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
              for (uint32_t c = 0; c < s.in_group(); ++c) {
                const int64_t channel = int64_t{o / (s.out / s.groups)} * s.in_group() + c;
                sum += int64_t{x_[static_cast<size_t>((channel * s.height + row) * s.width + column)]} *
                       weight(o, ky * s.kernel_width + kx, c);
              }
            }
          }
          result.push_back(sum);
        }
      }
    }
    return result;
  }

  // Returns the expected integers of the result, without the zero point, for a scale of the result and biases.
  std::vector<float> expected(float scale, const std::vector<float> &bias) const {
    const std::vector<int64_t> totals = sums();
    std::vector<float> result;
    for (size_t i = 0; i < totals.size(); ++i) {
      const float value = static_cast<float>(totals[i]) + bias[i / (totals.size() / sizes_.out)];
      const auto zero = static_cast<float>(sizes_.zero);
      const float rounded = std::nearbyint(std::max(value, sizes_.relu ? 0 : value) / scale) + zero;
      result.push_back(std::clamp(rounded, -128.0f, 127.0f) - zero);
    }
    return result;
  }

  std::vector<float> run(ShaderDevice &device, float scale, const std::vector<float> &bias) const {
    BlobWriter blob;
    const Sizes &s = sizes_;
    const std::vector<uint32_t> in = {1, s.in, s.height, s.width}, out = {1, s.out, s.out_height(), s.out_width()};
    const uint32_t x = blob.tensor(in), q = blob.tensor(in, DataType::kInt8), y = blob.tensor(out);
    const uint32_t result = blob.tensor(out, DataType::kInt8), none = blob.none(), one = blob.number(1);
    const uint32_t zero = blob.integer(s.zero), low = blob.integer(-128), high = blob.integer(127);
    blob.call("quantized_decomposed.quantize_per_tensor.default", {x, one, zero, low, high, none, q});
    const uint32_t taps = s.kernel_height * s.kernel_width;
    std::vector<int8_t> packed;
    for (uint32_t i = 0; i < w_.size(); ++i) {
      const uint32_t place = s.is_depthwise() ? i % s.out * taps + i / s.out : i;
      packed.push_back(static_cast<int8_t>(w_[place]));
    }
    const std::vector<uint32_t> rows = {s.out, taps * s.in_group()};
    const std::vector<uint32_t> grid = {s.kernel_height, s.kernel_width, s.out};
    const uint32_t w = blob.int8_constant(s.is_depthwise() ? grid : rows, packed);
    const uint32_t scales = blob.constant({s.out}, std::vector<float>(s.out, 1)), ones = blob.integers({1, 1});
    blob.call(s.is_depthwise() ? "et_vk.q8ta_conv2d_dw.default" : "et_vk.q8ta_conv2d.default",
              {q, one, zero, w, none, scales, blob.number(scale), zero, blob.constant({s.out}, bias),
               blob.integers({s.kernel_height, s.kernel_width}), ones, blob.integers({s.padding, s.padding}), ones,
               blob.integer(s.groups), blob.text(s.relu ? "relu" : "none"), result});
    blob.call("quantized_decomposed.dequantize_per_tensor.default", {result, one, zero, low, high, none, none, y});
    const Bytes bytes = blob.finish({x}, {y});
    edgecore_scope scope;
    const Graph graph = read_blob(test::view(bytes), backend::Host(test::host_table(), &scope));
    Weights weights(device);
    Execution execution(graph, device, weights, {}, kMinute, false);
    test::TestArguments arguments;
    arguments.add(Shape(in.begin(), in.end()), std::vector<float>(x_.begin(), x_.end()));
    arguments.add(Shape(out.begin(), out.end()));
    execution.prepare(arguments.get(scope));
    execution.start(arguments.get(scope));
    execution.finish();
    return arguments.floats(1);
  }

 private:
  int weight(uint32_t o, uint32_t tap, uint32_t c) const {
    const uint32_t taps = sizes_.kernel_height * sizes_.kernel_width;
    return w_[(size_t{o} * taps + tap) * sizes_.in_group() + c];
  }

  const Sizes sizes_;
  std::vector<int> x_, w_;
};

std::vector<Sizes> sizes_of(uint32_t channels) {
  Sizes pointwise, depthwise, general, grouped;
  pointwise.in = channels;
  pointwise.out = 41 - channels;
  pointwise.relu = channels % 2 == 0;
  depthwise.in = depthwise.out = depthwise.groups = channels;
  depthwise.kernel_height = depthwise.kernel_width = 3;
  depthwise.padding = 1;
  depthwise.width = 9;
  general.in = 41 - channels;
  general.out = channels;
  general.kernel_height = 2;
  general.kernel_width = 3;
  general.padding = 1;
  general.width = 16;
  grouped = general;
  grouped.in = grouped.out = 2 * channels;
  grouped.groups = 2;
  std::vector<Sizes> result = {pointwise, general, grouped};
  if (channels > 1) result.push_back(depthwise);
  return result;
}

TEST_P(DeviceInt8Layers, SumsAreExactForAnyNumberOfChannels) {
  const std::shared_ptr<ShaderDevice> gpu = gpu_device();
  std::mt19937 random(1);
  for (uint32_t channels = 1; channels <= 40; ++channels) {
    for (const Sizes &sizes : sizes_of(channels)) {
      const Layer layer(
          sizes, [&] { return static_cast<int>(random() % 256) - 128 - sizes.zero; },
          [&] { return static_cast<int>(random() % 256) - 128; });
      std::vector<float> bias;
      for (uint32_t i = 0; i < sizes.out; ++i) bias.push_back(static_cast<float>(random() % 4000) - 2000);
      constexpr float kScale = 1024;
      const std::vector<float> expected = layer.expected(kScale, bias);
      EXPECT_EQ(layer.run(device(), kScale, bias), expected) << channels << " in groups: " << sizes.groups;
      EXPECT_EQ(layer.run(*gpu, kScale, bias), expected) << channels << " in groups: " << sizes.groups;
    }
  }
}

// Sums beyond 2^24, where fp32 would lose the last bits. The biases cancel all other bits.
TEST_P(DeviceInt8Layers, LongSumsAreExact) {
  const std::shared_ptr<ShaderDevice> gpu = gpu_device();
  Sizes pointwise, odd, general, depthwise;
  pointwise.in = 1100;
  odd.in = 1101;
  general.in = 600;
  general.kernel_height = general.kernel_width = 2;
  depthwise.in = depthwise.out = depthwise.groups = 4;
  depthwise.kernel_height = depthwise.kernel_width = 25;
  depthwise.height = depthwise.width = 26;
  for (Sizes sizes : {pointwise, odd, general, depthwise}) {
    if (sizes.groups == 1) sizes.out = 8;
    sizes.zero = 127;
    std::mt19937 random(1);
    Layer layer(
        sizes, [&] { return -static_cast<int>(random() % 3) - 253; },
        [&] { return -static_cast<int>(random() % 3) - 126; });
    layer.repeat_pixels();
    const std::vector<int64_t> totals = layer.sums();
    std::vector<float> bias;
    for (uint32_t i = 0; i < sizes.out; ++i) {
      const int64_t total = totals[i * (totals.size() / sizes.out)];
      EXPECT_GT(total, int64_t{1} << 24);
      bias.push_back(-40 - static_cast<float>(total));
    }
    const std::vector<float> expected = layer.expected(1, bias);
    EXPECT_EQ(layer.run(device(), 1, bias), expected) << sizes.in;
    EXPECT_EQ(layer.run(*gpu, 1, bias), expected) << sizes.in;
  }
}

}  // namespace
}  // namespace edgecore::vulkan
