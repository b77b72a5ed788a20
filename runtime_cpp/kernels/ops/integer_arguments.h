// Reads arguments of the operators on int8 and int16 values: tensors of a required dtype, and fixed-point numbers.
#ifndef EDGECORE_KERNELS_INTEGER_ARGUMENTS_H_
#define EDGECORE_KERNELS_INTEGER_ARGUMENTS_H_

#include "lib/integer_vector.h"
#include "ops/index.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

template <class Value>
constexpr bool kIsInt8 = sizeof(Value) == 1;  // true for int8 values, false for int16 values
template <class Value>
constexpr Type kTypeOf = kIsInt8<Value> ? Type::kI8 : Type::kI16;
template <class Value>
constexpr const char *kFactorLimits = kIsInt8<Value> ? "multipliers must be in [2^30, 2^31), shifts in [-31, 30]"
                                                     : "multipliers must be in [2^15, 2^16), shifts in [1, 62]";

// Returns the elements of a tensor of dtype Value in row-major order. Returns NULL after a failure.
template <class Value>
const Value *elements(Call &call, Tensor t) {
  if (call.failed() ||
      !call.check(t.type() == kTypeOf<Value>, kIsInt8<Value> ? "the values must be int8" : "the values must be int16"))
    return nullptr;
  return reinterpret_cast<const Value *>(dense_bytes(call, t));
}

// Records a failure if `out` does not have the dtype Value. Returns false after a failure.
template <class Value>
bool check_result(Call &call, Tensor out) {
  return call.check(out.type() == kTypeOf<Value>, kIsInt8<Value> ? "out must be int8" : "out must be int16");
}

// Returns the integer argument i if it is in [low, high]. Otherwise records a failure and returns `low`.
inline int32_t int_between(Call &call, uint32_t i, int32_t low, int32_t high) {
  const int64_t value = call.integer(i);
  if (value >= low && value <= high) return static_cast<int32_t>(value);
  Message text;
  call.fail(EDGECORE_INVALID_ARGUMENT, text << "argument " << static_cast<int64_t>(i) << " is " << value << ", not in ["
                                            << low << ", " << high << "]");
  return low;
}

// Reads an operator's arguments in order, from number `next` on. int8 operators have zero points, int16 operators have
// none.
template <class Value>
class Arguments {
 public:
  Arguments(Call &call, uint32_t next) : call_(call), next_(next) {}

  int32_t integer(int32_t low, int32_t high) { return int_between(call_, next_++, low, high); }
  Tensor tensor() { return call_.tensor(next_++); }
  ZeroPointOf<Value> zero_point() {
    if constexpr (kIsInt8<Value>) {
      return {value()};
    } else {
      return {};
    }
  }
  FactorOf<Value> factor() {
    using F = FactorOf<Value>;
    const int32_t multiplier = integer(F::kMinMultiplier, F::kMaxMultiplier);
    return {multiplier, integer(F::kMinShift, F::kMaxShift)};
  }
  Range<Value> range() {
    const ZeroPointOf<Value> zero = zero_point();
    const int32_t low = value();
    const Range<Value> range = {zero, low, value()};
    call_.check(range.low <= range.high, "the lower limit of the result must not be above the upper one");
    return range;
  }

 private:
  int32_t value() { return integer(Range<Value>::kMin, Range<Value>::kMax); }

  Call &call_;
  uint32_t next_;
};

// The bias and the factor (multiplier and shift) of each output channel of a quantized layer.
template <class Value>
struct Channels {
  using Number = SumOf<Value>;

  const Number *biases = nullptr;
  const Number *multipliers = nullptr;
  const Number *shifts = nullptr;

  // Reads argument i, a tensor [3, count] of biases, multipliers and shifts; its dtype is int32 for int8 values and
  // int64 for int16. The three are one tensor, because each tensor costs the runtime memory, which is scarce on a
  // microcontroller.
  Channels(Call &call, uint64_t i, int64_t count) {
    const Tensor t = call.tensor(i);
    if (call.failed() ||
        !call.check(t.type() == (kIsInt8<Value> ? Type::kI32 : Type::kI64) && t.ndim() == 2 && t.size(0) == 3 &&
                        t.size(1) == count,
                    kIsInt8<Value>
                        ? "channels must be int32 with a bias, a multiplier and a shift for each output channel"
                        : "channels must be int64 with a bias, a multiplier and a shift for each output channel"))
      return;
    biases = reinterpret_cast<const Number *>(dense_bytes(call, t));
    multipliers = biases + count;
    shifts = multipliers + count;
    for (int64_t c = 0; c < count && !call.failed(); ++c) {
      const FactorOf<Value> f = factor(c);
      call.check(f.is_valid() && f.multiplier == multipliers[c] && f.shift == shifts[c], kFactorLimits<Value>);
    }
  }
  FactorOf<Value> factor(int64_t channel) const {
    return {static_cast<int32_t>(multipliers[channel]), static_cast<int32_t>(shifts[channel])};
  }
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INTEGER_ARGUMENTS_H_
