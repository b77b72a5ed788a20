// Sum, mean, maximum, minimum, and the index of the maximum or minimum, over some dims.
#version 450
#include "types.glsl"
#define MORE_PARAMS float factor;
#include "rows.glsl"

#if defined(OP_argmax) || defined(OP_argmin)
#define RESULT int
#else
#define RESULT T
#endif
// Whether a number replaces the one that was found so far: NaN is the maximum and the minimum, as in PyTorch.
#if defined(OP_amax) || defined(OP_argmax)
#define BETTER(a, b) (a > b || a != a)
#else
#define BETTER(a, b) (a < b || a != a)
#endif

layout(set = 0, binding = 0) writeonly buffer Output { RESULT target[]; };
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };

#if defined(OP_argmax) || defined(OP_argmin)
shared uint partial_index[THREADS];

// Returns the index that belongs to the best number of all lanes, of equal numbers the lowest.
uint best_of_lanes(float value, uint index) {
  if (LANES == 1) return index;
  const uint own = gl_LocalInvocationID.x;
  const uint apart = ADJACENT ? 1 : THREADS / LANES;
  partial[own] = value;
  partial_index[own] = index;
  for (uint half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
    barrier();
    if (lane() < half_lanes) {
      const uint other = own + half_lanes * apart;
      const float a = partial[other], b = partial[own];
      const bool equal = a == b || (a != a && b != b);
      if (equal ? partial_index[other] < partial_index[own] : b == b && BETTER(a, b)) {
        partial[own] = a;
        partial_index[own] = partial_index[other];
      }
    }
  }
  barrier();
  return partial_index[own - lane() * apart];
}
#endif

void main() {
  const uint row = row_index();
  const uint start = row_start(row);
#if defined(OP_sum)
  float sum = 0;
  for (EACH_TERM(term)) sum += float(x[start + offset_of(term)]);
  const float result = sum_of_lanes(sum) * factor;
#else
  // A lane starts with its first element; one without elements with the first of the row.
  uint index = lane() < terms ? lane() : 0;
  float best = float(x[lane() < terms ? start + offset_of(first_term()) : start]);
  for (EACH_TERM(term)) {
    const float value = float(x[start + offset_of(term)]);
    if (best == best && BETTER(value, best)) {
      best = value;
      index = term.index;
    }
  }
#if defined(OP_amax)
  const float result = max_of_lanes(best);
#elif defined(OP_amin)
  const float result = -max_of_lanes(-best);
#else
  const uint result = best_of_lanes(best, index);
#endif
#endif
  if (row < rows && lane() == 0) target[row] = RESULT(result);
}
