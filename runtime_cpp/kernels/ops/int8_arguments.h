// Arguments of the operators on int8 and int16 values: tensors of a required dtype, and fixed-point factors.
#ifndef EDGECORE_KERNELS_INT8_ARGUMENTS_H_
#define EDGECORE_KERNELS_INT8_ARGUMENTS_H_

#include "lib/int8_vector.h"
#include "ops/index.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Returns the elements of a tensor of int8 or int16 in row-major order; NULL after a failure.
template <class Element>
const Element *elements(Call &call, Tensor t) {
  constexpr bool kIsInt8 = sizeof(Element) == 1;
  if (call.failed() || !call.check(t.type() == (kIsInt8 ? Type::kI8 : Type::kI16),
                                   kIsInt8 ? "the values must be int8" : "the values must be int16"))
    return nullptr;
  return reinterpret_cast<const Element *>(dense_bytes(call, t));
}
inline const int8_t *int8_elements(Call &call, Tensor t) { return elements<int8_t>(call, t); }
inline const int16_t *int16_elements(Call &call, Tensor t) { return elements<int16_t>(call, t); }

// Records a failure if `out` has another dtype than int8 or int16. Returns false after a failure.
template <class Element>
bool check_result(Call &call, Tensor out) {
  constexpr bool kIsInt8 = sizeof(Element) == 1;
  return call.check(out.type() == (kIsInt8 ? Type::kI8 : Type::kI16),
                    kIsInt8 ? "out must be int8" : "out must be int16");
}

// Returns argument i if it is from `low` to `high`; else records a failure and returns `low`.
inline int32_t int_between(Call &call, uint64_t i, int64_t low, int64_t high) {
  const int64_t value = call.integer(i);
  if (value >= low && value <= high) return static_cast<int32_t>(value);
  Message text;
  call.fail(EDGECORE_INVALID_ARGUMENT, text << "argument " << static_cast<int64_t>(i) << " is " << value << ", not in ["
                                            << low << ", " << high << "]");
  return static_cast<int32_t>(low);
}
inline int32_t zero_point_at(Call &call, uint64_t i) { return int_between(call, i, -128, 127); }

// Returns the multiplier and the shift that are arguments i and i + 1.
inline Factor factor_at(Call &call, uint64_t i) {
  return {int_between(call, i, 1 << 30, INT32_MAX), int_between(call, i + 1, -31, 30)};
}

// Returns the zero point and the limits of the result that are arguments i to i + 2.
inline Int8Range range_at(Call &call, uint64_t i) {
  const Int8Range range = {zero_point_at(call, i), zero_point_at(call, i + 1), zero_point_at(call, i + 2)};
  call.check(range.is_valid(), "the lower limit of the result must not be above the upper one");
  return range;
}

// Returns the multiplier and the shift that are arguments i and i + 1 of an operator on int16 values.
inline WideFactor wide_factor_at(Call &call, uint64_t i) {
  return {int_between(call, i, 1 << 15, (1 << 16) - 1), int_between(call, i + 1, 1, 62)};
}

// Returns the limits of an int16 result that are arguments i and i + 1.
inline Int16Limits limits_at(Call &call, uint64_t i) {
  const Int16Limits limits = {int_between(call, i, INT16_MIN, INT16_MAX),
                              int_between(call, i + 1, INT16_MIN, INT16_MAX)};
  call.check(limits.is_valid(), "the lower limit of the result must not be above the upper one");
  return limits;
}

// The factor and the bias of each output channel of a layer of values.
template <class Value>
struct Channels {
  using Number = SumOf<Value>;
  using FactorType = typename TypesOf<Value>::FactorType;

  const Number *biases = nullptr;
  const Number *multipliers = nullptr;
  const Number *shifts = nullptr;

  // Reads argument i, int32 or int64 [3, count]: biases, multipliers, shifts. One tensor instead of three saves a
  // microcontroller the memory that the runtime needs for a tensor.
  Channels(Call &call, uint64_t i, int64_t count) {
    constexpr bool kIsInt8 = sizeof(Value) == 1;
    const Tensor t = call.tensor(i);
    if (call.failed() ||
        !call.check(
            t.type() == (kIsInt8 ? Type::kI32 : Type::kI64) && t.ndim() == 2 && t.size(0) == 3 && t.size(1) == count,
            kIsInt8 ? "channels must be int32 with a bias, a multiplier and a shift for each output channel"
                    : "channels must be int64 with a bias, a multiplier and a shift for each output channel"))
      return;
    biases = reinterpret_cast<const Number *>(dense_bytes(call, t));
    multipliers = biases + count;
    shifts = multipliers + count;
    for (int64_t c = 0; c < count && !call.failed(); ++c) {
      const FactorType f = factor(c);
      call.check(f.is_valid() && f.multiplier == multipliers[c] && f.shift == shifts[c],
                 kIsInt8 ? "multipliers must be in [2^30, 2^31), shifts in [-31, 30]"
                         : "multipliers must be in [2^15, 2^16), shifts in [1, 62]");
    }
  }
  FactorType factor(int64_t channel) const {
    return {static_cast<int32_t>(multipliers[channel]), static_cast<int32_t>(shifts[channel])};
  }
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INT8_ARGUMENTS_H_
