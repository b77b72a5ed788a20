// Vectors of 16 floats, with the vector extension of GCC and clang: the compiler splits them into registers of the
// instruction set.
#ifndef EDGECORE_LLM_VECTOR_H_
#define EDGECORE_LLM_VECTOR_H_

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "variant.h"

namespace edgecore::llm {
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
inline Integers select(Integers condition, Integers yes, Integers no) { return (condition & yes) | (~condition & no); }
inline Vector select(Integers condition, Vector yes, Vector no) {
  return reinterpret_cast<Vector>(select(condition, reinterpret_cast<Integers>(yes), reinterpret_cast<Integers>(no)));
}

inline Vector load(const int8_t *source) {
  typedef int8_t Bytes __attribute__((vector_size(kLanes)));
  Bytes bytes;
  memcpy(&bytes, source, sizeof(bytes));
  return __builtin_convertvector(__builtin_convertvector(bytes, Integers), Vector);
}

inline Vector load(const Half *source) {
  Vector v;
#if defined(__AVX512F__)
  v = reinterpret_cast<Vector>(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(source))));
#elif defined(__AVX2__)
  const __m128i *halves = reinterpret_cast<const __m128i *>(source);
  const __m256 parts[] = {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  memcpy(&v, parts, sizeof(v));
#elif defined(__aarch64__)
  float32x4_t parts[4];
  for (int i = 0; i < 4; ++i) parts[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&source[4 * i].bits)));
  memcpy(&v, parts, sizeof(v));
#else
  typedef uint16_t Shorts __attribute__((vector_size(kLanes * sizeof(uint16_t))));
  Shorts shorts;
  memcpy(&shorts, source, sizeof(shorts));
  const Integers bits = __builtin_convertvector(shorts, Integers);  // as float16_value in packed.h does
  const Vector magnitude = reinterpret_cast<Vector>((bits & 0x7fff) << 13) * 0x1p112f;
  const Integers special = ((bits & 0x7c00) == 0x7c00) & 0x7f800000;
  v = reinterpret_cast<Vector>(reinterpret_cast<Integers>(magnitude) | special | (bits & 0x8000) << 16);
#endif
  return v;
}

// Stores 16 float16, rounded to nearest, ties to even; clamps values beyond the range of float16.
inline void store(Half *target, Vector v) {
  constexpr float kLargest = 65504;
  v = select(v > kLargest, fill(kLargest), select(v < -kLargest, fill(-kLargest), v));
#if defined(__AVX512F__)
  const __m256i halves = _mm512_cvtps_ph(reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(target), halves);
#elif defined(__AVX2__)
  __m256 parts[2];
  memcpy(parts, &v, sizeof(v));
  for (int i = 0; i < 2; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(target) + i, _mm256_cvtps_ph(parts[i], _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__aarch64__)
  float32x4_t parts[4];
  memcpy(parts, &v, sizeof(v));
  for (int i = 0; i < 4; ++i) vst1_u16(&target[4 * i].bits, vreinterpret_u16_f16(vcvt_f16_f32(parts[i])));
#else
  const Integers bits = reinterpret_cast<Integers>(v);
  const Integers magnitude = bits & 0x7fffffff;
  // Below 2^-14, float16 numbers are multiples of 2^-24, the spacing of float32 in [0.5, 1). So adding 0.5 rounds to a
  // multiple of 2^-24.
  const Vector moved = reinterpret_cast<Vector>(magnitude) + 0.5f;
  const Integers small = reinterpret_cast<Integers>(moved) - 0x3f000000;
  const Integers normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112 << 23)) >> 13;
  Integers half = select(magnitude < 0x38800000, small, normal);
  half = select(magnitude > 0x7f800000, Integers{} + 0x7e00, half) | ((bits >> 16) & 0x8000);
  for (int lane = 0; lane < kLanes; ++lane) target[lane].bits = static_cast<uint16_t>(half[lane]);
#endif
}

// exp(x) for x <= 0, with a relative error below 2^-22; 0 below -87.
//
// exp(x) = 2^n exp(r) with n = round(x / log(2)) and r = x - n log(2), |r| <= log(2) / 2, where the Taylor polynomial
// of degree 6 of exp suffices. log(2) is the sum of two floats. The first has so few bits that its product with n is
// exact.
inline Vector exponential(Vector x) {
  const Integers tiny = x < fill(-87.0f);
  x = select(tiny, fill(-87.0f), x);
  constexpr float kRound = 0x1.8p23f;  // adding and then subtracting this number rounds to the nearest integer
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
}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_VECTOR_H_
