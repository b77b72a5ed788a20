// Dequantizes a tensor: (q - zero point) * scale. Either the tensor has one scale; then a thread computes a vector of
// four elements. Or each `inner` elements have a scale; then a thread computes one element, and scales repeat after
// `channels`.
#version 450
#include "types.glsl"
#include "integers.glsl"

layout(push_constant) uniform Params {
  uint count;  // number of threads
  uint inner;
  uint channels;
  int zero_point;  // the zero point, if the tensor has one scale
  float scale;     // the scale, if the tensor has one scale
};
INTEGERS_OF(1, x);
#if defined(SCALES_many)
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 2) readonly buffer Scales { float scales[]; };
layout(set = 0, binding = 3) readonly buffer Zeros { int zeros[]; };
#else
layout(set = 0, binding = 0) writeonly buffer Output { T4 target[]; };
#endif

void main() {
  const uint id = flat_id();
  if (id >= count) return;
#if defined(SCALES_many)
  const uint channel = id / inner % channels;
  target[id] = T(float(INTEGER1(x, id) - zeros[channel]) * scales[channel]);
#else
  target[id] = T4(vec4(INTEGER4(x, id) - zero_point) * scale);
#endif
}
