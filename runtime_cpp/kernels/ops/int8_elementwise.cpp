// Elementwise functions, means and softmax of quantized int8 values.
#include "ops/integer_loops.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

int32_t int8_add_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_add.out");
  return run_add<int8_t>(call);
}
int32_t int8_mul_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_mul.out");
  return run_mul<int8_t>(call);
}
int32_t int8_mean_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_mean.out");
  return run_mean<int8_t>(call);
}

// Looks up each input in a table of 256 entries: out[i] = table[input[i] + 128].
int32_t int8_table_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_table.out");
  const Tensor table = call.tensor(1);
  if (call.failed() || !call.check(table.ndim() == 1 && table.size(0) == 256, "the table must have 256 entries")) {
    return call.status();
  }
  const int8_t *entries = elements<int8_t>(call, table);
  for_elements<int8_t>(call, call.tensor(0), call.tensor(2), [=](int32_t x) { return entries[x + 128]; });
  return call.status();
}

// Computes a softmax over the last dim: out = 256 * term / (sum of the row's terms), term = table[row maximum - input].
int32_t int8_softmax_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_softmax.out");
  Arguments<int8_t> next(call, 2);
  const Range<int8_t> range = next.range();
  const auto term = [](const int32_t *table, int32_t difference) { return table[difference]; };
  const auto finish = [=](const int32_t *terms, ptrdiff_t width, uint32_t sum, int8_t *row) {
    const int32_t bits = 32 - __builtin_clz(sum);
    const uint64_t reciprocal = (uint64_t{1} << (bits + 30)) / sum;  // `reciprocal` is in (2^30, 2^31]: clamp to int32
    const Factor factor = {static_cast<int32_t>(reciprocal > INT32_MAX ? INT32_MAX : reciprocal), 9 - bits};
    requantize_row(terms, width, 0, factor, range, row);
  };
  for_softmax_rows<int8_t>(call, call.tensor(0), call.tensor(1), next.tensor(), term, finish);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
