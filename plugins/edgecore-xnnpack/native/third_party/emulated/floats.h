// fp32 instructions that SIMDe lacks, or for which it gives other results than the instruction.
#ifndef EDGECORE_EMULATED_FLOATS_H
#define EDGECORE_EMULATED_FLOATS_H

#include <math.h>

EDGECORE_EMULATED __m512 edgecore_mm512_zextps128_ps512(__m128 v) {
  __m512 r = _mm512_setzero_ps();
  memcpy(&r, &v, sizeof(v));
  return r;
}

// Adds the upper half of the vector to the lower half, then the same with 8, 4 and 2 elements. Compilers implement this
// intrinsic in the same order, so the rounding is the same.
EDGECORE_EMULATED float edgecore_mm512_reduce_add_ps(__m512 v) {
  float x[16];
  memcpy(x, &v, sizeof(x));
  for (int count = 8; count != 0; count /= 2) {
    for (int i = 0; i < count; i++) {
      x[i] += x[i + count];
    }
  }
  return x[0];
}

EDGECORE_EMULATED __m256 edgecore_mm256_mask_add_ps(__m256 otherwise, __mmask8 k, __m256 a, __m256 b) {
  float x[8], sum[8];
  const __m256 added = _mm256_add_ps(a, b);
  memcpy(x, &otherwise, sizeof(x));
  memcpy(sum, &added, sizeof(sum));
  for (int i = 0; i < 8; i++) {
    x[i] = (k >> i) & 1 ? sum[i] : x[i];
  }
  memcpy(&otherwise, x, sizeof(x));
  return otherwise;
}

#define EDGECORE_EACH(name, function)                 \
  EDGECORE_EMULATED __m512 edgecore##name(__m512 v) { \
    float x[16];                                      \
    memcpy(x, &v, sizeof(x));                         \
    for (int i = 0; i < 16; i++) {                    \
      x[i] = function(x[i]);                          \
    }                                                 \
    memcpy(&v, x, sizeof(x));                         \
    return v;                                         \
  }

// Rounds the result of an approximation to 15 bits, nearest, ties up: a relative error of at most 2^-15. The
// instructions promise a relative error below 2^-14. Exact results would hide errors in a kernel's refinement of the
// approximation (Newton's method), so the emulation must not be exact. Zeros, denormals, infinities and NaN are not
// changed.
EDGECORE_EMULATED float edgecore_15_bits(float exact) {
  if (!isnormal(exact)) {
    return exact;
  }
  uint32_t bits;
  memcpy(&bits, &exact, sizeof(bits));
  bits = (bits + 0x100u) & ~0x1FFu;
  memcpy(&exact, &bits, sizeof(bits));
  return exact;
}

EDGECORE_EMULATED float edgecore_rcp14(float x) { return edgecore_15_bits(1.0f / x); }

EDGECORE_EMULATED float edgecore_rsqrt14(float x) { return edgecore_15_bits((float)(1.0 / sqrt((double)x))); }

EDGECORE_EMULATED float edgecore_getexp(float x) {
  return isnan(x) ? x : x == 0.0f ? -INFINITY : isinf(x) ? INFINITY : (float)ilogbf(x);
}

EDGECORE_EACH(_mm512_rcp14_ps, edgecore_rcp14)
EDGECORE_EACH(_mm512_rsqrt14_ps, edgecore_rsqrt14)
EDGECORE_EACH(_mm512_getexp_ps, edgecore_getexp)
#undef EDGECORE_EACH

// Returns a * 2^floor(b), rounded once. A product of two floats would be wrong if 2^floor(b) overflows or is denormal
// although the result is a normal number. The exponent is limited to [-1000, 1000]: at both limits, every result is 0
// or infinite already.
EDGECORE_EMULATED float edgecore_scalef(float a, float b) {
  if (isnan(b)) {
    return isnan(a) ? a : b;
  }
  if (isinf(b)) {
    if (b > 0.0f) {
      return a == 0.0f ? NAN : isnan(a) ? INFINITY : copysignf(INFINITY, a);
    }
    return isinf(a) ? NAN : isnan(a) ? 0.0f : copysignf(0.0f, a);
  }
  const float exponent = floorf(b);
  return ldexpf(a, exponent > 1000.0f ? 1000 : exponent < -1000.0f ? -1000 : (int)exponent);
}

EDGECORE_EMULATED __m512 edgecore_mm512_scalef_ps(__m512 a, __m512 b) {
  float x[16], y[16];
  memcpy(x, &a, sizeof(x));
  memcpy(y, &b, sizeof(y));
  for (int i = 0; i < 16; i++) {
    x[i] = edgecore_scalef(x[i], y[i]);
  }
  memcpy(&a, x, sizeof(x));
  return a;
}

#undef _mm512_zextps128_ps512
#define _mm512_zextps128_ps512 edgecore_mm512_zextps128_ps512
#undef _mm512_reduce_add_ps
#define _mm512_reduce_add_ps edgecore_mm512_reduce_add_ps
#undef _mm256_mask_add_ps
#define _mm256_mask_add_ps edgecore_mm256_mask_add_ps
#undef _mm512_rcp14_ps
#define _mm512_rcp14_ps edgecore_mm512_rcp14_ps
#undef _mm512_rsqrt14_ps
#define _mm512_rsqrt14_ps edgecore_mm512_rsqrt14_ps
#undef _mm512_getexp_ps
#define _mm512_getexp_ps edgecore_mm512_getexp_ps
#undef _mm512_scalef_ps
#define _mm512_scalef_ps edgecore_mm512_scalef_ps

#endif
