// Tests the attention kernels of each instruction set of this processor against sums in double precision.
#include "attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace edgecore::xnnpack {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Variant {
  const char *name;
  AttentionKernel kernel;
  bool is_present;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  all.push_back({"base", attention_base, true});
#if defined(__x86_64__)
  all.push_back({"avx2", attention_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")});
  all.push_back({"avx512f", attention_avx512f, static_cast<bool>(__builtin_cpu_supports("avx512f"))});
#endif
  return all;
}

// A head with its arrays, each in an allocation of its exact size, so that the address sanitizer detects accesses past
// its end.
struct Problem {
  Problem(uint64_t rows, uint64_t keys, uint64_t width, uint64_t value_width, uint32_t seed)
      : query(rows * width), key(keys * width), value(keys * value_width), mask(rows * keys) {
    head.rows = rows, head.keys = keys, head.width = width, head.value_width = value_width;
    head.scale = 1 / std::sqrt(static_cast<float>(width));
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto *array : {&query, &key, &value, &mask}) {
      for (float &number : *array) number = normal(random);
    }
  }

  void use_mask() {
    for (uint64_t r = 0; r < head.rows; ++r) head.mask[r] = mask.data() + r * head.keys;
  }

  std::vector<float> run(AttentionKernel kernel) {
    std::vector<float> output(head.rows * head.value_width, kNan);
    head.query = query.data(), head.key = key.data(), head.value = value.data(), head.output = output.data();
    const uint64_t bytes = attention_scratch_bytes(head.keys, head.width);
    const std::unique_ptr<void, decltype(&std::free)> scratch(std::aligned_alloc(64, bytes), std::free);
    kernel(head, static_cast<float *>(scratch.get()));
    return output;
  }

  std::vector<float> expected() const {
    std::vector<float> output;
    for (uint64_t r = 0; r < head.rows; ++r) {
      std::vector<double> weights(head.keys);
      double max = -kInfinity, total = 0;
      for (uint64_t k = 0; k < head.keys; ++k) {
        for (uint64_t i = 0; i < head.width; ++i) {
          weights[k] += double{query[r * head.width + i]} * double{key[k * head.width + i]};
        }
        weights[k] *= static_cast<double>(head.scale);
        if (head.mask[r] != nullptr) weights[k] += static_cast<double>(head.mask[r][k * head.mask_step]);
        max = std::max(max, weights[k]);
      }
      for (double &weight : weights) {
        weight = max == -kInfinity ? 0 : std::exp(weight - max);
        total += weight;
      }
      for (uint64_t i = 0; i < head.value_width; ++i) {
        double sum = 0;
        for (uint64_t k = 0; k < head.keys; ++k) {
          if (weights[k] != 0) sum += weights[k] / total * double{value[k * head.value_width + i]};
        }
        output.push_back(static_cast<float>(sum));
      }
    }
    return output;
  }

  AttentionHead head;
  std::vector<float> query, key, value, mask;
};

void expect_near(const std::vector<float> &actual, const std::vector<float> &expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 2e-5) << "element " << i;
}

class Attention : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (!GetParam().is_present) GTEST_SKIP() << "this processor has no " << GetParam().name;
  }
};

TEST_P(Attention, IsThatOfDoublePrecisionForAllSizesAroundAVector) {
  for (uint64_t rows = 1; rows <= kAttentionRows; ++rows) {
    for (uint64_t keys : {1, 2, 15, 16, 17, 31, 33, 64, 70}) {
      for (uint64_t width : {1, 3, 4, 8, 15, 16, 17, 64, 80}) {
        for (uint64_t value_width : {1, 7, 16, 33, 64, 80}) {
          SCOPED_TRACE(testing::Message() << rows << " rows, " << keys << " keys, " << width << ", " << value_width);
          Problem problem(rows, keys, width, value_width, static_cast<uint32_t>(keys * width));
          expect_near(problem.run(GetParam().kernel), problem.expected());
          problem.use_mask();
          expect_near(problem.run(GetParam().kernel), problem.expected());
        }
      }
    }
  }
}

TEST_P(Attention, KeysAfterTheLastVisibleOneAreNotRead) {
  Problem problem(3, 40, 16, 16, 1);
  problem.use_mask();
  for (uint64_t r = 0; r < 3; ++r) {
    for (uint64_t k = 10 + r; k < 40; ++k) problem.mask[r * 40 + k] = -kInfinity;
  }
  const std::vector<float> expected = problem.expected();
  for (uint64_t i = 13 * 16; i < 40 * 16; ++i) problem.key[i] = problem.value[i] = kNan;
  expect_near(problem.run(GetParam().kernel), expected);
}

TEST_P(Attention, ARowThatSeesNothingIsZero) {
  Problem problem(2, 20, 16, 16, 2);
  problem.use_mask();
  for (uint64_t k = 0; k < 20; ++k) problem.mask[20 + k] = -kInfinity;
  expect_near(problem.run(GetParam().kernel), problem.expected());
  problem.mask.assign(40, -kInfinity);
  EXPECT_EQ(problem.run(GetParam().kernel), std::vector<float>(32, 0.0f));
}

TEST_P(Attention, AMaskMayBeOneNumber) {
  Problem problem(2, 20, 16, 16, 3);
  problem.use_mask();
  problem.head.mask_step = 0;
  expect_near(problem.run(GetParam().kernel), problem.expected());
  problem.mask[0] = -kInfinity;
  expect_near(problem.run(GetParam().kernel), problem.expected());
}

TEST_P(Attention, LargeScoresDoNotOverflow) {
  Problem problem(1, 50, 16, 16, 4);
  for (float &number : problem.query) number *= 1e4f;
  problem.use_mask();
  problem.mask[7] = std::numeric_limits<float>::lowest();
  expect_near(problem.run(GetParam().kernel), problem.expected());
}

TEST_P(Attention, ANanInTheQueryReachesTheOutput) {
  Problem problem(2, 20, 16, 16, 5);
  problem.query[3] = kNan;
  const std::vector<float> output = problem.run(GetParam().kernel);
  for (uint64_t i = 0; i < 16; ++i) EXPECT_TRUE(std::isnan(output[i]));
  for (uint64_t i = 16; i < 32; ++i) EXPECT_FALSE(std::isnan(output[i]));
}

INSTANTIATE_TEST_SUITE_P(Variants, Attention, testing::ValuesIn(variants()),
                         [](const auto &info) { return std::string(info.param.name); });

}  // namespace
}  // namespace edgecore::xnnpack
