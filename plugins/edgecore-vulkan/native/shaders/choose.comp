// Selects elements (torch.where, with broadcasting): of operand 2 where operand 1 is not 0, otherwise of operand 3.
#version 450
#include "types.glsl"
#define OPERANDS 3
#include "loop.glsl"

layout(push_constant) uniform Params { LOOP_PARAMS };
RESULT(T, T4, target)
OPERAND(0, int, ivec4, conditions)
OPERAND(1, T, T4, a_data)
OPERAND(2, T, T4, b_data)

void main() {
  const uint id = flat_id();
  if (id >= threads) return;
  LOCATE(id);
  const ivec4 condition = LOAD_AS(ivec4, int, conditions, 0);
  const A4 a = LOAD(a_data, 1);
  const A4 b = LOAD(b_data, 2);
  const A4 result = A4(condition.x != 0 ? a.x : b.x, condition.y != 0 ? a.y : b.y, condition.z != 0 ? a.z : b.z,
                       condition.w != 0 ? a.w : b.w);
  STORE(target, id, result);
}
