// Dequantizes a tensor: (q - zero point) * scale. Either there is one scale, with one thread per vector of four
// elements; or one scale for each `inner` elements, with one thread per element: then the scales repeat after
// `channels` of them.
#version 450
#include "types.glsl"
#include "integers.glsl"

layout(push_constant) uniform Params {
  uint count;  // number of threads
  uint inner;
  uint channels;
  int zero_point;  // if there is one scale
  float scale;     // if there is one scale
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
