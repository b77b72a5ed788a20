// Elementwise operators of one or two tensors with broadcasting. One thread per element of the result, whose memory
// order is that of the sizes.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint sizes[6];
  uint a_strides[6];
  uint b_strides[6];
  uint count;
  float alpha;
  float beta;
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer InputA { T a_data[]; };
layout(set = 0, binding = 2) readonly buffer InputB { T b_data[]; };

void main() {
  const uint id = flat_id();
  if (id >= count) return;
  uint rest = id;
  uint at_a = 0;
  uint at_b = 0;
  for (int d = 5; d >= 0; --d) {
    const uint index = rest % sizes[d];
    rest /= sizes[d];
    at_a += index * a_strides[d];
    at_b += index * b_strides[d];
  }
  const A a = A(a_data[at_a]);
  const A b = A(b_data[at_b]);
#if defined(OP_add)
  const A r = a + A(alpha) * b;
#elif defined(OP_mul)
  const A r = a * b;
#elif defined(OP_div)
  const A r = a / b;
#elif defined(OP_min)
  const A r = b < a || b != b ? b : a;  // NaN of either operand is the result, as in PyTorch
#elif defined(OP_max)
  const A r = b > a || b != b ? b : a;
#elif defined(OP_clamp)
  const A r = a != a ? a : min(max(a, A(alpha)), A(beta));
#elif defined(OP_sigmoid)
  const A r = 1 / (1 + exp(-a));
#elif defined(OP_tanh)
  const A r = tanh(clamp(a, -20.0, 20.0));  // drivers may compute exp(a), which overflows
#elif defined(OP_exp)
  const A r = exp(a);
#elif defined(OP_hardswish)
  const A r = a * clamp(a + 3, 0.0, 6.0) / 6;
#endif
  target[id] = T(r);
}
