// Access to the rows of a tensor: a row has the elements (terms) along the dims that an operator reduces; there is one
// row for each position in the other dims. LANES threads of a workgroup share a row. Include it after types.glsl and
// access.glsl. MORE_PARAMS are the push constants after those for the rows.
//
// A thread computes with vectors of four numbers: adjacent terms of a row (TERM_VECTORS), or the same term of adjacent
// rows (ROW_VECTORS); then all counts of terms or rows count vectors. Otherwise the four numbers are equal.

layout(constant_id = 3) const uint LANES = 1;         // a power of two
layout(constant_id = 4) const bool ADJACENT = false;  // adjacent threads read the same row, not adjacent rows
layout(constant_id = 5) const uint REDUCED_DIMS = 1;
layout(constant_id = 6) const bool TERM_VECTORS = false;
layout(constant_id = 7) const bool ROW_VECTORS = false;

const uint THREADS = 64;  // number of threads of a workgroup
const bool VECTORS = TERM_VECTORS || ROW_VECTORS;

#ifndef MORE_PARAMS
#define MORE_PARAMS
#endif
// The push constants for the rows. Strides are in elements of the input; the innermost dim of a list is the last.
layout(push_constant) uniform Params {
  uint rows;
  uint terms;  // number of terms (elements) of a row
  uint kept_dims;
  uint kept[6];
  uint kept_strides[6];
  uint reduced[3];
  uint reduced_strides[3];
  MORE_PARAMS
};

// LOAD reads the input at an offset in elements, STORE writes a result at such an offset.
#define LOAD(name, at) (VECTORS ? READ4(name, int(at) / 4) : vec4(READ1(name, int(at))))
#define STORE(at, value)          \
  {                               \
    if (VECTORS) {                \
      WRITE4((at) / 4, value);    \
    } else {                      \
      WRITE1(at, (value).x);      \
    }                             \
  }

shared vec4 partial[THREADS];

uint lane() { return ADJACENT ? gl_LocalInvocationID.x % LANES : gl_LocalInvocationID.x / (THREADS / LANES); }

// Returns the number of the row that this thread computes, which may be past the end.
uint row_index() {
  const uint group = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x;
  const uint per_group = THREADS / LANES;
  return group * per_group + (ADJACENT ? gl_LocalInvocationID.x / LANES : gl_LocalInvocationID.x % per_group);
}

// Returns the offset of the first element of a row. Rows past the end repeat the last row instead of returning, because
// all threads of a workgroup must take part in its barriers.
uint row_start(uint row) {
  uint rest = min(row, rows - 1);
  uint at = 0;
  for (uint d = kept_dims; d > 1; --d) {
    at += rest % kept[d - 1] * kept_strides[d - 1];
    rest /= kept[d - 1];
  }
  return at + rest * kept_strides[0];
}

// A term of a row: its index in the row, in the last reduced dim, and in the reduced dims before. A thread steps
// through its terms without divisions, which are slow, and without loading push constants.
struct Term {
  uint index;
  uint outer, inner;
};

struct Terms {
  uint count;
  uint inner_size, inner_stride, outer_stride;
};

Terms all_terms() {
  return Terms(terms, reduced[REDUCED_DIMS - 1], reduced_strides[REDUCED_DIMS - 1],
               REDUCED_DIMS == 1 ? 0 : reduced_strides[REDUCED_DIMS - 2]);
}

Term first_term(Terms all) {
  return REDUCED_DIMS == 1 ? Term(lane(), 0, 0) : Term(lane(), lane() / all.inner_size, lane() % all.inner_size);
}

Term next_term(Terms all, Term term) {
  Term next = Term(term.index + LANES, 0, 0);
  if (REDUCED_DIMS > 1) {
    next.outer = term.outer + LANES / all.inner_size;
    next.inner = term.inner + LANES % all.inner_size;
    if (next.inner >= all.inner_size) {
      next.inner -= all.inner_size;
      ++next.outer;
    }
  }
  return next;
}

// Returns the distance of a term from the first one of its row.
uint offset_of(Terms all, Term term) {
  if (REDUCED_DIMS == 1) return term.index * all.inner_stride;
  const uint inner = term.inner * all.inner_stride;
  if (REDUCED_DIMS == 2) return inner + term.outer * all.outer_stride;
  return inner + term.outer % reduced[1] * all.outer_stride + term.outer / reduced[1] * reduced_strides[0];
}

#define EACH_TERM(all, term) Term term = first_term(all); term.index < all.count; term = next_term(all, term)

float sum(float a, float b) { return a + b; }
// Returns the larger of two numbers; NaN if one is NaN, as in PyTorch.
float larger(float a, float b) { return b > a || b != b ? b : a; }

vec4 sum(vec4 a, vec4 b) { return a + b; }
vec4 larger(vec4 a, vec4 b) {
  return vec4(larger(a.x, b.x), larger(a.y, b.y), larger(a.z, b.z), larger(a.w, b.w));
}

// Define functions that combine the numbers of all lanes of a row, and return the result to each lane.
#define OF_ROW(name, combine)                                                     \
  vec4 name(vec4 value) {                                                         \
    if (TERM_VECTORS) value = vec4(combine(combine(value.x, value.y), combine(value.z, value.w))); \
    if (LANES == 1) return value;                                                 \
    const uint own = gl_LocalInvocationID.x;                                      \
    const uint apart = ADJACENT ? 1 : THREADS / LANES;                            \
    partial[own] = value;                                                         \
    for (uint half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {          \
      barrier();                                                                  \
      if (lane() < half_lanes) partial[own] = combine(partial[own], partial[own + half_lanes * apart]); \
    }                                                                             \
    barrier();                                                                    \
    const vec4 result = partial[own - lane() * apart];                            \
    barrier();                                                                    \
    return result;                                                                \
  }
OF_ROW(sum_of_row, sum)
OF_ROW(max_of_row, larger)
