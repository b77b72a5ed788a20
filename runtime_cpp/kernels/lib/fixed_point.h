// Arithmetic on quantized values with integers only. Every target computes the same bits: the instructions of Arm
// (vqrdmulh, then vrshl) are defined like the C code here.
#ifndef EDGECORE_KERNELS_FIXED_POINT_H_
#define EDGECORE_KERNELS_FIXED_POINT_H_

#include <stdint.h>

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Products of int16 values and weights whose sum 32 bits surely hold: 256 * 2^15 * 2^7 = 2^30. A block of them is
// summed with the instructions for int8 values in 32 bits; the sums of blocks are added in 64 bits.
constexpr int64_t kBlockOfProducts = 256;

// Shifts are masked, because the result of a damaged file may overlap the numbers that were checked.

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
  const int64_t wide = static_cast<int64_t>(value) * (int64_t{1} << (shift & 31));
  return static_cast<int32_t>(wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : wide);
}

// Returns value / 2^shift for a shift of 1 to 31, rounded half up. Adding 2^(shift - 1) first could overflow.
inline int32_t shift_right(int32_t value, int32_t shift) {
  return (value >> (shift & 31)) + ((value >> ((shift - 1) & 31)) & 1);
}

// Returns value * factor, rounded twice: to 32 bits, and to an integer.
inline int32_t requantize(int32_t value, Factor factor) {
  const int32_t product = multiply_high(factor.shift > 0 ? shift_left(value, factor.shift) : value, factor.multiplier);
  return factor.shift < 0 ? shift_right(product, -factor.shift) : product;
}

// The int8 values of a result: a zero point, and the limits, which are -128 and 127 or come from a fused activation.
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

// A real factor of results of 16 bits: multiplier / 2^shift, with a multiplier in [2^15, 2^16) and a shift in [1, 62].
struct WideFactor {
  int32_t multiplier;
  int32_t shift;

  int64_t half() const { return static_cast<int64_t>((uint64_t{1} << (shift & 63)) >> 1); }  // of 2^shift
  bool is_valid() const { return multiplier >= 1 << 15 && multiplier < 1 << 16 && shift >= 1 && shift <= 62; }
};

// Returns value * factor, rounded half up, for a value of less than 2^46 in magnitude: nothing overflows.
inline int64_t requantize(int64_t value, WideFactor factor) {
  return (value * factor.multiplier + factor.half()) >> (factor.shift & 63);
}

// The int16 values of a result, whose zero point is 0: the limits, which are -32768 and 32767 or come from a fused
// activation.
struct Int16Limits {
  int32_t low;
  int32_t high;

  bool is_valid() const { return INT16_MIN <= low && low <= high && high <= INT16_MAX; }
  int16_t clamp(int64_t value) const { return static_cast<int16_t>(value < low ? low : value > high ? high : value); }
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_FIXED_POINT_H_
