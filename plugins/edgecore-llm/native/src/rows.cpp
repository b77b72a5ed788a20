// Elementwise functions of rows, compiled once for each instruction set.
#include <math.h>

#include "functions.h"
#include "vector.h"

namespace edgecore_llm {
inline namespace EDGECORE_LLM_VARIANT {
namespace {

// 1 / (1 + exp(-x)), by the exponential of -|x|, which does not overflow.
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

}  // namespace

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
  if (!is_finite || largest <= 0x1p-119f) {
    memset(out, 0, static_cast<size_t>(size));
    return is_finite ? 0.0f : NAN;
  }
  const float factor = 127.0f / largest;
  constexpr float kRound = 0x1.8p23f;  // a number plus this, minus this, is the nearest integer
  for (int64_t i = 0; i < size; ++i) out[i] = static_cast<int8_t>((x[i] * factor + kRound) - kRound);
  return largest / 127.0f;
}

void gate(Activation activation, const float *x, int64_t count, float *out) {
  static_assert(kLanes == kBlockOutputs);
  for (int64_t i = 0; i < count; ++i, x += 2 * kLanes, out += kLanes) {
    store(out, activate(activation, load(x)) * load(x + kLanes));
  }
}

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore_llm
