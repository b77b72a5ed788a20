// Compares two tensors, or a tensor and a number, with broadcasting: writes 1 where the comparison is true, otherwise
// 0.
#version 450
#include "types.glsl"
#define OPERANDS 2
#include "loop.glsl"

layout(constant_id = 6) const bool HAS_NUMBER = false;  // operand 2 is the number alpha instead of a tensor

layout(push_constant) uniform Params { LOOP_PARAMS A alpha; };
RESULT(int, ivec4, target)
OPERAND(0, T, T4, a_data)
OPERAND(1, T, T4, b_data)

bvec4 apply(A4 a, A4 b) {
#if defined(OP_eq)
  return equal(a, b);
#elif defined(OP_ne)
  return not(equal(a, b));
#elif defined(OP_lt)
  return lessThan(a, b);
#elif defined(OP_le)
  return lessThanEqual(a, b);
#elif defined(OP_gt)
  return greaterThan(a, b);
#elif defined(OP_ge)
  return greaterThanEqual(a, b);
#endif
}

void main() {
  const uint id = flat_id();
  if (id >= threads) return;
  LOCATE(id);
  const A4 a = LOAD(a_data, 0);
  const A4 b = HAS_NUMBER ? A4(alpha) : LOAD(b_data, 1);
  const ivec4 result = ivec4(apply(a, b));
  STORE_AS(ivec4, int, target, id, result);
}
