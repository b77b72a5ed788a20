// Dequantizes a tensor: (q - zero point) * scale. One thread per element. Scales are one number, or one for each `inner`
// elements; after `channels` of them they start again.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint count;
  uint inner;
  uint channels;
  int zero_point;  // of one scale
  float scale;     // of one scale
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer Input { int x[]; };
#if defined(SCALES_many)
layout(set = 0, binding = 2) readonly buffer Scales { float scales[]; };
layout(set = 0, binding = 3) readonly buffer Zeros { int zeros[]; };
#endif

void main() {
  const uint id = flat_id();
  if (id >= count) return;
#if defined(SCALES_many)
  const uint channel = id / inner % channels;
  target[id] = T(float(x[id] - zeros[channel]) * scales[channel]);
#else
  target[id] = T(float(x[id] - zero_point) * scale);
#endif
}
