// Adds two tensors of 8-bit integers, and quantizes the sum. One thread per vector of four elements.
#version 450
#include "types.glsl"
#include "integers.glsl"

layout(push_constant) uniform Params {
  uint vectors;
  int a_zero, b_zero, out_zero;
  float a_scale, b_scale;  // b_scale includes alpha
  float inverse;           // 1 / the scale of the result
};
RESULTS;
INTEGERS_OF(1, a);
INTEGERS_OF(2, b);

void main() {
  const uint id = flat_id();
  if (id >= vectors) return;
  const vec4 sum = vec4(INTEGER4(a, id) - a_zero) * a_scale + vec4(INTEGER4(b, id) - b_zero) * b_scale;
  PUT4(id, ivec4(clamp(roundEven(sum * inverse) + float(out_zero), -128.0, 127.0)));
}
