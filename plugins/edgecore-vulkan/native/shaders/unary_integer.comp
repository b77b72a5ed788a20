// Computes elementwise operators of one tensor of integers or booleans. One thread per four elements.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint vectors;
  int alpha;
  int beta;
};
layout(set = 0, binding = 0) writeonly buffer Output { T4 target[]; };
layout(set = 0, binding = 1) readonly buffer Input { T4 source[]; };

void main() {
  const uint id = flat_id();
  if (id >= vectors) return;
  const ivec4 x = source[id];
#if defined(OP_abs)
  target[id] = abs(x);
#elif defined(OP_neg)
  target[id] = -x;
#elif defined(OP_clamp)
  target[id] = min(max(x, alpha), beta);
#elif defined(OP_bitwise_not)
  target[id] = ~x;
#elif defined(OP_logical_not)
  target[id] = ivec4(equal(x, ivec4(0)));
#endif
}
