#include "edgecore/llm/sampler.h"

#include <gtest/gtest.h>

#include <limits>

namespace edgecore::llm {
namespace {

int32_t sample(const std::vector<float> &logits, const Sampling &sampling, uint64_t position, size_t vocabulary = 0) {
  Sampler sampler;
  Error error;
  const Result<int32_t> token =
      sampler.sample({logits.data(), logits.size()}, sampling, position, {}, vocabulary, error);
  EXPECT_TRUE(token.ok()) << std::string(error.text, error.size);
  return *token;
}

TEST(Sampler, DrawsAreThoseOfNumpy) {
  // numpy.random.Philox(key=seed, counter=[position, 0, 0, 0]).random_raw() >> 11, times 2**-53
  EXPECT_EQ(uniform(0, 0), 0.011546754286331562);
  EXPECT_EQ(uniform(7, 11), 0.6374823931894328);
  EXPECT_EQ(uniform(std::numeric_limits<uint64_t>::max(), 5), 0.46292535650502586);
}

TEST(Sampler, TheLargestLogitIsTakenWithoutTemperature) {
  EXPECT_EQ(sample({1, 2, 2, 0}, Sampling(), 0), 1);
  EXPECT_EQ(sample({0, 1, 5, 9}, Sampling(), 0, 3), 2);
}

TEST(Sampler, LogitsThatAreNoNumbersAreAnError) {
  Sampler sampler;
  Error error;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const float logits[] = {0, bad};
    EXPECT_FALSE(sampler.sample(logits, Sampling(), 3, {}, 0, error).ok());
    EXPECT_EQ(std::string(error.text, error.size), "The logits of position 3 hold values that are not numbers.");
  }
}

TEST(Sampler, AValueOutsideOfItsRangeIsAnError) {
  Error error;
  Sampling sampling;
  EXPECT_TRUE(check(sampling, error).ok());
  sampling.top_p = 1.5;
  EXPECT_FALSE(check(sampling, error).ok());
  EXPECT_EQ(std::string(error.text, error.size), "top_p does not lie between 0 and 1.");
}

}  // namespace
}  // namespace edgecore::llm
