// Integer instructions that SIMDe lacks.
#ifndef EDGECORE_EMULATED_INTEGERS_H
#define EDGECORE_EMULATED_INTEGERS_H

// Widens elements of type `from` to type `to`, by zero or sign extension.
#define EDGECORE_EXTENDED(name, result, to, argument, from, elements) \
  EDGECORE_EMULATED result edgecore##name(argument v) {               \
    from x[sizeof(argument) / sizeof(from)];                          \
    to r[elements];                                                   \
    memcpy(x, &v, sizeof(v));                                         \
    for (int i = 0; i < elements; i++) {                              \
      r[i] = (to)x[i];                                                \
    }                                                                 \
    result wide;                                                      \
    memcpy(&wide, r, sizeof(wide));                                   \
    return wide;                                                      \
  }

EDGECORE_EXTENDED(_mm512_cvtepi8_epi32, __m512i, int32_t, __m128i, int8_t, 16)
EDGECORE_EXTENDED(_mm512_cvtepu8_epi32, __m512i, uint32_t, __m128i, uint8_t, 16)
EDGECORE_EXTENDED(_mm512_cvtepu8_epi16, __m512i, uint16_t, __m256i, uint8_t, 32)
EDGECORE_EXTENDED(_mm512_cvtepu32_epi64, __m512i, uint64_t, __m256i, uint32_t, 8)
#undef EDGECORE_EXTENDED

// The shift count is the low 64 bits of `count`; a count of 32 or more leaves only copies of the sign bit.
EDGECORE_EMULATED __m512i edgecore_mm512_sra_epi32(__m512i v, __m128i count) {
  int32_t x[16];
  uint64_t shift;
  memcpy(x, &v, sizeof(x));
  memcpy(&shift, &count, sizeof(shift));
  for (int i = 0; i < 16; i++) {
    x[i] >>= shift > 31 ? 31 : shift;
  }
  memcpy(&v, x, sizeof(x));
  return v;
}

EDGECORE_EMULATED __mmask16 edgecore_mm512_testn_epi32_mask(__m512i a, __m512i b) {
  uint32_t x[16], y[16];
  memcpy(x, &a, sizeof(x));
  memcpy(y, &b, sizeof(y));
  uint32_t k = 0;
  for (int i = 0; i < 16; i++) {
    k |= (uint32_t)((x[i] & y[i]) == 0) << i;
  }
  return (__mmask16)k;
}

EDGECORE_EMULATED int edgecore_mm512_reduce_add_epi32(__m512i v) {
  uint32_t x[16], sum = 0;
  memcpy(x, &v, sizeof(x));
  for (int i = 0; i < 16; i++) {
    sum += x[i];
  }
  return (int)sum;
}

// VPDPBSSD: adds four products of int8 numbers to each int32 element, without saturation.
EDGECORE_EMULATED __m256i edgecore_mm256_dpbssd_epi32(__m256i into, __m256i a, __m256i b) {
  int8_t x[32], y[32];
  uint32_t r[8];
  memcpy(x, &a, sizeof(x));
  memcpy(y, &b, sizeof(y));
  memcpy(r, &into, sizeof(r));
  for (int i = 0; i < 32; i++) {
    r[i / 4] += (uint32_t)((int32_t)x[i] * (int32_t)y[i]);
  }
  memcpy(&into, r, sizeof(r));
  return into;
}

#undef _cvtu32_mask8
#define _cvtu32_mask8(bits) ((__mmask8)(bits))
#undef _cvtu32_mask16
#define _cvtu32_mask16(bits) ((__mmask16)(bits))
#undef _cvtu32_mask32
#define _cvtu32_mask32(bits) ((__mmask32)(bits))
#undef _cvtmask16_u32
#define _cvtmask16_u32(mask) ((uint32_t)(mask))
#undef _cvtu64_mask64
#define _cvtu64_mask64(bits) ((__mmask64)(bits))

#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 edgecore_mm512_cvtepi8_epi32
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 edgecore_mm512_cvtepu8_epi32
#undef _mm512_cvtepu8_epi16
#define _mm512_cvtepu8_epi16 edgecore_mm512_cvtepu8_epi16
#undef _mm512_cvtepu32_epi64
#define _mm512_cvtepu32_epi64 edgecore_mm512_cvtepu32_epi64
#undef _mm512_sra_epi32
#define _mm512_sra_epi32 edgecore_mm512_sra_epi32
#undef _mm512_testn_epi32_mask
#define _mm512_testn_epi32_mask edgecore_mm512_testn_epi32_mask
#undef _mm512_reduce_add_epi32
#define _mm512_reduce_add_epi32 edgecore_mm512_reduce_add_epi32
#undef _mm256_dpbssd_epi32
#define _mm256_dpbssd_epi32 edgecore_mm256_dpbssd_epi32
// AVX-VNNI is the VEX encoding of the instruction VPDPBUSD of AVX512-VNNI, and computes the same result.
#undef _mm256_dpbusd_avx_epi32
#define _mm256_dpbusd_avx_epi32 _mm256_dpbusd_epi32

#endif
