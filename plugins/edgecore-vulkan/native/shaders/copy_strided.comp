// Copies a tensor of up to 6 dims between two layouts: views, permutations, slices, expansions. One thread per element.
#version 450
#include "types.glsl"

// In elements; the innermost dim is the last, and unused leading sizes are 1. Negative strides wrap around.
layout(push_constant) uniform Params {
  uint sizes[6];
  uint in_strides[6];
  uint out_strides[6];
  uint in_offset;
  uint out_offset;
  uint count;
};
layout(set = 0, binding = 0) readonly buffer Input { T source[]; };
layout(set = 0, binding = 1) writeonly buffer Output { T target[]; };

void main() {
  uint rest = flat_id();
  if (rest >= count) return;
  uint from = in_offset;
  uint to = out_offset;
  for (int d = 5; d >= 0; --d) {
    const uint index = rest % sizes[d];
    rest /= sizes[d];
    from += index * in_strides[d];
    to += index * out_strides[d];
  }
  target[to] = source[from];
}
