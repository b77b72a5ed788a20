// Quantizes a tensor: round(x / scale) + zero point, clamped. Either the tensor has one scale; then a thread computes a
// vector of four elements. Or each `inner` elements have a scale; then a thread computes one element.
#version 450
#include "types.glsl"
#include "integers.glsl"

layout(push_constant) uniform Params {
  uint count;  // number of threads
  uint inner;
  float low, high;
  int zero_point;      // the zero point, if the tensor has one scale
  uint is_difference;  // with many scales: 1 to store the integers minus their zero point
  float inverse;       // 1 / the scale, if the tensor has one scale
};
RESULTS;
#if defined(SCALES_many)
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };
layout(set = 0, binding = 2) readonly buffer Scales { float scales[]; };
layout(set = 0, binding = 3) readonly buffer Zeros { int zeros[]; };
#else
layout(set = 0, binding = 1) readonly buffer Input { T4 x[]; };
#endif

void main() {
  const uint id = flat_id();
  if (id >= count) return;
#if defined(SCALES_many)
  const int zero = zeros[id / inner];
  const float scaled = float(x[id]) * (1 / scales[id / inner]);
  const int result = int(clamp(roundEven(scaled) + float(zero), low, high));
  PUT1(id, is_difference != 0 ? result - zero : result);
#else
  PUT4(id, ivec4(clamp(roundEven(vec4(x[id]) * inverse) + float(zero_point), low, high)));
#endif
}
