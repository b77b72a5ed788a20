// Elementary functions. The float versions of exp, log, tanh and erf have no branches and call no function, so that
// loops over them vectorize on every instruction set, unlike loops that call libm. Their maximum errors in ulp, over
// every 37th float, are: exp 1.0, log 0.8, tanh 1.3, erf 3.1, with and without fused multiply-add. Their polynomials
// interpolate at Chebyshev nodes. The double versions call libm.
#ifndef EDGECORE_KERNELS_MATH_H_
#define EDGECORE_KERNELS_MATH_H_

#include <stdint.h>

#include "lib/types.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

inline float float_of_bits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Functions are always inlined, because a call would prevent the vectorization of the caller's loop.
#define EDGECORE_INLINE __attribute__((always_inline)) inline

constexpr float kInfinity = __builtin_inff();
constexpr float kNaN = __builtin_nanf("");

// Computes exp(x) = 2^n exp(r) with n = round(x / log(2)) and r = x - n log(2), so |r| <= log(2) / 2. A polynomial p
// approximates exp(r) = 1 + r + r^2 p(r). To round without a rounding instruction (SSE2 has none), add 1.5 * 2^23:
// floats in [2^23, 2^24) are integers, so the low bits of the sum are n. log(2) is subtracted in two parts, the first
// with so few bits that its product with n is exact. x is clamped to [-105, 89]; at these limits the result is 0 or
// infinity. NaN passes the clamps and stays NaN. Subnormal results are rounded once, by the last multiplication.
EDGECORE_INLINE float exp_of(float x) {
  const float magic = 12582912.0f;
  float c = x < -105.0f ? -105.0f : x;
  c = c > 89.0f ? 89.0f : c;
  const float shifted = c * 1.44269504f + magic;
  const int32_t n = static_cast<int32_t>(bits_of_float(shifted) - bits_of_float(magic));
  const float n_float = shifted - magic;
  float r = c - n_float * 0.693359375f;
  r = r + n_float * 2.12194440e-4f;
  float p = 1.989198e-04f;
  p = p * r + 1.3934541e-03f;
  p = p * r + 8.3333105e-03f;
  p = p * r + 4.1666456e-02f;
  p = p * r + 1.6666667e-01f;
  p = p * r + 0.5f;
  const float y = p * (r * r) + r + 1.0f;
  // Scale by 2^n in two steps, because 2^n itself is out of range if the result is subnormal or infinite.
  const int32_t n1 = n >> 1;
  const float factor1 = float_of_bits(static_cast<uint32_t>(n1 + 127) << 23);
  const float factor2 = float_of_bits(static_cast<uint32_t>(n - n1 + 127) << 23);
  return y * factor1 * factor2;
}

// Computes log(x) = e log(2) + log(1 + m). The bits of x give e and m with x = 2^e (1 + m) and 1 + m in [sqrt(1/2),
// sqrt(2)). A polynomial p approximates log(1 + m) = m - m^2 / 2 + m^3 p(m). log(2) is added in two parts, as in
// exp_of. Subnormals are scaled by 2^23 first. log(0) and log(-0) are -infinity, log of a negative number is NaN;
// infinity and NaN are returned as they are.
EDGECORE_INLINE float log_of(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = subnormal ? x * 8388608.0f : x;
  const uint32_t bits = bits_of_float(scaled);
  float e = static_cast<float>(static_cast<int32_t>(bits >> 23) - 126) - (subnormal ? 23.0f : 0.0f);
  float m = float_of_bits((bits & 0x007fffff) | 0x3f000000);  // a number in [0.5, 1) with the mantissa of x
  const bool low = m < 0.707106781f;
  e = low ? e - 1.0f : e;
  m = low ? m + m - 1.0f : m - 1.0f;
  float p = 6.971612e-02f;
  p = p * m - 1.1479734e-01f;
  p = p * m + 1.168542e-01f;
  p = p * m - 1.2425687e-01f;
  p = p * m + 1.4249058e-01f;
  p = p * m - 1.6667803e-01f;
  p = p * m + 2.0000716e-01f;
  p = p * m - 2.4999997e-01f;
  p = p * m + 3.333333e-01f;
  const float square = m * m;
  float y = p * (square * m) - e * 2.12194440e-4f;
  y = y - 0.5f * square;
  float result = m + y + e * 0.693359375f;
  result = x == 0.0f ? -kInfinity : result;
  result = x < 0.0f ? kNaN : result;
  return x < kInfinity ? result : x;
}

// Computes tanh(x) by one of two formulas. For |x| < 0.625 it is x + x^3 p(x^2) with a polynomial p, because the other
// formula loses precision near 0. Otherwise tanh(|x|) = 1 - 2 / (exp(2 |x|) + 1), which is 1 when exp overflows to
// infinity. NaN fails both comparisons and stays NaN; subnormals are returned unchanged.
EDGECORE_INLINE float tanh_of(float x) {
  const float a = x < 0.0f ? -x : x;
  const float z = x * x;
  float p = -6.096714e-03f;
  p = p * z + 2.099718e-02f;
  p = p * z - 5.3850908e-02f;
  p = p * z + 1.333277e-01f;
  p = p * z - 3.3333328e-01f;
  const float small = p * (z * x) + x;
  const float large = 1.0f - 2.0f / (exp_of(a + a) + 1.0f);
  return a < 0.625f ? small : x < 0.0f ? -large : large;
}

// Computes erf(x) with polynomials p and q. For |x| < 1 it is x p(x^2). Otherwise erf(|x|) = 1 - exp(-a^2) / a * q(1 /
// a^2) with a = |x|; for infinity this is 1. To avoid a branch, both formulas are computed and one result is selected;
// at x = 0 the second one is NaN and not selected. NaN stays NaN.
EDGECORE_INLINE float erf_of(float x) {
  const float a = x < 0.0f ? -x : x;
  const float z = x * x;
  float p = 7.875875e-05f;
  p = p * z - 8.0168643e-04f;
  p = p * z + 5.1890872e-03f;
  p = p * z - 2.6854211e-02f;
  p = p * z + 1.1283594e-01f;
  p = p * z - 3.7612626e-01f;
  p = p * z + 1.1283791e+00f;
  const float inverse = 1.0f / a;
  const float t = inverse * inverse;
  float q = -1.0989478e-01f;
  q = q * t + 6.1621094e-01f;
  q = q * t - 1.520537e+00f;
  q = q * t + 2.1899066e+00f;
  q = q * t - 2.074723e+00f;
  q = q * t + 1.4076343e+00f;
  q = q * t - 7.6078594e-01f;
  q = q * t + 3.9630204e-01f;
  q = q * t - 2.8068858e-01f;
  q = q * t + 5.641588e-01f;
  const float large = 1.0f - exp_of(-z) * inverse * q;
  return a < 1.0f ? x * p : x < 0.0f ? -large : large;
}

#undef EDGECORE_INLINE

inline double exp_of(double x) { return __builtin_exp(x); }
inline double log_of(double x) { return __builtin_log(x); }
inline double tanh_of(double x) { return __builtin_tanh(x); }
inline double erf_of(double x) { return __builtin_erf(x); }

// Functions of libm, overloaded for float and double.
#define EDGECORE_LIBM(name)                                          \
  inline float name##_of(float x) { return __builtin_##name##f(x); } \
  inline double name##_of(double x) { return __builtin_##name(x); }
EDGECORE_LIBM(acos)
EDGECORE_LIBM(acosh)
EDGECORE_LIBM(asin)
EDGECORE_LIBM(asinh)
EDGECORE_LIBM(atan)
EDGECORE_LIBM(atanh)
EDGECORE_LIBM(ceil)
EDGECORE_LIBM(cosh)
EDGECORE_LIBM(expm1)
EDGECORE_LIBM(floor)
EDGECORE_LIBM(log10)
EDGECORE_LIBM(log1p)
EDGECORE_LIBM(log2)
EDGECORE_LIBM(rint)
EDGECORE_LIBM(sinh)
EDGECORE_LIBM(sqrt)
EDGECORE_LIBM(tan)
EDGECORE_LIBM(trunc)
#undef EDGECORE_LIBM
inline float pow_of(float x, float y) { return __builtin_powf(x, y); }
inline double pow_of(double x, double y) { return __builtin_pow(x, y); }
inline float fmod_of(float x, float y) { return __builtin_fmodf(x, y); }
inline double fmod_of(double x, double y) { return __builtin_fmod(x, y); }
inline float atan2_of(float y, float x) { return __builtin_atan2f(y, x); }
inline double atan2_of(double y, double x) { return __builtin_atan2(y, x); }

template <class C>
inline bool is_nan(C x) {
  return x != x;
}
template <>
inline bool is_nan(int64_t) {
  return false;
}

// nan_max and nan_min return the larger and the smaller of two values; NaN if one of them is NaN.
template <class C>
inline C nan_max(C a, C b) {
  return a > b || is_nan(a) ? a : b;
}
template <class C>
inline C nan_min(C a, C b) {
  return a < b || is_nan(a) ? a : b;
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_MATH_H_
