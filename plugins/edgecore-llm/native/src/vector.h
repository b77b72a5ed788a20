// Vectors of 16 floats, by the vector extension of GCC and clang: the compiler divides them among the registers that
// the instruction set has.
#ifndef EDGECORE_LLM_VECTOR_H_
#define EDGECORE_LLM_VECTOR_H_

#include <stdint.h>
#include <string.h>

namespace edgecore_llm {
inline namespace EDGECORE_LLM_VARIANT {

constexpr int kLanes = 16;
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t Integers __attribute__((vector_size(kLanes * sizeof(int32_t))));

inline Vector load(const float *source) {
  Vector v;
  memcpy(&v, source, sizeof(v));
  return v;
}
inline void store(float *target, Vector v) { memcpy(target, &v, sizeof(v)); }
inline Vector fill(float value) { return Vector{} + value; }
inline Vector select(Integers condition, Vector yes, Vector no) {
  return reinterpret_cast<Vector>((condition & reinterpret_cast<Integers>(yes)) |
                                  (~condition & reinterpret_cast<Integers>(no)));
}

// exp(x) for x <= 0, with a relative error below 2^-22; 0 below -87.
//
// exp(x) = 2^n exp(r) with n = round(x / log(2)) and r = x - n log(2), |r| <= log(2) / 2, where the Taylor polynomial
// of degree 6 of exp suffices. log(2) is the sum of two floats, the first with so few bits that n times it is exact.
inline Vector exponential(Vector x) {
  const Integers tiny = x < fill(-87.0f);
  x = select(tiny, fill(-87.0f), x);
  constexpr float kRound = 0x1.8p23f;  // a number plus this, minus this, is the nearest integer
  const Vector moved = x * 1.44269504f + kRound;
  const Vector n = moved - kRound;
  const Vector r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
  Vector polynomial = fill(1.0f / 720) * r + 1.0f / 120;
  polynomial = polynomial * r + 1.0f / 24;
  polynomial = polynomial * r + 1.0f / 6;
  polynomial = polynomial * r + 0.5f;
  polynomial = polynomial * r + 1.0f;
  polynomial = polynomial * r + 1.0f;
  const Integers exponent = (reinterpret_cast<Integers>(moved) - 0x4b400000 + 127) << 23;  // the bits of 2^n
  return select(tiny, Vector{}, polynomial * reinterpret_cast<Vector>(exponent));
}

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore_llm

#endif  // EDGECORE_LLM_VECTOR_H_
