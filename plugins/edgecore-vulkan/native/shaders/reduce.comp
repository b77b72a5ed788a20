// Reduces some dims of a tensor: sum, mean, maximum, minimum, or the index of the maximum or minimum.
#version 450
#include "types.glsl"
#include "access.glsl"
#define MORE_PARAMS float factor;
#include "rows.glsl"

INPUT(1, x);

#if defined(OP_argmax) || defined(OP_argmin)
layout(set = 0, binding = 0) writeonly buffer Indices { int indices[]; };

// True if `a` replaces `b` as the best number so far: NaN is both the maximum and the minimum, as in PyTorch.
#if defined(OP_argmax)
#define BETTER(a, b) (a > b || a != a)
#else
#define BETTER(a, b) (a < b || a != a)
#endif

shared float partial_value[THREADS];
shared uint partial_index[THREADS];

// Returns the index of the best number (maximum or minimum) in a row; of equal numbers, the lowest index.
uint best_of_lanes(float value, uint index) {
  if (LANES == 1) return index;
  const uint own = gl_LocalInvocationID.x;
  const uint apart = ADJACENT ? 1 : THREADS / LANES;
  partial_value[own] = value;
  partial_index[own] = index;
  for (uint half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
    barrier();
    if (lane() < half_lanes) {
      const uint other = own + half_lanes * apart;
      const float a = partial_value[other], b = partial_value[own];
      const bool equal = a == b || (a != a && b != b);
      if (equal ? partial_index[other] < partial_index[own] : b == b && BETTER(a, b)) {
        partial_value[own] = a;
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
  const Terms all = all_terms();
#if defined(OP_argmax) || defined(OP_argmin)
  // A thread starts with its first element of the row; a thread without elements, with the row's first element.
  uint index = lane() < all.count ? lane() : 0;
  float best = READ1(x, int(lane() < all.count ? start + offset_of(all, first_term(all)) : start));
  for (EACH_TERM(all, term)) {
    const float value = READ1(x, int(start + offset_of(all, term)));
    if (best == best && BETTER(value, best)) {
      best = value;
      index = term.index;
    }
  }
  const uint result = best_of_lanes(best, index);
  if (row < rows && lane() == 0) indices[row] = int(result);
#else
#if defined(OP_sum)
  vec4 sums = vec4(0);
  for (EACH_TERM(all, term)) sums += LOAD(x, start + offset_of(all, term));
  const vec4 result = sum_of_row(sums) * factor;
#else
#if defined(OP_amax)
  const float sign = 1;
#else
  const float sign = -1;  // minimum(x) = -maximum(-x)
#endif
  vec4 best = vec4(uintBitsToFloat(0xff800000u));  // -infinity
  for (EACH_TERM(all, term)) best = larger(best, sign * LOAD(x, start + offset_of(all, term)));
  const vec4 result = sign * max_of_row(best);
#endif
  if (row >= rows || lane() != 0) return;
  if (ROW_VECTORS) {
    WRITE4(row, result);
  } else {
    WRITE1(row, result.x);
  }
#endif
}
