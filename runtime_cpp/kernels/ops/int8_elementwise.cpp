// Elementwise functions, means and softmax of int8 values.
#include "ops/integer_loops.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// out[i] = table[input[i] + 128].
int32_t int8_table_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_table.out");
  const Tensor table = call.tensor(1);
  if (call.failed() || !call.check(table.ndim() == 1 && table.size(0) == 256, "the table must have 256 entries")) {
    return call.status();
  }
  const int8_t *entries = int8_elements(call, table);
  for_elements<int8_t>(call, call.tensor(0), call.tensor(2), [=](int32_t x) { return entries[x + 128]; });
  return call.status();
}

// out = ((a - a_zero_point) * a_factor + (b - b_zero_point) * b_factor) / 2^shift. With factors of at most 2^21 in
// magnitude, all sums fit into 32 bits.
int32_t int8_add_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_add.out");
  const int32_t zero_a = zero_point_at(call, 2);
  const int32_t zero_b = zero_point_at(call, 3);
  const int32_t factor_a = int_between(call, 4, -(1 << 21), 1 << 21);
  const int32_t factor_b = int_between(call, 5, -(1 << 21), 1 << 21);
  const int32_t shift = int_between(call, 6, 1, 31);
  const Int8Range range = range_at(call, 7);
  if (call.failed()) return call.status();
  for_pairs<int8_t>(call, call.tensor(0), call.tensor(1), call.tensor(10), [=](int32_t a, int32_t b) {
    return range.clamp(shift_right((a - zero_a) * factor_a + (b - zero_b) * factor_b, shift));
  });
  return call.status();
}

int32_t int8_mul_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_mul.out");
  const int32_t zero_a = zero_point_at(call, 2);
  const int32_t zero_b = zero_point_at(call, 3);
  const Factor factor = factor_at(call, 4);
  const Int8Range range = range_at(call, 6);
  if (call.failed()) return call.status();
  for_pairs<int8_t>(call, call.tensor(0), call.tensor(1), call.tensor(9),
                    [=](int32_t a, int32_t b) { return range.clamp(requantize((a - zero_a) * (b - zero_b), factor)); });
  return call.status();
}

// The sum of the last dims [-count, end), requantized: a mean, if the factor contains the number of elements.
int32_t int8_mean_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_mean.out");
  const int32_t zero_point = zero_point_at(call, 3);
  const Factor factor = factor_at(call, 4);
  const Int8Range range = range_at(call, 6);
  for_sums<int8_t>(
      call, call.tensor(0), call.integer(1), call.flag(2), call.tensor(9),
      [=](int32_t sum, int32_t width) { return range.clamp(requantize(sum - zero_point * width, factor)); });
  return call.status();
}

// Over the last dim: out = 256 * table[largest input - input] / (the sum of these entries of the table).
int32_t int8_softmax_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_softmax.out");
  const Int8Range range = range_at(call, 2);
  const auto term = [](const int32_t *table, int32_t difference) { return table[difference]; };
  const auto finish = [=](const int32_t *terms, ptrdiff_t width, uint32_t sum, int8_t *row) {
    const int32_t bits = 32 - __builtin_clz(sum);
    const uint64_t reciprocal = (uint64_t{1} << (bits + 30)) / sum;  // in (2^30, 2^31]
    const Factor factor = {static_cast<int32_t>(reciprocal > INT32_MAX ? INT32_MAX : reciprocal), 9 - bits};
    requantize_row(terms, width, 0, factor, range, row);
  };
  for_softmax_rows<int8_t>(call, call.tensor(0), call.tensor(1), call.tensor(5), term, finish);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
