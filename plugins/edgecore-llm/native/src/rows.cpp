// Elementwise functions of rows, compiled once for each instruction set.
#include <math.h>

#include "functions.h"
#include "vector.h"

namespace edgecore::llm {
inline namespace EDGECORE_LLM_VARIANT {
namespace {

// Returns 1 / (1 + exp(-x)), computed with exp(-|x|), which does not overflow.
inline Vector sigmoid(Vector x) {
  const Integers is_negative = x < 0.0f;
  const Vector e = exponential(select(is_negative, x, -x));
  return select(is_negative, e, fill(1.0f)) / (1.0f + e);
}

inline Vector activate(Activation activation, Vector x) {
  if (activation == Activation::kSilu) return x * sigmoid(x);
  // gelu(x) = x (1 + tanh(z)) / 2 = x sigmoid(2 z) with z = sqrt(2 / pi) (x + 0.044715 x^3)
  return x * sigmoid(1.59576912f * (x + 0.044715f * x * x * x));
}

// maximum returns the largest of the 16 lanes, sum the sum of all lanes.
inline int32_t maximum(Integers v) {
  int32_t lanes[kLanes];
  memcpy(lanes, &v, sizeof(lanes));
  int32_t most = lanes[0];
  for (int32_t lane : lanes) most = lane > most ? lane : most;
  return most;
}
inline int32_t sum(Integers v) {
  int32_t lanes[kLanes];
  memcpy(lanes, &v, sizeof(lanes));
  int32_t total = 0;
  for (int32_t lane : lanes) total += lane;
  return total;
}

}  // namespace

void round_group(const float *x, int64_t count, int32_t offset, int8_t *values, float *scale, int32_t *start) {
  static_assert(kGroup == 2 * kLanes);
  float padded[kGroup] = {};
  if (count < kGroup) {
    memcpy(padded, x, static_cast<size_t>(count) * sizeof(float));
    x = padded;
  }
  const Vector low = load(x);
  const Vector high = load(x + kLanes);
  // Compare absolute values as integers: these are ordered like the floats, with NaN above all numbers.
  const Integers low_bits = reinterpret_cast<Integers>(low) & 0x7fffffff;
  const Integers high_bits = reinterpret_cast<Integers>(high) & 0x7fffffff;
  const Integers is_low = low_bits > high_bits;
  const int32_t largest = maximum((low_bits & is_low) | (high_bits & ~is_low));
  float magnitude;
  memcpy(&magnitude, &largest, sizeof(magnitude));
  constexpr int32_t kInfinity = 0x7f800000;
  // Treat a group as zeros if its largest magnitude is below 2^-119, because 127 / magnitude would overflow.
  const bool is_used = largest < kInfinity && magnitude > 0x1p-119f;
  const float factor = is_used ? 127.0f / magnitude : 0.0f;
  // Adding 1.5 * 2^23 to a number in [-127, 127] rounds it to an integer, which the low bits of the sum contain. The
  // mask sets the values of a group of zeros to 0. It also keeps the compiler from fusing the product and the sum,
  // which would round once instead of twice.
  constexpr float kRound = 0x1.8p23f;
  const Integers mask = Integers{} - static_cast<int32_t>(is_used);
  const auto round = [&](Vector v) {
    const Vector product = reinterpret_cast<Vector>(reinterpret_cast<Integers>(v * factor) & mask);
    return reinterpret_cast<Integers>(product + kRound) - 0x4b400000;
  };
  const Integers low_values = round(low);
  const Integers high_values = round(high);
  typedef int8_t Bytes __attribute__((vector_size(kLanes)));
  const Bytes low_bytes = __builtin_convertvector(low_values, Bytes);
  const Bytes high_bytes = __builtin_convertvector(high_values, Bytes);
  memcpy(values, &low_bytes, sizeof(low_bytes));
  memcpy(values + kLanes, &high_bytes, sizeof(high_bytes));
  *scale = largest >= kInfinity ? NAN : is_used ? magnitude / 127.0f : 0.0f;
  *start = -offset * sum(low_values + high_values);
}

void normalize(const float *x, const float *weight, int64_t size, float eps, float *out) {
  Vector squares = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Vector v = load(x + i);
    squares += v * v;
  }
  float sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += squares[lane];
  for (; i < size; ++i) sum += x[i] * x[i];
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(size) + eps);
  for (i = 0; i < size; ++i) out[i] = x[i] * factor * weight[i];
}

void round_to_halves(const float *x, int64_t size, Half *out) {
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) store(out + i, load(x + i));
  if (i == size) return;
  float last[kLanes] = {};
  Half rounded[kLanes];
  memcpy(last, x + i, static_cast<size_t>(size - i) * sizeof(float));
  store(rounded, load(last));
  memcpy(out + i, rounded, static_cast<size_t>(size - i) * sizeof(Half));
}

float round_to_bytes(const float *x, int64_t size, int8_t *out) {
  float largest = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < size; ++i) {
    const float magnitude = fabsf(x[i]);
    largest = magnitude > largest ? magnitude : largest;
    is_finite = is_finite & (magnitude < INFINITY);
  }
  const bool is_used = is_finite && largest > 0x1p-119f;
  const float factor = is_used ? 127.0f / largest : 0.0f;
  constexpr float kRound = 0x1.8p23f;  // adding and subtracting this number rounds to an integer; see round_group
  int32_t mask = -static_cast<int32_t>(is_used);
  __asm__("" : "+r"(mask));  // hide the mask's value: a compiler that knows it would make two loops
  for (int64_t i = 0; i < size; ++i) {
    const float scaled = x[i] * factor;
    int32_t bits;
    memcpy(&bits, &scaled, sizeof(bits));
    bits &= mask;
    float product;
    memcpy(&product, &bits, sizeof(product));
    out[i] = static_cast<int8_t>((product + kRound) - kRound);
  }
  return !is_finite ? NAN : is_used ? largest / 127.0f : 0.0f;
}

void gate(Activation activation, const float *x, int64_t count, float *out) {
  static_assert(kLanes == kBlockOutputs);
  for (int64_t i = 0; i < count; ++i, x += 2 * kLanes, out += kLanes) {
    store(out, activate(activation, load(x)) * load(x + kLanes));
  }
}

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore::llm
