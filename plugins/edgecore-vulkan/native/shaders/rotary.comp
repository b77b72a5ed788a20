// Rotary position embedding: each pair (a, b) of a row becomes (a cos - b sin, b cos + a sin). The two elements of a
// pair are either in the two halves of a row (then tables are as long as a row) or neighbours (then tables are half as
// long). One thread per pair.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint sizes[3];  // sizes of the outer dims of x; unused leading sizes are 1
  uint pairs;     // number of pairs in a row of x
  uint count;     // number of pairs in all rows of x
  uint cos_strides[4];
  uint sin_strides[4];
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };
layout(set = 0, binding = 2) readonly buffer Cosines { T cosines[]; };
layout(set = 0, binding = 3) readonly buffer Sines { T sines[]; };

void main() {
  const uint id = flat_id();
  if (id >= count) return;
  const uint pair = id % pairs;
  const uint row = id / pairs;
  uint rest = row;
  uint at_cos = pair * cos_strides[3];
  uint at_sin = pair * sin_strides[3];
  for (int d = 2; d >= 0; --d) {
    const uint index = rest % sizes[d];
    rest /= sizes[d];
    at_cos += index * cos_strides[d];
    at_sin += index * sin_strides[d];
  }
#if defined(PAIRS_half)
  const uint first = row * pairs * 2 + pair;
  const uint second = first + pairs;
  const uint next_cos = at_cos + pairs * cos_strides[3];
  const uint next_sin = at_sin + pairs * sin_strides[3];
#else
  const uint first = (row * pairs + pair) * 2;
  const uint second = first + 1;
  const uint next_cos = at_cos;
  const uint next_sin = at_sin;
#endif
  const float a = float(x[first]);
  const float b = float(x[second]);
  target[first] = T(a * float(cosines[at_cos]) - b * float(sines[at_sin]));
  target[second] = T(b * float(cosines[next_cos]) + a * float(sines[next_sin]));
}
