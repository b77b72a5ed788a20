// Sum or mean over some dims: one thread computes one result. The dims are split into those that stay and those that
// are summed, each with the strides of the input.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint kept[6];
  uint kept_strides[6];
  uint summed[6];
  uint summed_strides[6];
  uint count;
  uint terms;
  float factor;
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };

void main() {
  const uint id = flat_id();
  if (id >= count) return;
  uint rest = id;
  uint base = 0;
  for (int d = 5; d >= 0; --d) {
    base += rest % kept[d] * kept_strides[d];
    rest /= kept[d];
  }
  float sum = 0;
  for (uint i = 0; i < terms; ++i) {
    uint at = base;
    rest = i;
    for (int d = 5; d >= 0; --d) {
      at += rest % summed[d] * summed_strides[d];
      rest /= summed[d];
    }
    sum += float(x[at]);
  }
  target[id] = T(sum * factor);
}
