// Tests the Winograd kernels of int8 convolutions against the integer sums of direct convolutions.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "trial/guarded.h"
#include "winograd.h"

namespace edgecore::xnnpack {
namespace {

#if defined(__x86_64__)

struct Variant {
  const char *name;
  const WinogradTarget *target;
  bool is_present;
};

const Variant kVariants[] = {
    {"avx2", &winograd_int8_avx2, static_cast<bool>(__builtin_cpu_supports("avx2"))},
    {"avx512skx", &winograd_int8_avx512skx, static_cast<bool>(__builtin_cpu_supports("avx512bw"))}};

// A layer whose arrays end at guard pages, or begin right after them.
struct Problem {
  // `padding`: top, left, bottom, right.
  Problem(uint32_t form, uint64_t height, uint64_t width, uint64_t channels, uint64_t outputs,
          std::array<uint64_t, 4> padding) {
    layer.form = form, layer.batch = 2, layer.height = height, layer.width = width, layer.channels = channels;
    layer.top = static_cast<int64_t>(padding[0]), layer.left = static_cast<int64_t>(padding[1]);
    layer.rows = height + padding[0] + padding[2] - 2, layer.columns = width + padding[1] + padding[3] - 2;
    layer.outputs = outputs;
    std::mt19937 random(static_cast<uint32_t>(height * width + channels));
    const auto draw = [&](std::vector<int8_t> *array, uint64_t count) {
      for (uint64_t i = 0; i < count; ++i) array->push_back(static_cast<int8_t>(random()));
    };
    draw(&input, 2 * height * width * channels);
    draw(&filter, outputs * 9 * channels);
    for (uint64_t k = 0; k < outputs; ++k) {
      bias.push_back(static_cast<int32_t>(random() % 200001) - 100000);
      // So that results cover the range of int8, and some are beyond it.
      scales.push_back(static_cast<float>(k + 1) / static_cast<float>(outputs) * 100 /
                       (5000 * 9 * std::sqrt(static_cast<float>(channels))));
    }
    set_output(-128, 127, 0);
  }

  void set_output(int32_t min, int32_t max, int32_t zero_point) {
    layer.min = static_cast<float>(min - zero_point), layer.max = static_cast<float>(max - zero_point);
    layer.output_zero_point = zero_point;
  }

  // Computes the layer with two workers, which take turns, in reverse order.
  std::vector<int8_t> run(const WinogradTarget &target, WinogradSharing sharing, bool at_start) {
    trial::GuardedMemory memory[4];
    const uint64_t count = layer.batch * layer.rows * layer.columns * layer.outputs;
    auto *in = reinterpret_cast<int8_t *>(memory[0].allocate(input.size(), 0, 1, at_start));
    void *packed = memory[1].allocate(winograd_packed_bytes(target, layer), 0, 64, at_start);
    void *scratch = memory[2].allocate(winograd_scratch_bytes(target, layer, sharing, 2), 0, 64, at_start);
    auto *out = reinterpret_cast<int8_t *>(memory[3].allocate(count, 0, 1, at_start));
    std::copy(input.begin(), input.end(), in);
    pack_winograd_int8(target, layer, filter.data(), bias.empty() ? nullptr : bias.data(), scales.data(), packed);
    layer.packed = packed;
    run_winograd(target, layer, sharing, in, out, scratch, [](uint64_t units, const auto &body) {
      for (uint64_t i = units; i-- > 0;) body(i, i + 1, i % 2);
    });
    return {out, out + count};
  }

  int8_t expected(uint64_t index) const {
    const uint64_t k = index % layer.outputs, pixel = index / layer.outputs, image = pixel / layer.columns / layer.rows;
    const uint64_t y = pixel / layer.columns % layer.rows, x = pixel % layer.columns;
    int64_t sum = bias.empty() ? 0 : bias[k];
    for (uint64_t tap = 0; tap < 9; ++tap) {
      const uint64_t row = y + tap / 3 - static_cast<uint64_t>(layer.top);
      const uint64_t column = x + tap % 3 - static_cast<uint64_t>(layer.left);
      if (row >= layer.height || column >= layer.width) continue;  // unsigned: a negative index is large
      const int8_t *from = &input[((image * layer.height + row) * layer.width + column) * layer.channels];
      const int8_t *weights = &filter[(k * 9 + tap) * layer.channels];
      for (uint64_t c = 0; c < layer.channels; ++c) sum += (from[c] - layer.input_zero_point) * weights[c];
    }
    const float product = static_cast<float>(static_cast<int32_t>(sum)) * scales[k];
    return static_cast<int8_t>(std::nearbyint(std::clamp(product, layer.min, layer.max)) +
                               static_cast<float>(layer.output_zero_point));
  }

  void check(const WinogradTarget &target) {
    const uint64_t tiles = winograd_tiles(layer);
    const std::vector<int8_t> result = run(target, {true, 1}, false);
    ASSERT_EQ(result, run(target, {true, 1}, true));
    ASSERT_EQ(result, run(target, {false, 1}, false));
    ASSERT_EQ(result, run(target, {false, (tiles + 4) / 5}, true));
    ASSERT_EQ(result, run(target, {false, tiles}, false));
    for (uint64_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], expected(i)) << i;
  }

  WinogradLayer layer;
  std::vector<int8_t> input, filter;
  std::vector<int32_t> bias;
  std::vector<float> scales;
};

class WinogradInt8 : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (!GetParam().is_present) GTEST_SKIP() << "this processor has no " << GetParam().name;
  }
};

TEST_P(WinogradInt8, GivesTheIntegersOfADirectConvolutionForSizesAroundATile) {
  constexpr std::array<uint64_t, 4> kPaddings[] = {
      {1, 1, 1, 1}, {0, 0, 2, 2}, {2, 0, 0, 3}, {0, 2, 3, 1}, {3, 2, 1, 0}};
  constexpr int32_t kZeroPoints[] = {0, -128, 127, 5};
  for (uint64_t i = 0; i < 48; ++i) {
    const uint32_t form = i % 2 == 0 ? 2 : 4;
    const uint64_t size = i / 2 + 1;
    for (const auto &padding : kPaddings) {
      const uint64_t channels = 16 + size * 7 % 33, outputs = 16 + (size * 13 + padding[0] * 5) % 53;
      const uint64_t other = 1 + size * 3 % 11;
      const bool is_tall = padding[3] % 2 == 1;
      Problem problem(form, is_tall ? size : other, is_tall ? other : size, channels, outputs, padding);
      WinogradLayer &layer = problem.layer;
      if (layer.height + padding[0] + padding[2] < 3 || layer.width + padding[1] + padding[3] < 3) continue;
      if (size % 3 == 0) problem.bias.clear();
      layer.input_zero_point = kZeroPoints[size % 4];
      const int32_t zero_point = kZeroPoints[(size + padding[0]) % 4];
      problem.set_output(size % 5 == 0 ? std::max(zero_point, -100) : -128, size % 5 == 1 ? 90 : 127, zero_point);
      SCOPED_TRACE(testing::Message() << "F" << form << ", " << layer.height << "x" << layer.width << ", " << channels
                                      << " -> " << outputs << ", padding from " << padding[0]);
      ASSERT_NO_FATAL_FAILURE(problem.check(*GetParam().target));
    }
  }
}

TEST_P(WinogradInt8, SumsOfTheLargestProductsFit) {
  for (const uint32_t form : {2u, 4u}) {
    const uint64_t channels = form == 2 ? kMaxInt8Channels : kMaxInt8Channels4;
    for (const int8_t weight : {-128, 127}) {
      for (const int32_t zero_point : {-128, 127}) {
        Problem problem(form, 5, 4, channels, 16, {1, 1, 1, 1});
        problem.layer.input_zero_point = zero_point;
        std::fill(problem.filter.begin(), problem.filter.end(), weight);
        // The inputs that are furthest from the zero point, and the patterns whose transforms are largest.
        const auto far = static_cast<int8_t>(zero_point < 0 ? 127 : -128), near = static_cast<int8_t>(zero_point);
        for (const uint64_t period : {1, 2}) {
          for (uint64_t i = 0; i < problem.input.size(); ++i) {
            problem.input[i] = i / channels % 4 / period % 2 == 0 ? far : near;
          }
          ASSERT_NO_FATAL_FAILURE(problem.check(*GetParam().target));
        }
        std::fill(problem.input.begin(), problem.input.end(), far);
        std::fill(problem.scales.begin(), problem.scales.end(), 1e-7f * 3);
        ASSERT_NO_FATAL_FAILURE(problem.check(*GetParam().target));
        std::fill(problem.scales.begin(), problem.scales.end(), 255.0f);  // products beyond the range of int32
        ASSERT_NO_FATAL_FAILURE(problem.check(*GetParam().target));
      }
    }
  }
}

// Every sum that a tile of F(4x4) can have at its largest: weights and inputs take the signs of the two transforms of
// each position, so that its products are as large as they can be.
TEST_P(WinogradInt8, TheLargestProductsOfEachPositionOf4x4GiveExactSums) {
  constexpr int32_t kInputs[6][6] = {{4, 0, -5, 0, 1, 0},  {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
                                     {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
  constexpr int32_t kFilters[6][3] = {{1, 1, 1}, {1, 1, 1}, {1, -1, 1}, {1, 2, 4}, {1, -2, 4}, {1, 1, 1}};
  for (uint64_t position = 0; position < 36; ++position) {
    const int32_t *down = kInputs[position / 6], *across = kInputs[position % 6];
    const int32_t *filter_down = kFilters[position / 6], *filter_across = kFilters[position % 6];
    Problem problem(4, 6, 6, kMaxInt8Channels4, 16, {0, 0, 0, 0});
    problem.layer.batch = 1;
    problem.input.resize(36 * kMaxInt8Channels4);
    problem.layer.input_zero_point = position % 2 == 0 ? -128 : 127;
    for (uint64_t i = 0; i < problem.input.size(); ++i) {
      const uint64_t pixel = i / kMaxInt8Channels4;
      problem.input[i] = down[pixel / 6] * across[pixel % 6] < 0 ? -128 : 127;
    }
    for (uint64_t i = 0; i < problem.filter.size(); ++i) {
      const uint64_t tap = i / kMaxInt8Channels4 % 9;
      problem.filter[i] = filter_down[tap / 3] * filter_across[tap % 3] < 0 ? 127 : -128;
    }
    SCOPED_TRACE(position);
    ASSERT_NO_FATAL_FAILURE(problem.check(*GetParam().target));
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, WinogradInt8, testing::ValuesIn(kVariants),
                         [](const auto &info) { return info.param.name; });

#endif

}  // namespace
}  // namespace edgecore::xnnpack
