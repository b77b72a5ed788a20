// Element types of 16 bits: IEEE half precision and bfloat16. Conversions from float round to nearest, ties to even.
#ifndef EDGECORE_HALF_H_
#define EDGECORE_HALF_H_

#include <stdint.h>
#include <string.h>

namespace edgecore {

inline uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// A float16: 1 bit of sign, 5 of exponent, 10 of mantissa.
struct Half {
  uint16_t bits = 0;

  Half() = default;
  Half(float value) {
    const uint32_t sign = float_bits(value) >> 16 & 0x8000;
    const uint32_t magnitude = float_bits(value) & 0x7fffffff;
    uint32_t half;
    if (magnitude > 0x7f800000) {
      half = 0x7e00;  // NaN
    } else if (magnitude >= 0x47800000) {
      half = 0x7c00;  // 65536 and more: infinity
    } else if (magnitude < 0x38800000) {
      // A subnormal float16 is a multiple of 2^-24. Adding 0.5 rounds to a multiple of 2^-24, because float32 numbers
      // from 0.5 to 1 are 2^-24 apart. Subtracting the bits of 0.5 leaves the multiple as an integer, which is the
      // mantissa of the float16.
      half = float_bits(float_of_bits(magnitude) + 0.5F) - 0x3f000000;
    } else {
      half = ((magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13) - (112U << 10);
    }
    bits = static_cast<uint16_t>(sign | half);
  }
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent != 0) return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    const float small = static_cast<float>(mantissa) * float_of_bits(0x33800000);  // times 2^-24
    return sign != 0 ? -small : small;
  }
  static Half from_bits(uint16_t bits) {
    Half half;
    half.bits = bits;
    return half;
  }
};

// A bfloat16: the upper 16 bits of a float32.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  BFloat16(float value) {
    const uint32_t all = float_bits(value);
    const bool is_nan = (all & 0x7fffffff) > 0x7f800000;
    bits = static_cast<uint16_t>(is_nan ? 0x7fc0 : (all + 0x7fff + (all >> 16 & 1)) >> 16);
  }
  operator float() const { return float_of_bits(static_cast<uint32_t>(bits) << 16); }
  static BFloat16 from_bits(uint16_t bits) {
    BFloat16 value;
    value.bits = bits;
    return value;
  }
};

}  // namespace edgecore

#endif  // EDGECORE_HALF_H_
