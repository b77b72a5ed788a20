// Tests of the Winograd kernels, each instruction set that this processor has, against sums in double precision.
#include "winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "trial/guarded.h"

namespace edgecore::xnnpack {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Variant {
  const char *name;
  WinogradTarget target;
  bool is_present;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
#if defined(__x86_64__)
  all.push_back({"avx2", {winograd_avx2, 16}, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")});
  all.push_back({"avx512f", {winograd_avx512f, 32}, static_cast<bool>(__builtin_cpu_supports("avx512f"))});
#endif
  return all;
}

// A layer whose arrays end at guard pages, or begin right after them.
struct Problem {
  Problem(uint32_t form, uint64_t height, uint64_t width, uint64_t channels, uint64_t outputs, uint64_t padding) {
    layer.form = form, layer.batch = 2, layer.height = height, layer.width = width, layer.channels = channels;
    layer.top = static_cast<int64_t>(padding), layer.left = static_cast<int64_t>(padding % 2);
    layer.rows = height + 2 * padding - 2, layer.columns = width + 1 + padding % 2 - 2, layer.outputs = outputs;
    layer.min = -1, layer.max = kInfinity;
    std::mt19937 random(static_cast<uint32_t>(height * width + channels));
    std::normal_distribution<float> normal;
    const auto draw = [&](std::vector<float> *array, uint64_t count, float scale) {
      for (uint64_t i = 0; i < count; ++i) array->push_back(normal(random) * scale);
    };
    draw(&input, 2 * height * width * channels, 1);
    draw(&filter, outputs * 9 * channels, 1 / std::sqrt(9 * static_cast<float>(channels)));
    draw(&bias, outputs, 1);
  }

  // Computes the layer in blocks of `size` tiles; 0: the largest blocks.
  std::vector<float> run(const WinogradTarget &target, uint64_t size, bool at_start) {
    const auto place = [&](trial::GuardedMemory *memory, uint64_t count, uint64_t alignment) {
      return reinterpret_cast<float *>(memory->allocate(count * sizeof(float), 0, alignment, at_start));
    };
    trial::GuardedMemory memory[4];
    float *in = place(&memory[0], input.size(), 4), *packed = place(&memory[1], winograd_packed_floats(layer), 64);
    float *scratch = place(&memory[2], winograd_scratch_floats(target, layer), 64);
    const uint64_t count = layer.batch * layer.rows * layer.columns * layer.outputs;
    float *out = place(&memory[3], count, 4);
    std::copy(input.begin(), input.end(), in);
    pack_winograd(target, layer, filter.data(), bias.data(), packed);
    layer.packed = packed;
    const uint64_t tiles = winograd_tiles(layer), block = size == 0 ? winograd_block_tiles(target, layer) : size;
    for (uint64_t first = 0; first < tiles; first += block) {
      target.run(layer, in, out, first, std::min(first + block, tiles), scratch);
    }
    return {out, out + count};
  }

  double expected(uint64_t image, uint64_t y, uint64_t x, uint64_t k) const {
    double sum = double{bias[k]};
    for (uint64_t tap = 0; tap < 9; ++tap) {
      const uint64_t row = y + tap / 3 - static_cast<uint64_t>(layer.top);
      const uint64_t column = x + tap % 3 - static_cast<uint64_t>(layer.left);
      if (row >= layer.height || column >= layer.width) continue;  // unsigned: a negative index is large
      for (uint64_t c = 0; c < layer.channels; ++c) {
        sum += double{input[((image * layer.height + row) * layer.width + column) * layer.channels + c]} *
               double{filter[(k * 9 + tap) * layer.channels + c]};
      }
    }
    return std::max(sum, -1.0);
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
  for (uint32_t form : {2u, 4u}) {
    for (uint64_t size : {3, 4, 5, 8, 9, 13, 40}) {
      for (uint64_t channels : {16, 17, 31, 48}) {
        const uint64_t outputs = (channels * 7 + size) % 65 + 16, padding = (size + channels) % 3;
        SCOPED_TRACE(testing::Message() << "F" << form << ", " << size << ", " << channels << " -> " << outputs);
        Problem problem(form, size, size % 5 + 4, channels, outputs, padding);
        if (problem.layer.rows == 0) continue;
        const std::vector<float> result = problem.run(GetParam().target, 0, false);
        // The order in which tiles are shared changes nothing.
        ASSERT_EQ(result, problem.run(GetParam().target, 5, true));
        const WinogradLayer &layer = problem.layer;
        size_t at = 0;
        for (uint64_t image = 0; image < 2; ++image) {
          for (uint64_t y = 0; y < layer.rows; ++y) {
            for (uint64_t x = 0; x < layer.columns; ++x) {
              // Results are of order 1; a direct sum errs by up to 1e-6 here, and F(4x4) by up to 3 times as much.
              for (uint64_t k = 0; k < outputs; ++k) {
                ASSERT_NEAR(result[at++], problem.expected(image, y, x, k), 5e-6) << image << " " << y << " " << x;
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(WinogradKernels, AnInfinityMakesItsWholeTileNan) {
  Problem problem(4, 12, 12, 16, 16, 1);
  problem.input[(5 * 12 + 5) * 16] = kInfinity;  // of the second tile in each direction
  const std::vector<float> result = problem.run(GetParam().target, 0, false);
  EXPECT_TRUE(std::isnan(result[(5 * problem.layer.columns + 6) * 16]));
  EXPECT_FALSE(std::isnan(result[0]));
}

INSTANTIATE_TEST_SUITE_P(Variants, WinogradKernels, testing::ValuesIn(variants()),
                         [](const auto &info) { return info.param.name; });

}  // namespace
}  // namespace edgecore::xnnpack
