// Rows of a tensor: the elements along the dims that an operator reduces, of which there is one row for each position
// in the other dims. LANES threads of a workgroup share a row. To be included after types.glsl; MORE_PARAMS are the
// push constants after those of the 

layout(constant_id = 3) const uint LANES = 1;         // a power of two
layout(constant_id = 4) const bool ADJACENT = false;  // neighbouring threads read the same row, not neighbouring rows
layout(constant_id = 5) const uint REDUCED_DIMS = 1;

const uint THREADS = 64;  // the size of a workgroup

#ifndef MORE_PARAMS
#define MORE_PARAMS
#endif
// Strides are in elements of the input; the innermost dim of a list is the last.
layout(push_constant) uniform Params {
  uint rows;
  uint terms;  // elements of a row
  uint kept_dims;
  uint kept[6];
  uint kept_strides[6];
  uint reduced[3];
  uint reduced_strides[3];
  MORE_PARAMS
};

shared float partial[THREADS];

uint lane() { return ADJACENT ? gl_LocalInvocationID.x % LANES : gl_LocalInvocationID.x / (THREADS / LANES); }

// The number of the row of this thread, which may be past the end.
uint row_index() {
  const uint group = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x;
  const uint per_group = THREADS / LANES;
  return group * per_group + (ADJACENT ? gl_LocalInvocationID.x / LANES : gl_LocalInvocationID.x % per_group);
}

// The offset of the first element of a row. Rows past the end repeat the last one, since all threads of a workgroup
// take part in its barriers.
uint row_start(uint row) {
  uint rest = min(row, rows - 1);
  uint at = 0;
  for (uint d = kept_dims; d > 1; --d) {
    at += rest % kept[d - 1] * kept_strides[d - 1];
    rest /= kept[d - 1];
  }
  return at + rest * kept_strides[0];
}

// An element of a row, as its index in the row and as its indices in the last dim and in the dims before. A thread
// steps through its elements without divisions, which are slow.
struct Term {
  uint index;
  uint outer, inner;
};

Term first_term() {
  const uint inner = reduced[REDUCED_DIMS - 1];
  return REDUCED_DIMS == 1 ? Term(lane(), 0, 0) : Term(lane(), lane() / inner, lane() % inner);
}

Term next_term(Term term) {
  Term next = Term(term.index + LANES, 0, 0);
  if (REDUCED_DIMS > 1) {
    const uint size = reduced[REDUCED_DIMS - 1];
    next.outer = term.outer + LANES / size;
    next.inner = term.inner + LANES % size;
    if (next.inner >= size) {
      next.inner -= size;
      ++next.outer;
    }
  }
  return next;
}

// The offset of an element from the first of its row.
uint offset_of(Term term) {
  if (REDUCED_DIMS == 1) return term.index * reduced_strides[0];
  const uint inner = term.inner * reduced_strides[REDUCED_DIMS - 1];
  if (REDUCED_DIMS == 2) return inner + term.outer * reduced_strides[0];
  return inner + term.outer % reduced[1] * reduced_strides[1] +
         term.outer / reduced[1] * reduced_strides[0];
}

#define EACH_TERM(term) Term term = first_term(); term.index < terms; term = next_term(term)

// Functions that return to all lanes of a row what they compute together of a number of each.
#define OF_ALL_LANES(name, combine)                                               \
  float name(float value) {                                                       \
    if (LANES == 1) return value;                                                 \
    const uint own = gl_LocalInvocationID.x;                                      \
    const uint apart = ADJACENT ? 1 : THREADS / LANES;                            \
    partial[own] = value;                                                         \
    for (uint half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {          \
      barrier();                                                                  \
      if (lane() < half_lanes) {                                                  \
        const float a = partial[own], b = partial[own + half_lanes * apart];      \
        partial[own] = combine;                                                   \
      }                                                                           \
    }                                                                             \
    barrier();                                                                    \
    const float result = partial[own - lane() * apart];                           \
    barrier();                                                                    \
    return result;                                                                \
  }
OF_ALL_LANES(sum_of_lanes, a + b)
OF_ALL_LANES(max_of_lanes, (b > a || b != b) ? b : a)
