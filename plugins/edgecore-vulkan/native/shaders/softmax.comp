// Computes softmax and log-softmax over one dim; the result has the same memory layout as the input.
#version 450
#include "types.glsl"
#include "access.glsl"
#include "rows.glsl"

const float LARGEST = 3.402823466e38;

INPUT(1, x);

void main() {
  const uint row = row_index();
  const uint start = row_start(row), stride = reduced_strides[0], end = terms;
  // `sums`: of exp(x - maximum) over the elements so far. The first maximum is finite, because -inf - -inf is NaN.
  vec4 maximum = vec4(-LARGEST), sums = vec4(0);
  for (uint i = lane(); i < end; i += LANES) {
    const vec4 value = LOAD(x, start + i * stride);
    const vec4 difference = value - maximum;
    const vec4 factor = exp(-abs(difference));
    const bvec4 is_greater = greaterThan(difference, vec4(0));
    sums = mix(sums + factor, sums * factor + 1, is_greater);
    maximum = mix(maximum, value, is_greater);
  }
  const vec4 own_maximum = maximum;
  maximum = max_of_row(maximum);
  sums = sum_of_row(sums * exp(own_maximum - maximum));
  if (row >= rows) return;
  // Make a row with an infinity NaN, because infinity - infinity is NaN.
  sums = mix(sums, vec4(uintBitsToFloat(0x7fc00000u)), greaterThan(maximum, vec4(LARGEST)));
#if defined(OP_softmax)
  const vec4 factor = 1 / sums;
#else
  const vec4 shift = log(sums);
#endif
  for (uint i = lane(); i < end; i += LANES) {
    const uint at = start + i * stride;
#if defined(OP_softmax)
    STORE(at, exp(LOAD(x, at) - maximum) * factor);
#else
    STORE(at, LOAD(x, at) - maximum - shift);
#endif
  }
}
