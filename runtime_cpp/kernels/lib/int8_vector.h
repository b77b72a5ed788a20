// SIMD vectors of pairs of int16: an instruction multiplies two pairs and adds both products to a 32-bit sum.
#ifndef EDGECORE_KERNELS_INT8_VECTOR_H_
#define EDGECORE_KERNELS_INT8_VECTOR_H_

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "lib/vector.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

using Sums = Vector<int32_t>;
constexpr int kSumLanes = kLanes<int32_t>;

// A pair of int16 as the 32 bits that it has in memory.
inline int32_t load_pair(const int16_t *source) {
  int32_t pair;
  __builtin_memcpy(&pair, source, sizeof(pair));
  return pair;
}

// Returns kSumLanes int8 as 32-bit integers. These functions name the size of a vector, because the compiler's own
// choice is made for longer loops than ours.
inline Sums widen(const int8_t *source) {
  typedef int8_t Bytes __attribute__((vector_size(kSumLanes)));
  Bytes bytes;
  __builtin_memcpy(&bytes, source, sizeof(bytes));
  return __builtin_convertvector(bytes, Sums);
}

// Vectors of kCount integers. GCC drops the attribute of a type in a function when the size depends on a template.
template <int kCount>
struct Block {
  typedef int8_t Bytes __attribute__((vector_size(kCount)));
  typedef int16_t Halves __attribute__((vector_size(2 * kCount)));
};

// Copies kCount int8 as int16.
template <int kCount>
inline void widen_block(const int8_t *source, int16_t *target) {
  using Halves = typename Block<kCount>::Halves;
  typename Block<kCount>::Bytes bytes;
  __builtin_memcpy(&bytes, source, sizeof(bytes));
  const Halves halves = __builtin_convertvector(bytes, Halves);
  __builtin_memcpy(target, &halves, sizeof(halves));
}

// Returns sums + a.first * b.first + a.second * b.second for each lane.
inline Sums add_products(Sums sums, Sums a, Sums b) {
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
#else
  return sums + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INT8_VECTOR_H_
