// AVX512-FP16: arithmetic in wider formats, with the same results as the instructions, which round once.
//
// The sum, difference, product or quotient of two fp16 numbers is computed in fp32 and rounded to fp16. This rounds
// twice, but the result equals the exact result rounded once: this holds for each of the four operations if the wider
// format has at least 2 * p + 2 bits of precision, where p is the precision of the narrow format. Here p is 11, and
// fp32 has 24 bits.
#ifndef EDGECORE_EMULATED_FP16_H
#define EDGECORE_EMULATED_FP16_H

EDGECORE_EMULATED float edgecore_fp16_to_fp32(uint16_t x) { return _cvtsh_ss(x); }

EDGECORE_EMULATED uint16_t edgecore_fp32_to_fp16(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }

// Returns a * b + c, rounded once. In double the product is exact: it has 22 bits. The sum is exact too, unless one of
// its two numbers is so small that it cannot change the fp16 result. The double is then rounded to fp32 by "rounding to
// odd": if the sum is not an fp32 number, it is truncated and the last bit is set to 1. So an inexact sum never looks
// like a tie between two fp16 numbers, and the final rounding to fp16 gives the same result as a single rounding.
EDGECORE_EMULATED uint16_t edgecore_fp16_fma(uint16_t a, uint16_t b, uint16_t c) {
  const double sum = (double)edgecore_fp16_to_fp32(a) * edgecore_fp16_to_fp32(b) + edgecore_fp16_to_fp32(c);
  float x = (float)sum;
  if (x != sum && !isnan(sum)) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    bits -= fabs((double)x) > fabs(sum);
    bits |= 1;
    memcpy(&x, &bits, sizeof(x));
  }
  return edgecore_fp32_to_fp16(x);
}

// Like the instructions, max and min return the second operand if both operands are zeros, or if either is NaN.
#define EDGECORE_FP16_add(a, b) edgecore_fp32_to_fp16(edgecore_fp16_to_fp32(a) + edgecore_fp16_to_fp32(b))
#define EDGECORE_FP16_sub(a, b) edgecore_fp32_to_fp16(edgecore_fp16_to_fp32(a) - edgecore_fp16_to_fp32(b))
#define EDGECORE_FP16_mul(a, b) edgecore_fp32_to_fp16(edgecore_fp16_to_fp32(a) * edgecore_fp16_to_fp32(b))
#define EDGECORE_FP16_div(a, b) edgecore_fp32_to_fp16(edgecore_fp16_to_fp32(a) / edgecore_fp16_to_fp32(b))
#define EDGECORE_FP16_max(a, b) (edgecore_fp16_to_fp32(a) > edgecore_fp16_to_fp32(b) ? (a) : (b))
#define EDGECORE_FP16_min(a, b) (edgecore_fp16_to_fp32(a) < edgecore_fp16_to_fp32(b) ? (a) : (b))

// An operation with a mask: elements without a bit in `k` are those of `otherwise`.
#define EDGECORE_FP16_BINARY(operation, name, type, elements)                         \
  EDGECORE_EMULATED type edgecore##name(type otherwise, uint32_t k, type a, type b) { \
    uint16_t x[sizeof(type) / 2], y[sizeof(type) / 2], r[sizeof(type) / 2];           \
    memcpy(x, &a, sizeof(x));                                                         \
    memcpy(y, &b, sizeof(y));                                                         \
    memcpy(r, &otherwise, sizeof(r));                                                 \
    for (int i = 0; i < elements; i++) {                                              \
      r[i] = (k >> i) & 1 ? EDGECORE_FP16_##operation(x[i], y[i]) : r[i];             \
    }                                                                                 \
    memcpy(&a, r, sizeof(r));                                                         \
    return a;                                                                         \
  }

EDGECORE_FP16_BINARY(add, _mm512_mask_add_ph, __m512h, 32)
EDGECORE_FP16_BINARY(sub, _mm512_mask_sub_ph, __m512h, 32)
EDGECORE_FP16_BINARY(mul, _mm512_mask_mul_ph, __m512h, 32)
EDGECORE_FP16_BINARY(div, _mm512_mask_div_ph, __m512h, 32)
EDGECORE_FP16_BINARY(max, _mm512_mask_max_ph, __m512h, 32)
EDGECORE_FP16_BINARY(min, _mm512_mask_min_ph, __m512h, 32)
EDGECORE_FP16_BINARY(max, _mm256_mask_max_ph, __m256h, 16)
EDGECORE_FP16_BINARY(min, _mm256_mask_min_ph, __m256h, 16)
EDGECORE_FP16_BINARY(max, _mm_mask_max_ph, __m128h, 8)
EDGECORE_FP16_BINARY(min, _mm_mask_min_ph, __m128h, 8)
#undef EDGECORE_FP16_BINARY

EDGECORE_EMULATED __m512h edgecore_mm512_fmadd_ph(__m512h a, __m512h b, __m512h c) {
  uint16_t x[32], y[32], z[32];
  memcpy(x, &a, sizeof(x));
  memcpy(y, &b, sizeof(y));
  memcpy(z, &c, sizeof(z));
  for (int i = 0; i < 32; i++) {
    z[i] = edgecore_fp16_fma(x[i], y[i], z[i]);
  }
  memcpy(&c, z, sizeof(z));
  return c;
}

// Comparisons in fp32: widening is exact, so the result is the same.
#define EDGECORE_FP16_COMPARE(a, b, predicate)                                                                  \
  ((__mmask32)((uint32_t)_mm512_cmp_ps_mask(edgecore_fp16_part_to_fp32(a, 0), edgecore_fp16_part_to_fp32(b, 0), \
                                            predicate) |                                                        \
               (uint32_t)_mm512_cmp_ps_mask(edgecore_fp16_part_to_fp32(a, 1), edgecore_fp16_part_to_fp32(b, 1), \
                                            predicate)                                                          \
                   << 16))

// Converts the lower or upper 16 elements to fp32.
EDGECORE_EMULATED __m512 edgecore_fp16_part_to_fp32(__m512h v, int upper) {
  uint16_t x[32];
  float r[16];
  memcpy(x, &v, sizeof(x));
  for (int i = 0; i < 16; i++) {
    r[i] = edgecore_fp16_to_fp32(x[16 * upper + i]);
  }
  __m512 wide;
  memcpy(&wide, r, sizeof(wide));
  return wide;
}

#define EDGECORE_CAST(name, result, argument)           \
  EDGECORE_EMULATED result edgecore##name(argument v) { \
    result r;                                           \
    memcpy(&r, &v, sizeof(r));                          \
    return r;                                           \
  }
EDGECORE_CAST(_mm512_castph_si512, __m512i, __m512h)
EDGECORE_CAST(_mm512_castsi512_ph, __m512h, __m512i)
EDGECORE_CAST(_mm512_castph_pd, __m512d, __m512h)
EDGECORE_CAST(_mm512_castph512_ph256, __m256h, __m512h)
EDGECORE_CAST(_mm256_castpd_ph, __m256h, __m256d)
EDGECORE_CAST(_mm256_castph_ps, __m256, __m256h)
EDGECORE_CAST(_mm256_castph256_ph128, __m128h, __m256h)
EDGECORE_CAST(_mm_castph_ps, __m128, __m128h)
EDGECORE_CAST(_mm_castps_ph, __m128h, __m128)
EDGECORE_CAST(_mm_castph_si128, __m128i, __m128h)
EDGECORE_CAST(_mm_castsi128_ph, __m128h, __m128i)
#undef EDGECORE_CAST

EDGECORE_EMULATED __m512h edgecore_mm512_loadu_ph(const void *from) {
  __m512h r;
  memcpy(&r, from, sizeof(r));
  return r;
}

EDGECORE_EMULATED void edgecore_mm512_storeu_ph(void *to, __m512h v) { memcpy(to, &v, sizeof(v)); }

EDGECORE_EMULATED __m512h edgecore_mm512_setzero_ph(void) {
  __m512h r;
  memset(&r, 0, sizeof(r));
  return r;
}

EDGECORE_EMULATED __m512 edgecore_mm512_cvtph_ps(__m256i v) {
  const __m256 parts[2] = {_mm256_cvtph_ps(_mm256_castsi256_si128(v)), _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1))};
  __m512 r;
  memcpy(&r, parts, sizeof(r));
  return r;
}

EDGECORE_EMULATED __m256 edgecore_lower_or_upper(__m512 v, int upper) {
  __m256 parts[2];
  memcpy(parts, &v, sizeof(parts));
  return parts[upper];
}

#undef _mm512_add_ph
#define _mm512_add_ph(a, b) edgecore_mm512_mask_add_ph(a, ~0u, a, b)
#undef _mm512_sub_ph
#define _mm512_sub_ph(a, b) edgecore_mm512_mask_sub_ph(a, ~0u, a, b)
#undef _mm512_mul_ph
#define _mm512_mul_ph(a, b) edgecore_mm512_mask_mul_ph(a, ~0u, a, b)
#undef _mm512_div_ph
#define _mm512_div_ph(a, b) edgecore_mm512_mask_div_ph(a, ~0u, a, b)
#undef _mm512_max_ph
#define _mm512_max_ph(a, b) edgecore_mm512_mask_max_ph(a, ~0u, a, b)
#undef _mm512_min_ph
#define _mm512_min_ph(a, b) edgecore_mm512_mask_min_ph(a, ~0u, a, b)
#undef _mm512_maskz_add_ph
#define _mm512_maskz_add_ph(k, a, b) edgecore_mm512_mask_add_ph(edgecore_mm512_setzero_ph(), k, a, b)
#undef _mm512_maskz_sub_ph
#define _mm512_maskz_sub_ph(k, a, b) edgecore_mm512_mask_sub_ph(edgecore_mm512_setzero_ph(), k, a, b)
#undef _mm512_maskz_mul_ph
#define _mm512_maskz_mul_ph(k, a, b) edgecore_mm512_mask_mul_ph(edgecore_mm512_setzero_ph(), k, a, b)
#undef _mm512_maskz_div_ph
#define _mm512_maskz_div_ph(k, a, b) edgecore_mm512_mask_div_ph(edgecore_mm512_setzero_ph(), k, a, b)
#undef _mm512_maskz_max_ph
#define _mm512_maskz_max_ph(k, a, b) edgecore_mm512_mask_max_ph(edgecore_mm512_setzero_ph(), k, a, b)
#undef _mm512_maskz_min_ph
#define _mm512_maskz_min_ph(k, a, b) edgecore_mm512_mask_min_ph(edgecore_mm512_setzero_ph(), k, a, b)
#undef _mm512_mask_mul_ph
#define _mm512_mask_mul_ph edgecore_mm512_mask_mul_ph
#undef _mm512_mask_max_ph
#define _mm512_mask_max_ph edgecore_mm512_mask_max_ph
#undef _mm512_mask_min_ph
#define _mm512_mask_min_ph edgecore_mm512_mask_min_ph
#undef _mm256_max_ph
#define _mm256_max_ph(a, b) edgecore_mm256_mask_max_ph(a, ~0u, a, b)
#undef _mm256_min_ph
#define _mm256_min_ph(a, b) edgecore_mm256_mask_min_ph(a, ~0u, a, b)
#undef _mm_max_ph
#define _mm_max_ph(a, b) edgecore_mm_mask_max_ph(a, ~0u, a, b)
#undef _mm_min_ph
#define _mm_min_ph(a, b) edgecore_mm_mask_min_ph(a, ~0u, a, b)
// max and min of the first element; the other elements are those of the first operand.
#undef _mm_max_sh
#define _mm_max_sh(a, b) edgecore_mm_mask_max_ph(a, 1u, a, b)
#undef _mm_min_sh
#define _mm_min_sh(a, b) edgecore_mm_mask_min_ph(a, 1u, a, b)
#undef _mm512_fmadd_ph
#define _mm512_fmadd_ph edgecore_mm512_fmadd_ph
#undef _mm512_cmp_ph_mask
#define _mm512_cmp_ph_mask EDGECORE_FP16_COMPARE

#undef _mm512_castph_si512
#define _mm512_castph_si512 edgecore_mm512_castph_si512
#undef _mm512_castsi512_ph
#define _mm512_castsi512_ph edgecore_mm512_castsi512_ph
#undef _mm512_castph_pd
#define _mm512_castph_pd edgecore_mm512_castph_pd
#undef _mm512_castph512_ph256
#define _mm512_castph512_ph256 edgecore_mm512_castph512_ph256
#undef _mm256_castpd_ph
#define _mm256_castpd_ph edgecore_mm256_castpd_ph
#undef _mm256_castph_ps
#define _mm256_castph_ps edgecore_mm256_castph_ps
#undef _mm256_castph256_ph128
#define _mm256_castph256_ph128 edgecore_mm256_castph256_ph128
#undef _mm_castph_ps
#define _mm_castph_ps edgecore_mm_castph_ps
#undef _mm_castps_ph
#define _mm_castps_ph edgecore_mm_castps_ph
#undef _mm_castph_si128
#define _mm_castph_si128 edgecore_mm_castph_si128
#undef _mm_castsi128_ph
#define _mm_castsi128_ph edgecore_mm_castsi128_ph

#undef _mm512_loadu_ph
#define _mm512_loadu_ph edgecore_mm512_loadu_ph
#undef _mm512_storeu_ph
#define _mm512_storeu_ph edgecore_mm512_storeu_ph
#undef _mm512_setzero_ph
#define _mm512_setzero_ph edgecore_mm512_setzero_ph

#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps edgecore_mm512_cvtph_ps
// The rounding mode is an immediate of the instruction. Its bit 3 (suppress exceptions) does not exist in the immediate
// of the AVX instruction used here, so `& 7` clears it.
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(v, rounding)                                                                            \
  _mm256_inserti128_si256(_mm256_castsi128_si256(_mm256_cvtps_ph(edgecore_lower_or_upper(v, 0), (rounding)&7)), \
                          _mm256_cvtps_ph(edgecore_lower_or_upper(v, 1), (rounding)&7), 1)

#endif
