// Linear layers of quantized int8 and int16 values. The weights are always int8.
#include "lib/integer_gemm.h"
#include "ops/integer_arguments.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

constexpr int64_t kFewRows = 8;  // minimum number of input rows for which packing the input saves time

// Computes input [..., depth] times the transpose of weight [outputs, depth]. The bias includes the correction for the
// input's zero point.
template <class Value>
int32_t linear(Call &call) {
  Arguments<Value> next(call, 3);
  const Range<Value> range = next.range();
  const Tensor out = next.tensor();
  const Tensor input = call.tensor(0);
  const Tensor weight = call.tensor(1);
  if (call.failed() ||
      !call.check(weight.ndim() == 2 && input.ndim() > 0 && input.size(input.ndim() - 1) == weight.size(1),
                  "the last dims of input and weight must have the same size") ||
      !check_result<Value>(call, out))
    return call.status();
  const int64_t outputs = weight.size(0);
  const int64_t depth = weight.size(1);
  const Channels<Value> channels(call, 2, outputs);
  Shape shape = input.shape();
  shape.sizes[shape.ndim - 1] = outputs;
  if (call.failed() || !call.resize(out, shape)) return call.status();
  const Value *x = elements<Value>(call, input);
  const int8_t *w = elements<int8_t>(call, weight);
  const BytesOut result(call, out);
  if (call.failed() || out.numel() == 0) return call.status();
  auto *y = reinterpret_cast<Value *>(result.data());
  const int64_t rows = out.numel() / outputs;
  if (rows < kFewRows) {
    call.parallel(outputs, 65536 / (depth * rows + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t j = begin; j < end; ++j) {
        for (int64_t i = 0; i < rows; ++i) {
          const SumOf<Value> sum = dot(x + i * depth, w + j * depth, depth) + channels.biases[j];
          y[i * outputs + j] = range.clamp(requantize(sum, channels.factor(j)));
        }
      }
    });
  } else {  // compute the transposed product: rows of weights, in place, times columns of packed inputs
    const auto left = [&](int64_t) { return Int8Left{w, depth}; };
    const auto pack = [&](int64_t, int64_t column, int64_t columns, int64_t width, Packed<Value> *target) {
      pack_columns(x + column * depth, depth, depth, columns, width, target);
    };
    const auto finish = [&](int64_t, int64_t row, int64_t height, int64_t column, int64_t columns,
                            const SumOf<Value> *block, int64_t width) {
      Value line[kIntegerPanel];
      for (int64_t r = 0; r < height; ++r) {
        const int64_t channel = row + r;
        requantize_row(block + r * width, columns, channels.biases[channel], channels.factor(channel), range, line);
        for (int64_t j = 0; j < columns; ++j) y[(column + j) * outputs + channel] = line[j];
      }
    };
    integer_gemm<Value>(call, 1, outputs, rows, depth, left, pack, finish);
  }
  result.finish(call);
  return call.status();
}

}  // namespace

int32_t int8_linear_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_linear.out");
  return linear<int8_t>(call);
}
int32_t int16_linear_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_linear.out");
  return linear<int16_t>(call);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
