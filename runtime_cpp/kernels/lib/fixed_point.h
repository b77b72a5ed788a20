// Calculates with quantized values in integer arithmetic only. Every target computes the same bits, because the C code
// rounds like Arm's instructions (vqrdmulh, then vrshl).
#ifndef EDGECORE_KERNELS_FIXED_POINT_H_
#define EDGECORE_KERNELS_FIXED_POINT_H_

#include <stdint.h>

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Size of a block of products. The sum of this many products of an int16 value and an int8 weight always fits into 32
// bits, because 256 * 2^15 * 2^7 = 2^30. Kernels sum each block in 32 bits, with the instructions for int8 values, and
// add the sums of the blocks in 64 bits.
constexpr int64_t kBlockOfProducts = 256;

// The functions below mask shift counts (`shift & 31`), because in a damaged file the result of a kernel may overwrite
// a shift after the shift was checked.

// A real factor as an integer multiplier of kBits bits, in [2^(kBits - 1), 2^kBits), and a shift in [kLow, kHigh].
template <int kBits, int32_t kLow, int32_t kHigh>
struct FixedPoint {
  static constexpr int32_t kMinMultiplier = int32_t{1} << (kBits - 1);
  static constexpr int32_t kMaxMultiplier = kMinMultiplier - 1 + kMinMultiplier;
  static constexpr int32_t kMinShift = kLow;
  static constexpr int32_t kMaxShift = kHigh;

  int32_t multiplier;
  int32_t shift;

  bool is_valid() const {
    return multiplier >= kMinMultiplier && multiplier <= kMaxMultiplier && shift >= kMinShift && shift <= kMaxShift;
  }
};
using Factor = FixedPoint<31, -31, 30>;    // scales sums of 32 bits by multiplier * 2^(shift - 31)
using WideFactor = FixedPoint<16, 1, 62>;  // scales sums of 64 bits by multiplier / 2^shift

// Returns a * b / 2^31, rounded half up. Saturation is not needed, because b is a multiplier and therefore never -2^31.
inline int32_t multiply_high(int32_t a, int32_t b) {
  return static_cast<int32_t>((static_cast<int64_t>(a) * b + (int64_t{1} << 30)) >> 31);
}

// Returns value * 2^shift, saturated to int32, for a shift of 0 to 30.
inline int32_t shift_left(int32_t value, int32_t shift) {
  const int64_t wide = static_cast<int64_t>(value) * (int64_t{1} << (shift & 31));
  return static_cast<int32_t>(wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : wide);
}

// Returns value / 2^shift, rounded half up, for a shift of 1 to 31. Does not compute value + 2^(shift - 1), because
// that sum could overflow.
inline int32_t shift_right(int32_t value, int32_t shift) {
  return (value >> (shift & 31)) + ((value >> ((shift - 1) & 31)) & 1);
}

// Returns value * factor. Rounds twice: the product to 32 bits, then the result to an integer.
inline int32_t requantize(int32_t value, Factor factor) {
  const int32_t product = multiply_high(factor.shift > 0 ? shift_left(value, factor.shift) : value, factor.multiplier);
  return factor.shift < 0 ? shift_right(product, -factor.shift) : product;
}

// Returns half of 2^shift.
inline int64_t half_of(int32_t shift) { return static_cast<int64_t>((uint64_t{1} << (shift & 63)) >> 1); }

// Returns value / 2^shift, rounded half up, for a shift of 1 to 62. The sum value + 2^(shift - 1) must not overflow.
inline int64_t shift_right(int64_t value, int32_t shift) { return (value + half_of(shift)) >> (shift & 63); }

// Returns value * factor, rounded half up. Cannot overflow if the magnitude of `value` is less than 2^46.
inline int64_t requantize(int64_t value, WideFactor factor) {
  return shift_right(value * factor.multiplier, factor.shift);
}

struct ZeroPoint {
  int32_t zero_point;
};
struct NoZeroPoint {
  // A constant 0, so that compilers remove its addition. Has the name of ZeroPoint's member, so that a template can use
  // either struct.
  static constexpr int32_t zero_point = 0;  // NOLINT(readability-identifier-naming)
};

// How kernels calculate with int8 or int16 values: the types of sums, fixed-point factors and zero points, and limits.
template <class Value>
struct Arithmetic;
template <>
struct Arithmetic<int8_t> {
  using Sum = int32_t;  // type of sums, and of the numbers that each channel has (such as biases)
  using FactorType = Factor;
  using ZeroPointType = ZeroPoint;
  // factors of the addends are at most 2^kAddBits, so that sums of the scaled addends fit into 32 bits
  static constexpr int32_t kAddBits = 21;
  static constexpr int32_t kAddShift = 31;  // maximum shift in the requantization of a sum of two scaled values
};
template <>
struct Arithmetic<int16_t> {
  using Sum = int64_t;
  using FactorType = WideFactor;
  using ZeroPointType = NoZeroPoint;
  static constexpr int32_t kAddBits = 30;
  static constexpr int32_t kAddShift = 62;
};
template <class Value>
using SumOf = typename Arithmetic<Value>::Sum;
template <class Value>
using FactorOf = typename Arithmetic<Value>::FactorType;
template <class Value>
using ZeroPointOf = typename Arithmetic<Value>::ZeroPointType;

// The zero point of a quantized result and its lowest and highest value, from the type's range or a fused activation.
template <class Value>
struct Range : ZeroPointOf<Value> {
  static constexpr int32_t kMax = (1 << (8 * sizeof(Value) - 1)) - 1;
  static constexpr int32_t kMin = -kMax - 1;

  int32_t low;
  int32_t high;

  Value clamp(SumOf<Value> value) const {  // clamp before the zero point is added, because the addition could overflow
    const SumOf<Value> limited = value < low - this->zero_point ? low - this->zero_point : value;
    return static_cast<Value>((limited > high - this->zero_point ? high - this->zero_point : limited) +
                              this->zero_point);
  }
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_FIXED_POINT_H_
