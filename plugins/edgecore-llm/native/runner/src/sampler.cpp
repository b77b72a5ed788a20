#include "edgecore/llm/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace edgecore::llm {
namespace {

constexpr size_t kFirstCandidates = 256;  // top-p first sorts this many of the likeliest tokens, and rarely needs more

Status check_range(const char *name, double value, double low, double high, Error &error) {
  if (value >= low && value <= high && !std::isinf(value)) return {};
  return fail(error, EDGECORE_INVALID_ARGUMENT, name, " does not lie between ", static_cast<int64_t>(low), " and ",
              static_cast<int64_t>(high), ".");
}

// Computes the 128-bit product of two numbers from 32-bit products: compilers for 32-bit processors have no int128.
void multiply(uint64_t a, uint64_t b, uint64_t &high, uint64_t &low) {
  const uint64_t a0 = a & UINT32_MAX, a1 = a >> 32, b0 = b & UINT32_MAX, b1 = b >> 32;
  const uint64_t first = a1 * b0 + (a0 * b0 >> 32);  // no overflow: the sum fits into 64 bits
  const uint64_t second = a0 * b1 + (first & UINT32_MAX);
  high = a1 * b1 + (first >> 32) + (second >> 32);
  low = a * b;
}

}  // namespace

Status check(const Sampling &sampling, Error &error) {
  constexpr double kLargest = 9e18;
  if (sampling.top_k < 0 || sampling.penalty_window < 0) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, sampling.top_k < 0 ? "top_k" : "penalty_window", " is negative.");
  }
  EDGECORE_TRY(check_range("temperature", sampling.temperature, 0, kLargest, error));
  EDGECORE_TRY(check_range("top_p", sampling.top_p, 0, 1, error));
  EDGECORE_TRY(check_range("min_p", sampling.min_p, 0, 1, error));
  if (!(sampling.repetition_penalty >= 1e-3 && sampling.repetition_penalty <= 1e3)) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "repetition_penalty does not lie between 0.001 and 1000.");
  }
  EDGECORE_TRY(check_range("presence_penalty", sampling.presence_penalty, -1e3, 1e3, error));
  return check_range("frequency_penalty", sampling.frequency_penalty, -1e3, 1e3, error);
}

double uniform(uint64_t seed, uint64_t position) {
  uint64_t counter[4] = {position + 1, position + 1 == 0 ? 1u : 0u, 0, 0};
  uint64_t key[2] = {seed, 0};
  for (int round = 0; round < 10; ++round) {
    uint64_t high0, low0, high1, low1;
    multiply(0xD2E7470EE14C6C93u, counter[0], high0, low0);
    multiply(0xCA5A826395121157u, counter[2], high1, low1);
    const uint64_t first = high1 ^ counter[1] ^ key[0];
    const uint64_t third = high0 ^ counter[3] ^ key[1];
    counter[0] = first;
    counter[1] = low1;
    counter[2] = third;
    counter[3] = low0;
    key[0] += 0x9E3779B97F4A7C15u;
    key[1] += 0xBB67AE8584CAA73Bu;
  }
  return static_cast<double>(counter[0] >> 11) * 0x1p-53;
}

Result<int32_t> Sampler::sample(Span<const float> logits, const Sampling &sampling, uint64_t position,
                                Span<const int32_t> history, size_t vocabulary, Error &error) {
  const size_t count = vocabulary == 0 ? logits.size() : std::min(vocabulary, logits.size());
  scores_.assign(logits.begin(), logits.begin() + count);
  float largest = -std::numeric_limits<float>::infinity();
  bool has_nan = false;
  for (const float score : scores_) {
    has_nan |= std::isnan(score);
    largest = score > largest ? score : largest;
  }
  if (has_nan || std::isinf(largest)) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "The logits of position ", position,
                " hold values that are not numbers.");
  }
  penalize(sampling, history);
  const auto best = std::max_element(scores_.begin(), scores_.end());
  if (sampling.temperature <= 0 || sampling.top_k == 1) return static_cast<int32_t>(best - scores_.begin());

  const double top = static_cast<double>(*best);
  truncate(sampling, top);
  sums_.resize(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    sums_[i] = std::exp((static_cast<double>(scores_[static_cast<size_t>(tokens_[i])]) - top) / sampling.temperature);
  }
  const double total = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  double sum = 0;
  for (double &value : sums_) value = sum += value / total;
  const auto place = std::upper_bound(sums_.begin(), sums_.end(), uniform(sampling.seed, position) * sum);
  return tokens_[std::min(static_cast<size_t>(place - sums_.begin()), tokens_.size() - 1)];
}

void Sampler::penalize(const Sampling &sampling, Span<const int32_t> history) {
  const auto window = static_cast<size_t>(sampling.penalty_window);
  const size_t recent = window == 0 ? history.size() : std::min(window, history.size());
  tokens_.assign(history.end() - recent, history.end());
  std::sort(tokens_.begin(), tokens_.end());
  for (size_t begin = 0, end = 0; begin < tokens_.size(); begin = end) {
    while (end < tokens_.size() && tokens_[end] == tokens_[begin]) ++end;
    const auto token = static_cast<size_t>(tokens_[begin]);
    if (tokens_[begin] < 0 || token >= scores_.size()) continue;
    float score = scores_[token];
    const auto penalty = static_cast<float>(sampling.repetition_penalty);
    if (sampling.repetition_penalty < 1 || sampling.repetition_penalty > 1) {
      score = score > 0 ? score / penalty : score * penalty;
    }
    const double times = static_cast<double>(end - begin);
    scores_[token] = score - static_cast<float>(sampling.presence_penalty + sampling.frequency_penalty * times);
  }
}

double Sampler::weight(int32_t token, double largest) const {
  return std::exp(static_cast<double>(scores_[static_cast<size_t>(token)]) - largest);
}

// Sets tokens_ to the tokens that top-k, top-p and min-p keep, by descending scores, or in the order of the vocabulary
// if nothing is truncated. All three use the probabilities before the temperature is applied.
void Sampler::truncate(const Sampling &sampling, double largest) {
  const size_t all = scores_.size();
  const size_t count = sampling.top_k == 0 ? all : std::min(static_cast<size_t>(sampling.top_k), all);
  if (sampling.top_p < 1) {
    // Keep tokens until their probabilities reach top_p times the total of the tokens that top-k keeps. Usually a few
    // tokens suffice, so sort only as many as needed.
    take_largest(count == all ? 0 : count);
    double total = 0;
    if (count == all) {
      for (size_t token = 0; token < all; ++token) total += weight(static_cast<int32_t>(token), largest);
    } else {
      for (const int32_t token : tokens_) total += weight(token, largest);
    }
    const double wanted = sampling.top_p * total;
    for (size_t sorted = std::min(count, kFirstCandidates);; sorted = std::min(count, 4 * sorted)) {
      take_largest(sorted);
      double sum = 0;
      size_t kept = 0;
      while (kept < sorted && sum < wanted) sum += weight(tokens_[kept++], largest);
      if (sum < wanted && sorted < count) continue;
      tokens_.resize(std::max<size_t>(kept, 1));
      break;
    }
  } else if (sampling.min_p > 0) {
    // Take a few tokens more than min-p keeps: the bound is a little too low; an exact test follows at the end.
    const double bound = largest + std::log(sampling.min_p) - 1e-3;
    size_t above = 0;
    for (const float score : scores_) above += static_cast<double>(score) >= bound;
    take_largest(std::min(count, above));
  } else if (count < all) {
    take_largest(count);
  } else {
    tokens_.resize(all);
    std::iota(tokens_.begin(), tokens_.end(), 0);  // tokens_ stays unsorted, because sorting all tokens is slow
  }
  if (sampling.min_p > 0) {
    size_t kept = 0;
    while (kept < tokens_.size() && weight(tokens_[kept], largest) >= sampling.min_p) ++kept;
    tokens_.resize(std::max<size_t>(kept, 1));
  }
}

// Sets tokens_ to the tokens of the `count` largest scores, descending; equal scores are ordered by token.
void Sampler::take_largest(size_t count) {
  const auto is_before = [this](int32_t a, int32_t b) {
    const float x = scores_[static_cast<size_t>(a)], y = scores_[static_cast<size_t>(b)];
    return x > y || (x >= y && a < b);
  };
  tokens_.resize(scores_.size());
  std::iota(tokens_.begin(), tokens_.end(), 0);
  const auto end = tokens_.begin() + static_cast<std::ptrdiff_t>(count);
  if (count < tokens_.size()) std::nth_element(tokens_.begin(), end, tokens_.end(), is_before);
  tokens_.resize(count);
  std::sort(tokens_.begin(), tokens_.end(), is_before);
}

}  // namespace edgecore::llm
