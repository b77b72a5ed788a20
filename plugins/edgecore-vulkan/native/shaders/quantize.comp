// Quantizes a tensor: round(x / scale) + zero point, clamped. One thread per element. Scales are one number, or one for
// each `inner` elements.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint count;
  uint inner;
  float low, high;
  int zero_point;      // of one scale
  uint is_difference;  // of many scales: 1 to store the result less the zero point
  float inverse;       // of one scale: 1 / scale
};
layout(set = 0, binding = 0) writeonly buffer Output { int target[]; };
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };
#if defined(SCALES_many)
layout(set = 0, binding = 2) readonly buffer Scales { float scales[]; };
layout(set = 0, binding = 3) readonly buffer Zeros { int zeros[]; };
#endif

void main() {
  const uint id = flat_id();
  if (id >= count) return;
#if defined(SCALES_many)
  const int zero = zeros[id / inner];
  const float scaled = float(x[id]) * (1 / scales[id / inner]);
  const int result = int(clamp(roundEven(scaled) + float(zero), low, high));
  target[id] = is_difference != 0 ? result - zero : result;
#else
  target[id] = int(clamp(roundEven(float(x[id]) * inverse) + float(zero_point), low, high));
#endif
}
