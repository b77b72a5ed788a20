// Writes the numbers start, start + step, start + 2 * step and so on. One thread per four elements.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint vectors;
  A start;
  A step_size;
};
layout(set = 0, binding = 0) writeonly buffer Output { T4 target[]; };

void main() {
  const uint id = flat_id();
  if (id >= vectors) return;
  target[id] = T4(A4(start) + A4(step_size) * A4(uvec4(0, 1, 2, 3) + id * 4));
}
