// Elementwise functions, means and softmax of quantized int16 values.
#include "ops/integer_loops.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

int32_t int16_add_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_add.out");
  return run_add<int16_t>(call);
}
int32_t int16_mul_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_mul.out");
  return run_mul<int16_t>(call);
}
int32_t int16_mean_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_mean.out");
  return run_mean<int16_t>(call);
}

// Looks up each input in a table and interpolates linearly; table entry i is the result for the input (i << shift) -
// 2^15. Entries are at most 2^22 in magnitude, so that all results fit into 32 bits.
int32_t int16_table_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_table.out");
  const Tensor table = call.tensor(1);
  Arguments<int16_t> next(call, 2);
  const Range<int16_t> range = next.range();
  if (call.failed()) return call.status();
  int32_t shift = 0;
  const int64_t size = table.ndim() == 1 ? table.size(0) : 0;
  while (shift <= 7 && size != (1 << (16 - shift)) + 1) ++shift;
  if (!call.check(shift <= 7 && table.type() == Type::kI32,
                  "the table must be int32 with 2^bits + 1 entries, with bits from 9 to 16"))
    return call.status();
  const auto *entries = reinterpret_cast<const int32_t *>(dense_bytes(call, table));
  const int32_t rest = (1 << shift) - 1, half = 1 << shift >> 1;
  for_elements<int16_t>(call, call.tensor(0), next.tensor(), [=](int32_t x) {
    const int32_t *pair = entries + ((x + 32768) >> shift);
    return range.clamp(pair[0] + (((pair[1] - pair[0]) * (x & rest) + half) >> shift));
  });
  return call.status();
}

int32_t int16_rescale_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_rescale.out");
  Arguments<int16_t> next(call, 1);
  const WideFactor factor = next.factor();
  const Range<int16_t> range = next.range();
  if (call.failed()) return call.status();
  for_elements<int16_t>(call, call.tensor(0), next.tensor(),
                        [=](int32_t x) { return range.clamp(requantize(int64_t{x}, factor)); });
  return call.status();
}

// Computes a softmax over the last dim: out = 2^15 * term / (sum of the row's terms). The term of an element is
// exp(-scale * d), where d is the row's maximum minus the element: table[d / 256] * table[256 + d % 256] / 2^30.
int32_t int16_softmax_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_softmax.out");
  Arguments<int16_t> next(call, 2);
  const Range<int16_t> range = next.range();
  const auto term = [](const int32_t *table, int32_t difference) {
    const auto steep = static_cast<uint32_t>(table[difference >> 8]);
    const auto flat = static_cast<uint32_t>(table[256 + (difference & 255)]);
    return static_cast<int32_t>((uint64_t{steep} * flat + (1 << 29)) >> 30);
  };
  const auto finish = [=](const int32_t *terms, ptrdiff_t width, uint64_t sum, int16_t *row) {
    // `bits` is at least 31, because the sum is at least 2^30
    const int32_t bits = 64 - __builtin_clzll(sum);
    const auto reciprocal = static_cast<uint32_t>((uint64_t{1} << 61) / (sum >> (bits - 31)));  // in (2^30, 2^31]
    const int32_t shift = bits + 15;
    const uint64_t half = uint64_t{1} << (shift - 1);
    for (ptrdiff_t j = 0; j < width; ++j) {
      const uint64_t product = uint64_t{static_cast<uint32_t>(terms[j])} * reciprocal;
      row[j] = range.clamp(static_cast<int64_t>((product + half) >> shift));
    }
  };
  for_softmax_rows<int16_t>(call, call.tensor(0), call.tensor(1), next.tensor(), term, finish);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
