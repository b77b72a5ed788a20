// Copies floats like copy_strided.comp, but reads a texel buffer, which is fast on devices that run on a CPU.
#version 450
#include "types.glsl"
#include "access.glsl"

layout(constant_id = 3) const bool VECTORS = false;       // strides of the innermost dim are in vectors of four
layout(constant_id = 4) const bool FROM_VECTORS = false;  // the vector's elements are adjacent in the source, too

// As in copy_strided.comp.
layout(push_constant) uniform Params {
  uint sizes[6];
  uint in_strides[6];
  uint out_strides[6];
  uint in_offset;
  uint out_offset;
  uint in_step;
  uint outermost;
  uint threads;
};
INPUT(1, x);

void main() {
  uint rest = flat_id();
  if (rest >= threads) return;
  uint from = in_offset;
  uint to = out_offset;
  for (uint d = 5; d > outermost; --d) {
    const uint quotient = rest / sizes[d];
    const uint index = rest - quotient * sizes[d];
    rest = quotient;
    from += index * in_strides[d];
    to += index * out_strides[d];
  }
  from += rest * in_strides[outermost];
  to += rest * out_strides[outermost];
  if (!VECTORS) {
    WRITE1(to, READ1(x, int(from)));
  } else if (FROM_VECTORS) {
    WRITE4(to / 4, READ4(x, int(from / 4)));
  } else {
    const ivec4 at = int(from) + ivec4(0, 1, 2, 3) * int(in_step);
    WRITE4(to / 4, vec4(READ1(x, at.x), READ1(x, at.y), READ1(x, at.z), READ1(x, at.w)));
  }
}
