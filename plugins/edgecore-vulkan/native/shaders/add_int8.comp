// Adds two tensors of 8-bit integers, which lie in 32 bits, and quantizes the sum. One thread per element.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint count;
  int a_zero, b_zero, out_zero;
  float a_scale, b_scale;  // b_scale: times alpha
  float inverse;           // 1 / scale of the result
};
layout(set = 0, binding = 0) writeonly buffer Output { int target[]; };
layout(set = 0, binding = 1) readonly buffer InputA { int a[]; };
layout(set = 0, binding = 2) readonly buffer InputB { int b[]; };

void main() {
  const uint id = flat_id();
  if (id >= count) return;
  const float sum = float(a[id] - a_zero) * a_scale + float(b[id] - b_zero) * b_scale;
  target[id] = int(clamp(roundEven(sum * inverse) + float(out_zero), -128.0, 127.0));
}
