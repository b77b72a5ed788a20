// Operations that multiply inputs by packed matrices, in the instruction set that this compilation targets. An object
// of type Sums holds 16 sums of 32 bits, one for each output of a block of weights.
#ifndef EDGECORE_LLM_SIMD_H_
#define EDGECORE_LLM_SIMD_H_

#include <stdint.h>
#include <string.h>

#include "packed.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace edgecore::llm {
inline namespace EDGECORE_LLM_VARIANT {

inline int32_t load_int32(const int8_t *source) {
  int32_t value;
  memcpy(&value, source, sizeof(value));
  return value;
}

#if defined(__AVX512VNNI__)

constexpr int kRows = 12;  // number of rows multiplied at once: 12 sums and a block of weights fit into 32 registers
constexpr int kTilesOfRow = 8;           // number of tiles (of 16 outputs) that a single row is multiplied by at once
constexpr bool kAreTilesApart = false;   // these tiles are adjacent
constexpr int64_t kBytesAhead = 0;       // the processor prefetches
constexpr int32_t kOffsetOfBytes = 128;  // stored value = weight + 128, because vpdpbusd needs unsigned weights
using Sums = __m512i;
using Floats = __m512;
using Line = __m512i;

inline Line load_line(const uint8_t *line) { return _mm512_loadu_si512(line); }
inline Line low_halves(Line line) { return _mm512_and_si512(line, _mm512_set1_epi8(15)); }
inline Line high_halves(Line line) { return _mm512_and_si512(_mm512_srli_epi16(line, 4), _mm512_set1_epi8(15)); }
inline Line byte_values(Line line) { return line; }
inline Sums fill(int32_t value) { return _mm512_set1_epi32(value); }
// Adds to the sum of each output the products of 4 of its weights and 4 inputs. 4-bit weights are in [0, 15].
template <int kBits>
inline Sums add_products(Sums sums, Line weights, const int8_t *inputs) {
  return _mm512_dpbusd_epi32(sums, weights, _mm512_set1_epi32(load_int32(inputs)));
}
inline Floats zero() { return _mm512_setzero_ps(); }
inline Floats load_scales(const uint16_t *scales) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(scales)));
}
// Returns total + sums * (scales * scale).
inline Floats add_scaled(Floats total, Sums sums, Floats scales, float scale) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_mul_ps(scales, _mm512_set1_ps(scale)), total);
}
inline void store(float *target, Floats values) { _mm512_storeu_ps(target, values); }

#elif defined(__AVX2__)

constexpr int kRows = 4;               // number of rows multiplied at once
constexpr int kTilesOfRow = 4;         // tiles that a single row is multiplied by at once
constexpr bool kAreTilesApart = true;  // each of these tiles is in another quarter of the tiles
constexpr int64_t kBytesAhead = 2048;  // with a single row, weights are prefetched at this distance
constexpr int32_t kOffsetOfBytes = 0;  // byte_values subtracts the offset
struct Sums {
  __m256i half[2];
};
struct Floats {
  __m256 half[2];
};
using Line = Sums;

inline __m256i load_half(const uint8_t *source) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(source));
}
inline Line load_line(const uint8_t *line) { return {{load_half(line), load_half(line + 32)}}; }
inline __m256i low_halves(__m256i line) { return _mm256_and_si256(line, _mm256_set1_epi8(15)); }
inline Line low_halves(Line line) { return {{low_halves(line.half[0]), low_halves(line.half[1])}}; }
inline Line high_halves(Line line) {
  return {{low_halves(_mm256_srli_epi16(line.half[0], 4)), low_halves(_mm256_srli_epi16(line.half[1], 4))}};
}
inline Line byte_values(Line line) {
  const __m256i sign = _mm256_set1_epi8(-128);
  return {{_mm256_xor_si256(line.half[0], sign), _mm256_xor_si256(line.half[1], sign)}};
}
inline Sums fill(int32_t value) { return {{_mm256_set1_epi32(value), _mm256_set1_epi32(value)}}; }
// _mm256_maddubs_epi16 multiplies unsigned bytes (weights) by signed bytes (inputs) and adds pairs in 16 bits with
// saturation. No pair saturates: with 4-bit weights the maximum is 2 * 15 * 127; 8-bit weights are made absolute and
// their signs moved to the inputs, so the maximum is 2 * 127 * 127.
template <int kBits>
inline __m256i add_products(__m256i sums, __m256i weights, __m256i inputs) {
  const __m256i pairs = kBits == 4 ? _mm256_maddubs_epi16(weights, inputs)
                                   : _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(inputs, weights));
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
template <int kBits>
inline Sums add_products(Sums sums, Line weights, const int8_t *inputs) {
  const __m256i x = _mm256_set1_epi32(load_int32(inputs));
  return {
      {add_products<kBits>(sums.half[0], weights.half[0], x), add_products<kBits>(sums.half[1], weights.half[1], x)}};
}
inline Floats zero() { return {{_mm256_setzero_ps(), _mm256_setzero_ps()}}; }
inline Floats load_scales(const uint16_t *scales) {
  const __m128i *halves = reinterpret_cast<const __m128i *>(scales);
  return {{_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))}};
}
inline Floats add_scaled(Floats total, Sums sums, Floats scales, float scale) {
  for (int h = 0; h < 2; ++h) {
    const __m256 product = _mm256_mul_ps(scales.half[h], _mm256_set1_ps(scale));
    total.half[h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums.half[h]), product, total.half[h]);
  }
  return total;
}
inline Floats load_floats(const float *source) { return {{_mm256_loadu_ps(source), _mm256_loadu_ps(source + 8)}}; }
inline void store(float *target, Floats values) {
  _mm256_storeu_ps(target, values.half[0]);
  _mm256_storeu_ps(target + 8, values.half[1]);
}

#elif defined(__aarch64__)

constexpr int kRows = 4;
constexpr int kTilesOfRow = 1;  // several tiles at once have not been measured
constexpr bool kAreTilesApart = false;
constexpr int64_t kBytesAhead = 0;
constexpr int32_t kOffsetOfBytes = 0;  // byte_values subtracts the offset
struct Sums {
  int32x4_t quarter[4];
};
struct Floats {
  float32x4_t quarter[4];
};
struct Line {
  int8x16_t quarter[4];
};

inline Line load_line(const uint8_t *line) {
  Line result;
  for (int i = 0; i < 4; ++i) result.quarter[i] = vreinterpretq_s8_u8(vld1q_u8(line + 16 * i));
  return result;
}
inline Line low_halves(Line line) {
  for (int i = 0; i < 4; ++i) line.quarter[i] = vandq_s8(line.quarter[i], vdupq_n_s8(15));
  return line;
}
inline Line high_halves(Line line) {
  for (int i = 0; i < 4; ++i) {
    line.quarter[i] = vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(line.quarter[i]), 4));
  }
  return line;
}
inline Line byte_values(Line line) {
  for (int i = 0; i < 4; ++i) line.quarter[i] = veorq_s8(line.quarter[i], vdupq_n_s8(-128));
  return line;
}
inline Sums fill(int32_t value) {
  Sums sums;
  for (int i = 0; i < 4; ++i) sums.quarter[i] = vdupq_n_s32(value);
  return sums;
}
inline int32x4_t add_products(int32x4_t sums, int8x16_t weights, int8x16_t inputs) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sums, weights, inputs);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(inputs));
  const int16x8_t high = vmull_high_s8(weights, inputs);
  return vaddq_s32(sums, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
}
template <int kBits>
inline Sums add_products(Sums sums, Line weights, const int8_t *inputs) {
  const int8x16_t x = vreinterpretq_s8_s32(vdupq_n_s32(load_int32(inputs)));
  for (int i = 0; i < 4; ++i) sums.quarter[i] = add_products(sums.quarter[i], weights.quarter[i], x);
  return sums;
}
inline Floats zero() {
  Floats floats;
  for (int i = 0; i < 4; ++i) floats.quarter[i] = vdupq_n_f32(0);
  return floats;
}
inline Floats load_scales(const uint16_t *scales) {
  Floats floats;
  for (int i = 0; i < 4; ++i) floats.quarter[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(scales + 4 * i)));
  return floats;
}
inline Floats add_scaled(Floats total, Sums sums, Floats scales, float scale) {
  for (int i = 0; i < 4; ++i) {
    const float32x4_t product = vmulq_n_f32(scales.quarter[i], scale);
    total.quarter[i] = vfmaq_f32(total.quarter[i], vcvtq_f32_s32(sums.quarter[i]), product);
  }
  return total;
}
inline void store(float *target, Floats values) {
  for (int i = 0; i < 4; ++i) vst1q_f32(target + 4 * i, values.quarter[i]);
}

#else

constexpr int kRows = 1;
constexpr int kTilesOfRow = 1;
constexpr bool kAreTilesApart = false;
constexpr int64_t kBytesAhead = 0;
constexpr int32_t kOffsetOfBytes = 128;
struct Sums {
  int32_t value[kBlockOutputs];
};
struct Floats {
  float value[kBlockOutputs];
};
struct Line {
  uint8_t value[kLineBytes];
};

inline Line load_line(const uint8_t *line) {
  Line result;
  memcpy(&result, line, sizeof(result));
  return result;
}
inline Line low_halves(Line line) {
  for (uint8_t &value : line.value) value &= 15;
  return line;
}
inline Line high_halves(Line line) {
  for (uint8_t &value : line.value) value >>= 4;
  return line;
}
inline Line byte_values(Line line) { return line; }
inline Sums fill(int32_t value) {
  Sums sums;
  for (int32_t &sum : sums.value) sum = value;
  return sums;
}
template <int kBits>
inline Sums add_products(Sums sums, const Line &weights, const int8_t *inputs) {
  for (int o = 0; o < kBlockOutputs; ++o) {
    for (int i = 0; i < 4; ++i) sums.value[o] += weights.value[4 * o + i] * inputs[i];
  }
  return sums;
}
inline Floats zero() { return {}; }
inline Floats load_scales(const uint16_t *scales) {
  Floats floats;
  for (int o = 0; o < kBlockOutputs; ++o) floats.value[o] = float16_value(scales[o]);
  return floats;
}
inline Floats add_scaled(Floats total, const Sums &sums, const Floats &scales, float scale) {
  for (int o = 0; o < kBlockOutputs; ++o) {
    total.value[o] += static_cast<float>(sums.value[o]) * (scales.value[o] * scale);
  }
  return total;
}
inline void store(float *target, const Floats &values) { memcpy(target, &values, sizeof(values)); }

#endif

// Stores the columns of a tile, which are fewer than 16 at the right edge of a matrix.
inline void store(float *target, const Floats &values, int64_t columns) {
  if (columns >= kBlockOutputs) return store(target, values);
  float all[kBlockOutputs];
  store(all, values);
  memcpy(target, all, static_cast<size_t>(columns) * sizeof(float));
}

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_SIMD_H_
