// Arithmetic on quantized values with integers only. Every target computes the same bits: the instructions of Arm
// (vqrdmulh, then vrshl) are defined like the C code here.
#ifndef EDGECORE_KERNELS_FIXED_POINT_H_
#define EDGECORE_KERNELS_FIXED_POINT_H_

#include <stdint.h>

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// A real factor: multiplier * 2^(shift - 31), with a multiplier in [2^30, 2^31) and a shift in [-31, 30].
struct Factor {
  int32_t multiplier;
  int32_t shift;

  bool is_valid() const { return multiplier >= 1 << 30 && shift >= -31 && shift <= 30; }
};

// Returns a * b / 2^31, rounded half up. It needs no saturation, because b is a multiplier and so never -2^31.
inline int32_t multiply_high(int32_t a, int32_t b) {
  return static_cast<int32_t>((static_cast<int64_t>(a) * b + (int64_t{1} << 30)) >> 31);
}

// Returns value * 2^shift for a shift of 0 to 30; saturates.
inline int32_t shift_left(int32_t value, int32_t shift) {
  const int64_t wide = static_cast<int64_t>(value) * (int64_t{1} << shift);
  return static_cast<int32_t>(wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : wide);
}

// Returns value / 2^shift for a shift of 1 to 31, rounded half up. Adding 2^(shift - 1) first could overflow.
inline int32_t shift_right(int32_t value, int32_t shift) { return (value >> shift) + ((value >> (shift - 1)) & 1); }

// Returns value * factor, rounded twice: to 32 bits, and to an integer.
inline int32_t requantize(int32_t value, Factor factor) {
  const int32_t product = multiply_high(factor.shift > 0 ? shift_left(value, factor.shift) : value, factor.multiplier);
  return factor.shift < 0 ? shift_right(product, -factor.shift) : product;
}

// The int8 values of a result: a zero point, and the limits, -128 and 127 or those of a fused activation.
struct Int8Range {
  int32_t zero_point;
  int32_t low;
  int32_t high;

  bool is_valid() const { return -128 <= zero_point && zero_point <= 127 && -128 <= low && low <= high && high <= 127; }
  int8_t clamp(int32_t value) const {  // limits first, because value + zero_point could overflow
    const int32_t limited = value < low - zero_point ? low - zero_point : value;
    return static_cast<int8_t>((limited > high - zero_point ? high - zero_point : limited) + zero_point);
  }
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_FIXED_POINT_H_
