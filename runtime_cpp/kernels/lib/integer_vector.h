// SIMD vectors of pairs of int16, for instructions that multiply two pairs and add both products to a 32-bit sum. Also
// requantizes sums to int8 or int16. Values are int8 or int16; weights are always int8.
#ifndef EDGECORE_KERNELS_INTEGER_VECTOR_H_
#define EDGECORE_KERNELS_INTEGER_VECTOR_H_

#include <stddef.h>

#include "edgecore/processor.h"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif EDGECORE_MICROCONTROLLER && defined(__ARM_FEATURE_DSP)
#define EDGECORE_DSP  // 32-bit registers hold pairs of int16, and instructions multiply two pairs
#include <arm_acle.h>
#endif

#include "lib/fixed_point.h"
#include "lib/vector.h"

#if EDGECORE_MICROCONTROLLER && defined(__ARM_FEATURE_MVE)
#define EDGECORE_MVE
#include "lib/integer_mve.h"
#endif

// Unrolls a loop over a tile's sums, even in code that is compiled for size, so that the sums stay in registers.
#if defined(EDGECORE_DSP)
#define EDGECORE_UNROLL _Pragma("GCC unroll 8")
#else
#define EDGECORE_UNROLL
#endif

namespace edgecore {
inline namespace EDGECORE_VARIANT {

#if defined(__SSE2__) || defined(__aarch64__)
constexpr bool kHasCache = true;
#else
constexpr bool kHasCache = false;  // the memory of a microcontroller is small, and fast even without a cache
#endif

using Sums = Vector<int32_t>;
constexpr int kSumLanes = kLanes<int32_t>;

// Loads two adjacent int16 as one 32-bit number with the same bytes.
inline int32_t load_pair(const int16_t *source) {
  int32_t pair;
  __builtin_memcpy(&pair, source, sizeof(pair));
  return pair;
}

// Returns kSumLanes values as 32-bit integers. Uses a vector type of exactly this size: for a loop, a compiler would
// use vectors of more elements.
inline Sums widen(const int8_t *source) {
  typedef int8_t Bytes __attribute__((vector_size(kSumLanes)));
  Bytes bytes;
  __builtin_memcpy(&bytes, source, sizeof(bytes));
  return __builtin_convertvector(bytes, Sums);
}
inline Sums widen(const int16_t *source) {
  typedef int16_t Halves __attribute__((vector_size(2 * kSumLanes)));
  Halves halves;
  __builtin_memcpy(&halves, source, sizeof(halves));
  return __builtin_convertvector(halves, Sums);
}

// Vector types of kCount integers. The types are members of a struct, because GCC ignores the vector attribute of a
// type in a function if the size depends on a template argument.
template <int kCount>
struct Block {
  typedef int8_t Bytes __attribute__((vector_size(kCount)));
  typedef int16_t Halves __attribute__((vector_size(2 * kCount)));
};

// Copies kCount int8 values as int16.
template <int kCount>
__attribute__((always_inline)) inline void widen_block(const int8_t *source, int16_t *target) {
#if defined(EDGECORE_DSP)
  if constexpr (kCount % 4 == 0) {
    EDGECORE_UNROLL for (int i = 0; i < kCount; i += 4) {
      uint32_t bytes;
      __builtin_memcpy(&bytes, source + i, 4);
      const uint32_t even = __sxtb16(bytes), odd = __sxtb16(bytes >> 8 | bytes << 24);
      const uint32_t halves[2] = {(even & 0xffff) | odd << 16, even >> 16 | (odd & 0xffff0000)};
      __builtin_memcpy(target + i, halves, 8);
    }
    return;
  }
#endif
  using Halves = typename Block<kCount>::Halves;
  typename Block<kCount>::Bytes bytes;
  __builtin_memcpy(&bytes, source, sizeof(bytes));
  const Halves halves = __builtin_convertvector(bytes, Halves);
  __builtin_memcpy(target, &halves, sizeof(halves));
}
template <int kCount>
inline void widen_block(const int16_t *source, int16_t *target) {
  __builtin_memcpy(target, source, kCount * sizeof(int16_t));
}

// Returns the dot product of n int8 values and n int8 weights.
inline int32_t dot(const int8_t *a, const int8_t *b, int64_t n) {
#if defined(EDGECORE_MVE)
  return mve_dot(a, b, static_cast<int32_t>(n));
#endif
  int32_t sum = 0;
#if defined(EDGECORE_DSP)
  // count by comparing pointers, because a 64-bit index needs more instructions
  const int8_t *const end = a + n / 4 * 4;
  for (; a != end; a += 4, b += 4) {
    uint32_t x, y;
    __builtin_memcpy(&x, a, 4);
    __builtin_memcpy(&y, b, 4);
    sum = __smlad(__sxtb16(x), __sxtb16(y), sum);
    sum = __smlad(__sxtb16(x >> 8 | x << 24), __sxtb16(y >> 8 | y << 24), sum);
  }
  n %= 4;
#endif
  for (int64_t i = 0; i < n; ++i) sum += static_cast<int16_t>(a[i]) * static_cast<int16_t>(b[i]);
  return sum;
}

// Returns the dot product of n int16 values and n int8 weights, for n up to kBlockOfProducts.
inline int32_t block_dot(const int16_t *a, const int8_t *b, ptrdiff_t n) {
#if defined(EDGECORE_MVE)
  return mve_dot(a, b, static_cast<int32_t>(n));
#endif
  const int16_t *const end = a + n;
  int32_t sum = 0;
#if defined(EDGECORE_DSP)
  for (const int16_t *const whole = a + n / 4 * 4; a != whole; a += 4, b += 4) {
    uint32_t bytes;
    __builtin_memcpy(&bytes, b, 4);
    const auto even = static_cast<int32_t>(__sxtb16(bytes)), odd = static_cast<int32_t>(__sxtb16(bytes >> 8));
    const int32_t first = load_pair(a), second = load_pair(a + 2);
    sum = __smlabb(first, even, sum);
    sum = __smlatb(first, odd, sum);
    sum = __smlabt(second, even, sum);
    sum = __smlatt(second, odd, sum);
  }
#endif
  for (; a != end; ++a, ++b) sum += *a * static_cast<int16_t>(*b);
  return sum;
}

// Returns the dot product of n int16 values and n int8 weights.
inline int64_t dot(const int16_t *a, const int8_t *b, int64_t n) {
  int64_t sum = 0;
  for (; n > 0; n -= kBlockOfProducts, a += kBlockOfProducts, b += kBlockOfProducts) {
    sum += block_dot(a, b, static_cast<ptrdiff_t>(min_of(n, kBlockOfProducts)));
  }
  return sum;
}

// Adds the n 32-bit sums of a block of products (kBlockOfProducts) to the 64-bit sums of earlier blocks. For the first
// block, stores the sums instead of adding them. Both arrays must have memory for n rounded up to a multiple of 4.
inline void add_block(const int32_t *__restrict block, int64_t n, bool is_first, int64_t *__restrict sums) {
  const auto end = static_cast<ptrdiff_t>(n);
  if (is_first) {
#if defined(EDGECORE_MVE)
    return mve_widen(block, static_cast<int32_t>(n), sums);
#endif
    for (ptrdiff_t i = 0; i < end; ++i) sums[i] = block[i];
  } else {
    for (ptrdiff_t i = 0; i < end; ++i) sums[i] += block[i];
  }
}

// Returns sums + a.first * b.first + a.second * b.second for the pair of int16 in each 32-bit lane. Always inlined,
// because a compiler that optimizes for size would make a function call of these few instructions.
__attribute__((always_inline)) inline Sums add_products(Sums sums, Sums a, Sums b) {
#if defined(__AVX512BW__)
  return sums + reinterpret_cast<Sums>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return sums + reinterpret_cast<Sums>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return sums + reinterpret_cast<Sums>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#elif defined(__aarch64__)
  const int16x8_t x = vreinterpretq_s16_s32(reinterpret_cast<int32x4_t>(a));
  const int16x8_t y = vreinterpretq_s16_s32(reinterpret_cast<int32x4_t>(b));
  const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
  return sums + reinterpret_cast<Sums>(vpaddq_s32(low, vmull_high_s16(x, y)));
#elif defined(EDGECORE_DSP)
  for (int i = 0; i < kSumLanes; ++i) sums[i] = __smlad(a[i], b[i], sums[i]);
  return sums;
#else
  return sums + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

#if defined(__AVX2__) || defined(__aarch64__)
// Returns multiply_high(v, multiplier) for each lane. The x86 instruction multiplies only even lanes, so the odd lanes
// are moved to even ones and back.
inline Sums multiply_high(Sums v, int32_t multiplier) {
#if defined(__AVX512F__)
  const __m512i x = reinterpret_cast<__m512i>(v);
  const __m512i factor = _mm512_set1_epi32(multiplier);
  const __m512i half = _mm512_set1_epi64(int64_t{1} << 30);
  const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, factor), half);
  const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), factor), half);
  return reinterpret_cast<Sums>(
      _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 31), _mm512_add_epi64(odd, odd)));
#elif defined(__AVX2__)
  const __m256i x = reinterpret_cast<__m256i>(v);
  const __m256i factor = _mm256_set1_epi32(multiplier);
  const __m256i half = _mm256_set1_epi64x(int64_t{1} << 30);
  const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(x, factor), half);
  const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(x, 32), factor), half);
  return reinterpret_cast<Sums>(_mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_add_epi64(odd, odd), 0xaa));
#else
  return reinterpret_cast<Sums>(vqrdmulhq_n_s32(reinterpret_cast<int32x4_t>(v), multiplier));
#endif
}

// Requantizes sums by a factor of at most 1, in whole vectors: the last n % kSumLanes of the n sums are left to the
// caller. Returns the number of requantized sums.
inline int64_t requantize_vectors(const int32_t *sums, int64_t n, int32_t bias, Factor factor, Range<int8_t> range,
                                  int8_t *out) {
  typedef int8_t Bytes __attribute__((vector_size(kSumLanes)));
  const Sums low = (range.low - range.zero_point) - Sums{};
  const Sums high = (range.high - range.zero_point) - Sums{};
  const int32_t shift = -factor.shift & 31;
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    Sums v = multiply_high(load_vector(sums + i) + bias, factor.multiplier);
    if (shift > 0) v = (v >> shift) + ((v >> (shift - 1)) & 1);
    v = v < low ? low : v;
    v = (v > high ? high : v) + range.zero_point;
    const Bytes bytes = __builtin_convertvector(v, Bytes);
    __builtin_memcpy(out + i, &bytes, sizeof(bytes));
  }
  return i;
}
#endif

// Requantizes n 32-bit sums with one factor. Left and right shifts have separate loops, which compilers can vectorize.
inline void requantize_row(const int32_t *__restrict sums, int64_t n, int32_t bias, Factor factor, Range<int8_t> range,
                           int8_t *__restrict out) {
#if defined(EDGECORE_MVE)
  return mve_requantize(sums, static_cast<int32_t>(n), bias, factor, range, out);
#endif
  ptrdiff_t i = 0;  // ptrdiff_t, because a microcontroller has too few registers for a 64-bit index
  const auto end = static_cast<ptrdiff_t>(n);
  if (factor.shift <= 0) {
#if defined(__AVX2__) || defined(__aarch64__)
    i = static_cast<ptrdiff_t>(requantize_vectors(sums, n, bias, factor, range, out));
#endif
    const int32_t shift = -factor.shift;
    for (; shift > 0 && i < end; ++i) {
      out[i] = range.clamp(shift_right(multiply_high(sums[i] + bias, factor.multiplier), shift));
    }
  }
  for (; i < end; ++i) out[i] = range.clamp(requantize(sums[i] + bias, factor));
}

// Requantizes n 64-bit sums with one factor. Reads n sums, rounded up to a multiple of 4.
inline void requantize_row(const int64_t *__restrict sums, int64_t n, int64_t bias, WideFactor factor,
                           Range<int16_t> limits, int16_t *__restrict out) {
  const int64_t offset = bias * factor.multiplier + half_of(factor.shift);
#if defined(EDGECORE_MVE)
  if (factor.shift > 1) return mve_requantize(sums, static_cast<int32_t>(n), offset, factor, limits, out);
#endif
  // unsigned, because a signed 64-bit product takes longer
  const auto multiplier = static_cast<uint32_t>(factor.multiplier);
  const auto end = static_cast<ptrdiff_t>(n);
  for (ptrdiff_t i = 0; i < end; ++i) {
    out[i] = limits.clamp((sums[i] * static_cast<int64_t>(multiplier) + offset) >> (factor.shift & 63));
  }
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INTEGER_VECTOR_H_
