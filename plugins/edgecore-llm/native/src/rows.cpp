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

void gate(Activation activation, const float *x, int64_t count, float *out) {
  static_assert(kLanes == kBlockOutputs);
  for (int64_t i = 0; i < count; ++i, x += 2 * kLanes, out += kLanes) {
    store(out, activate(activation, load(x)) * load(x + kLanes));
  }
}

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore_llm
