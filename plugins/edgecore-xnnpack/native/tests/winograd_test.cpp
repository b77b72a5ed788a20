// Tests the Winograd kernels of each instruction set of this processor against sums in double precision.
#include "winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "convolution_forms.h"
#include "trial/guarded.h"

namespace edgecore::xnnpack {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Variant {
  const char *name;
  const WinogradTarget *target;
  bool is_present;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
#if defined(__x86_64__)
  all.push_back({"base", &winograd_base, true});
  all.push_back({"avx2", &winograd_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")});
  all.push_back({"avx512f", &winograd_avx512f, static_cast<bool>(__builtin_cpu_supports("avx512f"))});
#elif defined(__aarch64__)
  all.push_back({"neon", &winograd_neon, true});
#endif
  return all;
}

// A layer whose arrays end at guard pages, or begin right after them.
struct Problem {
  // `padding`: top, left, bottom, right.
  Problem(uint32_t form, uint64_t height, uint64_t width, uint64_t channels, uint64_t outputs,
          std::array<uint64_t, 4> padding) {
    layer.form = form, layer.batch = 2, layer.height = height, layer.width = width, layer.channels = channels;
    layer.top = static_cast<int64_t>(padding[0]), layer.left = static_cast<int64_t>(padding[1]);
    layer.rows = height + padding[0] + padding[2] - 2, layer.columns = width + padding[1] + padding[3] - 2;
    layer.outputs = outputs, layer.min = -1, layer.max = 1.5;
    std::mt19937 random(static_cast<uint32_t>(height * width + channels));
    std::normal_distribution<float> normal;
    const auto draw = [&](std::vector<float> *array, uint64_t count, float scale) {
      for (uint64_t i = 0; i < count; ++i) array->push_back(normal(random) * scale);
    };
    draw(&input, 2 * height * width * channels, 1);
    draw(&filter, outputs * 9 * channels, 1 / std::sqrt(9 * static_cast<float>(channels)));
    draw(&bias, outputs, 1);
  }

  // Computes the layer with two workers, which take turns, in reverse order.
  std::vector<float> run(const WinogradTarget &target, WinogradSharing sharing, bool at_start) {
    const auto place = [&](trial::GuardedMemory *memory, uint64_t count, uint64_t alignment) {
      return reinterpret_cast<float *>(memory->allocate(count * sizeof(float), 0, alignment, at_start));
    };
    trial::GuardedMemory memory[4];
    float *in = place(&memory[0], input.size(), 4),
          *packed = place(&memory[1], winograd_packed_bytes(target, layer) / sizeof(float), 64);
    float *scratch = place(&memory[2], winograd_scratch_bytes(target, layer, sharing, 2) / sizeof(float), 64);
    const uint64_t count = layer.batch * layer.rows * layer.columns * layer.outputs;
    float *out = place(&memory[3], count, 4);
    std::copy(input.begin(), input.end(), in);
    pack_winograd(target, layer, filter.data(), bias.empty() ? nullptr : bias.data(), packed);
    layer.packed = packed;
    run_winograd(target, layer, sharing, in, out, scratch, [](uint64_t units, const auto &body) {
      for (uint64_t i = units; i-- > 0;) body(i, i + 1, i % 2);
    });
    return {out, out + count};
  }

  // Returns an output before the clamp.
  double expected(uint64_t image, uint64_t y, uint64_t x, uint64_t k) const {
    double sum = bias.empty() ? 0 : double{bias[k]};
    for (uint64_t tap = 0; tap < 9; ++tap) {
      const uint64_t row = y + tap / 3 - static_cast<uint64_t>(layer.top);
      const uint64_t column = x + tap % 3 - static_cast<uint64_t>(layer.left);
      if (row >= layer.height || column >= layer.width) continue;  // unsigned: a negative index is large
      for (uint64_t c = 0; c < layer.channels; ++c) {
        sum += double{input[((image * layer.height + row) * layer.width + column) * layer.channels + c]} *
               double{filter[(k * 9 + tap) * layer.channels + c]};
      }
    }
    return sum;
  }

  WinogradLayer layer;
  std::vector<float> input, filter, bias;
};

class WinogradKernels : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (!GetParam().is_present) GTEST_SKIP() << "this processor has no " << GetParam().name;
  }
};

TEST_P(WinogradKernels, AreThoseOfDoublePrecisionForSizesAroundATile) {
  constexpr std::array<uint64_t, 4> kPaddings[] = {
      {1, 1, 1, 1}, {0, 0, 2, 2}, {2, 0, 0, 3}, {0, 2, 3, 1}, {3, 2, 1, 0}};
  for (uint64_t size = 1; size <= 40; ++size) {
    for (const auto &padding : kPaddings) {
      const uint64_t channels = 16 + size * 7 % 33, outputs = 16 + (size * 13 + padding[0] * 5) % 53;
      const uint64_t other = 1 + size * 3 % 11;
      const bool is_tall = padding[3] % 2 == 1;
      Problem problem(2, is_tall ? size : other, is_tall ? other : size, channels, outputs, padding);
      WinogradLayer &layer = problem.layer;
      if (layer.height + padding[0] + padding[2] < 3 || layer.width + padding[1] + padding[3] < 3) continue;
      if (size % 3 == 0) problem.bias.clear();
      std::vector<double> expected;
      for (uint64_t i = 0; i < layer.batch * layer.rows * layer.columns * outputs; ++i) {
        const uint64_t pixel = i / outputs, image = pixel / (layer.rows * layer.columns);
        expected.push_back(
            problem.expected(image, pixel / layer.columns % layer.rows, pixel % layer.columns, i % outputs));
      }
      double max_output = 0;
      for (double sum : expected) max_output = std::max(max_output, std::abs(sum));
      for (uint32_t form : {2u, 4u}) {
        SCOPED_TRACE(testing::Message() << "F" << form << ", " << layer.height << "x" << layer.width << ", " << channels
                                        << " -> " << outputs << ", padding from " << padding[0]);
        layer.form = form;
        const uint64_t tiles = winograd_tiles(layer);
        const std::vector<float> result = problem.run(*GetParam().target, {true, 1}, false);
        // The sharing of the work does not change any bit.
        ASSERT_EQ(result, problem.run(*GetParam().target, {true, 1}, true));
        ASSERT_EQ(result, problem.run(*GetParam().target, {false, 1}, false));
        ASSERT_EQ(result, problem.run(*GetParam().target, {false, (tiles + 4) / 5}, true));
        ASSERT_EQ(result, problem.run(*GetParam().target, {false, tiles}, false));
        // The maximum errors seen, relative to the maximum output before the clamp, are 0.44e-6 and 1.55e-6.
        const double bound = max_output * (form == 2 ? 0.7e-6 : 2e-6);
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(result[i], std::clamp(expected[i], -1.0, 1.5), bound) << i;
        }
      }
    }
  }
}

TEST_P(WinogradKernels, AnInfinityMakesItsWholeTileNan) {
  Problem problem(4, 12, 12, 16, 16, {1, 1, 1, 1});
  problem.layer.max = kInfinity;
  problem.input[(5 * 12 + 5) * 16] = kInfinity;  // in the second tile in each direction
  const std::vector<float> result = problem.run(*GetParam().target, {false, 1}, false);
  // The input at (5, 5) is at (6, 6) after padding, and belongs only to the tiles of outputs from (4, 4) to (7, 7).
  for (uint64_t i = 0; i < result.size(); ++i) {
    const uint64_t y = i / 16 / 12 % 12, x = i / 16 % 12;
    const bool is_tile = i < 12 * 12 * 16 && y / 4 == 1 && x / 4 == 1;
    EXPECT_EQ(std::isnan(result[i]), is_tile) << i;
  }
}

TEST_P(WinogradKernels, WorkIsSharedSoThatLargeWeightsAreReadOnce) {
  const auto sharing = [](uint64_t size, uint64_t channels, uint64_t outputs, uint64_t workers) {
    return winograd_sharing(*GetParam().target, Problem(4, size, size, channels, outputs, {1, 1, 1, 1}).layer, workers);
  };
  EXPECT_FALSE(sharing(56, 64, 64, 1).by_slices);  // the weights stay in the cache
  EXPECT_GE(sharing(56, 64, 64, 4).blocks, 8);
  EXPECT_TRUE(sharing(14, 256, 256, 2).by_slices);
  EXPECT_FALSE(sharing(14, 256, 256, 64).by_slices);  // fewer slices than workers
  EXPECT_FALSE(sharing(3, 256, 256, 1).by_slices);    // one block: its inputs are transformed and used at once
  EXPECT_EQ(sharing(3, 256, 256, 1).blocks, 1);
}

ConvolutionSize layer_of(uint64_t size, uint64_t channels) {
  return {1, 3, 3, 1, 1, 1, 1, 1, channels, channels, 1, size, size, channels * channels * 9 * sizeof(float)};
}

std::vector<std::string> texts(const std::vector<ConvolutionSize> &layers, Winograd winograd, uint64_t limit) {
  std::vector<std::string> all;
  for (ConvolutionForm form : choose_forms(layers, winograd, limit)) {
    form.tile = {};  // depends on the processor
    all.push_back(form_text(form));
  }
  return all;
}

class ConvolutionForms : public testing::Test {
 protected:
  void SetUp() override {
    if (winograd_target() == nullptr) GTEST_SKIP() << "this processor has no Winograd kernels";
  }
};

TEST_F(ConvolutionForms, PastTheMemoryLayersGetSmallerTilesThenNone) {
  // F(4x4) needs 36 / 9 of the filter's size, F(2x2) 16 / 9, and both the bias: with 64 channels 432 and 112 KiB more.
  const std::vector<ConvolutionSize> layers = {layer_of(20, 64), layer_of(56, 64), layer_of(28, 64)};
  const auto forms = [&](uint64_t kibibytes) {
    std::string all;
    for (const ConvolutionForm &form : choose_forms(layers, Winograd::kOn, kibibytes << 10)) {
      all += std::to_string(form.form);
    }
    return all;
  };
  EXPECT_EQ(forms(2000), "444");
  EXPECT_EQ(forms(1000), "244");  // the largest images first
  EXPECT_EQ(forms(900), "044");
  EXPECT_EQ(forms(700), "242");
  EXPECT_EQ(forms(300), "022");
  EXPECT_EQ(forms(0), "000");
  EXPECT_EQ(texts(layers, Winograd::kOn, 700 << 10)[2],
            "Winograd F(2x2), weights + 112 KiB (F(4x4) takes 432 KiB more, winograd_memory has 267 KiB left)");
  EXPECT_EQ(texts(layers, Winograd::kOn, 0)[1], "direct (F(2x2) takes 112 KiB more, winograd_memory has 0 KiB left)");
}

TEST_F(ConvolutionForms, EachChoiceHasAReason) {
  const auto text = [](Winograd winograd, auto change) {
    ConvolutionSize layer = layer_of(56, 64);
    change(&layer);
    return texts({layer}, winograd, 128 << 20)[0];
  };
  const auto same = [](ConvolutionSize *) {};
  EXPECT_EQ(text(Winograd::kOn, same), "Winograd F(4x4), weights + 432 KiB");
  EXPECT_EQ(text(Winograd::kAccurate, same), "Winograd F(2x2), weights + 112 KiB (winograd is accurate)");
  EXPECT_EQ(text(Winograd::kOff, same), "direct (winograd is off)");
  EXPECT_EQ(text(Winograd::kOn, [](ConvolutionSize *l) { l->rows = l->columns = 14; }),
            "Winograd F(2x2), weights + 112 KiB (16 tiles of 4x4, fewer than 20)");
  EXPECT_EQ(text(Winograd::kOn, [](ConvolutionSize *l) { l->rows = l->columns = 7; }),
            "direct (16 tiles of 2x2, fewer than 20)");
  EXPECT_EQ(text(Winograd::kOn, [](ConvolutionSize *l) { l->rows = 1, l->columns = 100; }),
            "Winograd F(2x2), weights + 112 KiB (an image of 1x100)");
  EXPECT_EQ(text(Winograd::kOn, [](ConvolutionSize *l) { l->type = kOtherType; }), "direct (neither fp32 nor int8)");
  EXPECT_EQ(text(Winograd::kOn, [](ConvolutionSize *l) { l->kernel_width = 1; }), "direct (window 3x1)");
  EXPECT_EQ(text(Winograd::kOn, [](ConvolutionSize *l) { l->stride_height = 2; }), "direct (stride 2x1)");
  EXPECT_EQ(text(Winograd::kOn, [](ConvolutionSize *l) { l->dilation_width = 2; }), "direct (dilation 1x2)");
  EXPECT_EQ(text(Winograd::kOn, [](ConvolutionSize *l) { l->groups = 4; }), "direct (4 groups)");
  EXPECT_EQ(text(Winograd::kOn, [](ConvolutionSize *l) { l->channels = 15; }),
            "direct (15 inputs and 64 outputs, 16 needed of each)");
}

TEST_F(ConvolutionForms, Int8LayersHaveExactTilesWithoutVnni) {
  ConvolutionSize layer = layer_of(7, 64);
  layer.type = kInt8Type, layer.bytes /= sizeof(float);
  const auto text = [&](Winograd winograd) { return texts({layer}, winograd, 128 << 20)[0]; };
  if (winograd_int8_target() == nullptr) {
    EXPECT_EQ(text(Winograd::kOn).rfind("direct (int8 ", 0), 0);
    return;
  }
  const std::string small = "Winograd F(2x2) int8, weights + 92 KiB (4 tiles of 4x4, fewer than 20)";
  EXPECT_EQ(text(Winograd::kOn), small);
  EXPECT_EQ(text(Winograd::kAccurate), small);
  EXPECT_EQ(text(Winograd::kOff), "direct (winograd is off)");
  EXPECT_EQ(summary_of(choose_forms({layer, layer_of(56, 64)}, Winograd::kOn, 1 << 20), 1 << 20),
            "2 convolutions: 1 Winograd F(4x4), 0 F(2x2), 1 F(2x2) int8, 0 direct; packed weights grow by 524 KiB of "
            "1024 KiB");
  EXPECT_EQ(texts({layer}, Winograd::kOn, 0)[0], "direct (F(2x2) takes 92 KiB more, winograd_memory has 0 KiB left)");
  layer.rows = 6;
  EXPECT_EQ(text(Winograd::kOn), "direct (12 tiles of 2x2, fewer than 16)");
  layer.rows = 7, layer.channels = kMaxInt8Channels + 1;
  EXPECT_EQ(text(Winograd::kOn), "direct (1828 inputs, more than 1827)");
  layer.rows = layer.columns = 28, layer.channels = 64;
  EXPECT_EQ(text(Winograd::kOn), "Winograd F(4x4) int8, weights + 252 KiB");
  EXPECT_EQ(text(Winograd::kAccurate), "Winograd F(4x4) int8, weights + 252 KiB");
  EXPECT_EQ(summary_of(choose_forms({layer}, Winograd::kOn, 1 << 20), 1 << 20),
            "1 convolutions: 0 Winograd F(4x4), 0 F(2x2), 1 F(4x4) int8, 0 direct; packed weights grow by 252 KiB of "
            "1024 KiB");
  layer.channels = kMaxInt8Channels4 + 1;
  EXPECT_EQ(text(Winograd::kOn), "Winograd F(2x2) int8, weights + 256 KiB (131 inputs, more than 130 for 4x4)");
}

TEST_F(ConvolutionForms, ADirectFp32LayerHasTheTileThatXnnpackChooses) {
  ConvolutionSize layer = layer_of(56, 64);
  const auto text = [&](Winograd winograd) { return form_text(choose_forms({layer}, winograd, 128 << 20)[0]); };
  EXPECT_EQ(text(Winograd::kOff), "direct (winograd is off), tiles of " + tile_text(chosen_tile(64, 64 * 4)));
  EXPECT_EQ(text(Winograd::kOn), "Winograd F(4x4), weights + 432 KiB");
  for (const Tile &tile : tiles()) {
    const ForcedTile forced(tile);
    EXPECT_EQ(text(Winograd::kOff), "direct (winograd is off), tiles of " + tile_text(tile));
  }
  layer.groups = 4, layer.channels = layer.outputs = 16;
  EXPECT_EQ(text(Winograd::kOff), "direct (winograd is off), tiles of " + tile_text(chosen_tile(16, 64 * 4)));
  layer.channels = layer.outputs = 1;  // XNNPACK has other kernels for this
  EXPECT_EQ(text(Winograd::kOff), "direct (winograd is off)");
  layer.type = kOtherType, layer.channels = 64;
  EXPECT_EQ(text(Winograd::kOn), "direct (neither fp32 nor int8)");
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WinogradKernels);  // 32-bit Arm has none
INSTANTIATE_TEST_SUITE_P(Variants, WinogradKernels, testing::ValuesIn(variants()),
                         [](const auto &info) { return info.param.name; });

}  // namespace
}  // namespace edgecore::xnnpack
