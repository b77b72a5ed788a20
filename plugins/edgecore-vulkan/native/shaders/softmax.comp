// Softmax and its logarithm over one dim; the result lies in memory as the input does.
#version 450
#include "types.glsl"
#include "rows.glsl"

layout(push_constant) uniform Params { Rows rows; };
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };

void main() {
  const uint row = row_index();
  const uint start = row_start(rows, row);
  const uint stride = rows.reduced_strides[0];
  const float infinity = uintBitsToFloat(0x7f800000u);
  float greatest = -infinity;
  for (uint i = lane(); i < rows.terms; i += LANES) greatest = max(greatest, float(x[start + i * stride]));
  greatest = max_of_lanes(greatest);
  float sum = 0;
  for (uint i = lane(); i < rows.terms; i += LANES) sum += exp(float(x[start + i * stride]) - greatest);
  sum = sum_of_lanes(sum);
  if (row >= rows.count) return;
#if defined(OP_softmax)
  const float factor = 1 / sum;
#else
  const float shift = greatest + log(sum);
#endif
  for (uint i = lane(); i < rows.terms; i += LANES) {
    const uint at = start + i * stride;
#if defined(OP_softmax)
    target[at] = T(exp(float(x[at]) - greatest) * factor);
#else
    target[at] = T(float(x[at]) - shift);
#endif
  }
}
