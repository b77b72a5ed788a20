// Computes elementwise operators of two tensors, or of a tensor and a number, with broadcasting.
#version 450
#include "types.glsl"
#include "math.glsl"
#include "access.glsl"
#define OPERANDS 2
#include "loop.glsl"

layout(constant_id = 6) const bool HAS_NUMBER = false;  // operand 2 is the number alpha instead of a tensor

layout(push_constant) uniform Params { LOOP_PARAMS A alpha; };
OPERAND(0, T, T4, a_data)
OPERAND(1, T, T4, b_data)

A apply(A a, A b) {
#if defined(OP_add)
  return a + alpha * b;
#elif defined(OP_mul)
  return a * b;
#elif defined(OP_div)
  return a / b;
#elif defined(OP_div_trunc)
  return trunc_divide(a, b);
#elif defined(OP_div_floor)
  return floor_divide(a, b);
#elif defined(OP_remainder)
  return floor_remainder(a, b);
#elif defined(OP_min)
  return b < a || b != b ? b : a;  // the minimum is NaN if an operand is NaN, as in PyTorch
#elif defined(OP_max)
  return b > a || b != b ? b : a;
#elif defined(OP_pow)
  return power(a, b);
#elif defined(OP_and)
  return a & b;
#elif defined(OP_or)
  return a | b;
#elif defined(OP_xor)
  return a ^ b;
#endif
}

void main() {
  const uint id = flat_id();
  if (id >= threads) return;
  LOCATE(id);
  for (uint r = 0; r < REPEAT; ++r) {
    if (REPEAT > 1 && id * REPEAT + r >= vectors) break;
    const A4 a = LOAD(a_data, 0);
    const A4 b = HAS_NUMBER ? A4(alpha) : LOAD(b_data, 1);
    const A4 result = A4(apply(a.x, b.x), apply(a.y, b.y), apply(a.z, b.z), apply(a.w, b.w));
    if (VECTORS) {
      WRITE4(id * REPEAT + r, result);
    } else {
      WRITE1(id, result.x);
    }
    NEXT();
  }
}
