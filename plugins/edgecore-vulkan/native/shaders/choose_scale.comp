// Chooses a scale and zero point to quantize each row of a tensor. Extends its range to include 0. One workgroup per
// row.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint rows;
  uint width;
  float low, high;  // the range of the quantized integers
  float eps;        // minimum scale
};
layout(set = 0, binding = 0) writeonly buffer Scales { float scales[]; };
layout(set = 0, binding = 1) writeonly buffer Zeros { int zeros[]; };
layout(set = 0, binding = 2) readonly buffer Input { T x[]; };

shared float smallest[64];
shared float largest[64];

void main() {
  const uint row = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x;
  if (row >= rows) return;
  const uint self = gl_LocalInvocationID.x;
  float lowest = 0;
  float most = 0;
  for (uint i = self; i < width; i += 64) {
    const float one = float(x[row * width + i]);
    lowest = min(lowest, one);
    most = max(most, one);
  }
  smallest[self] = lowest;
  largest[self] = most;
  for (uint half_size = 32; half_size > 0; half_size /= 2) {
    barrier();
    if (self < half_size) {
      smallest[self] = min(smallest[self], smallest[self + half_size]);
      largest[self] = max(largest[self], largest[self + half_size]);
    }
  }
  if (self == 0) {
    const float scale = max((largest[0] - smallest[0]) / (high - low), eps);
    scales[row] = scale;
    zeros[row] = int(clamp(low - roundEven(smallest[0] / scale), low, high));
  }
}
