// Averages of quantized int8 and int16 values over windows of all sizes (average pooling).
#include "ops/integer_arguments.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

constexpr int64_t kMaxWindow = 1 << 15;  // maximum number of elements of a window: their sum must fit into 32 bits

// The pooling windows along one dim, read from argument i: an int32 tensor [3, count] of begins, ends and divisors.
struct Windows {
  const int32_t *begins = nullptr;
  const int32_t *ends = nullptr;
  const int32_t *divisors = nullptr;
  int64_t count = 0;
  int64_t largest = 0;  // number of input positions in the largest window
  int64_t largest_divisor = 1;

  Windows(Call &call, uint64_t i, int64_t size) {
    const Tensor t = call.tensor(i);
    if (call.failed() || !call.check(t.type() == Type::kI32 && t.ndim() == 2 && t.size(0) == 3,
                                     "windows must be int32 with a begin, an end and a divisor for each"))
      return;
    count = t.size(1);
    const char *source = dense_bytes(call, t);
    // copy the windows, because in a damaged file the result may overlap the tensor and overwrite it after the check
    // below
    int32_t *copy = call.scratch<int32_t>(3 * count);
    if (call.failed()) return;
    if (count > 0) __builtin_memcpy(copy, source, static_cast<size_t>(3 * count) * sizeof(int32_t));
    begins = copy;
    ends = begins + count;
    divisors = ends + count;
    for (int64_t w = 0; w < count && !call.failed(); ++w) {
      call.check(0 <= begins[w] && begins[w] <= ends[w] && ends[w] <= size && 0 < divisors[w],
                 "a window is not within the input, or its divisor is not positive");
      largest = max_of(largest, ends[w] - begins[w]);
      largest_divisor = max_of(largest_divisor, divisors[w]);
    }
  }
};

// Averages the windows of argument 0, input [N, C, H, W]. Arguments 1 and 2 describe the windows along H and W. The
// divisor of an output is the product of the divisors of its two windows. Argument 3, int32 [2, divisors], has the
// factor (multiplier and shift) for each divisor from 1 on.
template <class Value>
int32_t average(Call &call) {
  Arguments<Value> next(call, 4);
  const auto zero = next.zero_point();
  const Range<Value> range = next.range();
  const Tensor out = next.tensor();
  const Tensor input = call.tensor(0);
  const Tensor factors = call.tensor(3);
  if (call.failed() || !call.check(input.ndim() == 4, "the input must have 4 dims") ||
      !call.check(factors.type() == Type::kI32 && factors.ndim() == 2 && factors.size(0) == 2,
                  "factors must be int32 with a multiplier and a shift for each divisor") ||
      !check_result<Value>(call, out))
    return call.status();
  const int64_t height = input.size(2), width = input.size(3), divisors = factors.size(1);
  const Windows y(call, 1, height), x(call, 2, width);
  Shape shape = input.shape();
  shape.sizes[2] = y.count;
  shape.sizes[3] = x.count;
  if (call.failed() || !call.check(y.largest * x.largest <= kMaxWindow, "a window has at most 2^15 elements") ||
      !call.check(y.largest_divisor <= divisors / x.largest_divisor, "there is no factor for the largest divisor"))
    return call.status();
  const auto *multipliers = reinterpret_cast<const int32_t *>(dense_bytes(call, factors));
  for (int64_t i = 0; i < divisors && !call.failed(); ++i) {
    call.check(FactorOf<Value>{multipliers[i], multipliers[divisors + i]}.is_valid(), kFactorLimits<Value>);
  }
  if (call.failed() || !call.resize(out, shape)) return call.status();
  const Value *data = elements<Value>(call, input);
  const BytesOut result(call, out);
  if (call.failed() || out.numel() == 0) return call.status();
  auto *target = reinterpret_cast<Value *>(result.data());
  const auto pitch = static_cast<ptrdiff_t>(width);
  const int64_t grain = 16384 / (y.count * x.count * max_of(1, y.largest * x.largest)) + 1;
  call.parallel(input.size(0) * input.size(1), grain, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const Value *source = data + plane * height * width;
      Value *to = target + plane * y.count * x.count;
      for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(y.count); ++i) {
        for (ptrdiff_t j = 0; j < static_cast<ptrdiff_t>(x.count); ++j) {
          int32_t sum = 0;
          for (ptrdiff_t row = y.begins[i]; row < y.ends[i]; ++row) {
            const Value *line = source + row * pitch;
            for (ptrdiff_t column = x.begins[j]; column < x.ends[j]; ++column) sum += line[column];
          }
          sum -= zero.zero_point * (y.ends[i] - y.begins[i]) * (x.ends[j] - x.begins[j]);
          const ptrdiff_t divisor = y.divisors[i] * x.divisors[j] - 1;
          *to++ = range.clamp(requantize(sum, FactorOf<Value>{multipliers[divisor], multipliers[divisors + divisor]}));
        }
      }
    }
  });
  result.finish(call);
  return call.status();
}

}  // namespace

int32_t int8_average_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_average.out");
  return average<int8_t>(call);
}
int32_t int16_average_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_average.out");
  return average<int16_t>(call);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
