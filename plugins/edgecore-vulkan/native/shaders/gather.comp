// Takes elements of a tensor at indices along one dim: gather, index_select, embedding. Operand 0 is the tensor; its
// strides do not include that dim. Negative indices count from the end; indices out of range are clamped.
#version 450
#include "types.glsl"
#define OPERANDS 2
#include "loop.glsl"

layout(push_constant) uniform Params { LOOP_PARAMS uint stride; int size; };
RESULT(T, T4, target)
OPERAND(0, T, T4, source)
OPERAND(1, int, ivec4, indices)

void main() {
  const uint id = flat_id();
  if (id >= threads) return;
  LOCATE(id);
  // All elements of a vector have one index, because the innermost dim is not a dim of the indices.
  int index = indices[at[1]];
  index = clamp(index < 0 ? index + size : index, 0, size - 1);
  at[0] += uint(index) * stride;
  const A4 result = LOAD(source, 0);
  STORE(target, id, result);
}
