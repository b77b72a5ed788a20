// Pads a tensor with a number; negative padding crops. One thread per element of the result. Sizes are in memory order.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint dims;
  uint sizes[6];
  uint in_sizes[6];
  uint in_strides[6];
  int before[6];  // elements of padding
  uint count;
  A number;
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };

void main() {
  const uint id = flat_id();
  if (id >= count) return;
  uint rest = id;
  uint at = 0;
  bool inside = true;
  for (uint d = dims; d > 0; --d) {
    const uint index = rest % sizes[d - 1] - uint(before[d - 1]);  // a negative position wraps around to a large number
    rest /= sizes[d - 1];
    inside = inside && index < in_sizes[d - 1];
    at += index * in_strides[d - 1];
  }
  A value = number;
  if (inside) value = A(x[at]);
  target[id] = T(value);
}
