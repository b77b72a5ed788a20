// Softmax and its logarithm over one dim; the result lies in memory as the input does.
#version 450
#include "types.glsl"
#include "rows.glsl"

const float LARGEST = 3.402823466e38;

layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };

void main() {
  const uint row = row_index();
  const uint start = row_start(row);
  const uint stride = reduced_strides[0];
  // The sum of exp(x - greatest) of the elements so far. The start is finite, since -infinity - -infinity is NaN.
  float greatest = -LARGEST, sum = 0;
  for (uint i = lane(); i < terms; i += LANES) {
    const float value = float(x[start + i * stride]);
    const float difference = value - greatest;
    const float factor = exp(-abs(difference));
    sum = difference > 0 ? sum * factor + 1 : sum + factor;
    greatest = difference > 0 ? value : greatest;
  }
  const float own_greatest = greatest;
  greatest = max_of_lanes(greatest);
  sum = sum_of_lanes(sum * exp(own_greatest - greatest));
  if (row >= rows) return;
  if (greatest > LARGEST) sum = uintBitsToFloat(0x7fc00000u);  // infinity - infinity, which makes the row NaN
#if defined(OP_softmax)
  const float factor = 1 / sum;
#else
  const float shift = log(sum);
#endif
  for (uint i = lane(); i < terms; i += LANES) {
    const uint at = start + i * stride;
#if defined(OP_softmax)
    target[at] = T(exp(float(x[at]) - greatest) * factor);
#else
    target[at] = T(float(x[at]) - greatest - shift);
#endif
  }
}
