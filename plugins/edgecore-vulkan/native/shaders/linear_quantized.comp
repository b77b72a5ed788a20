// out = x w^T + bias with weights of 4 or 8 bits, and a scale for each group of elements in a row of w. One thread
// computes ROWS rows and four columns of the result. x has floats, or integers from which the zero point was
// subtracted, with a scale for each row; sums of integers are exact within a group.
//
// Weights are 32-bit words of 8 or 4 elements of one row of w, the first element in the lowest bits, in vectors for
// four columns of the result: [groups, words of a group, columns / 4]. The last word of a group is padded with zeros.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint m;
  uint k;
  uint n;
  uint group;
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer Weights { uvec4 w[]; };
layout(set = 0, binding = 2) readonly buffer Scales { vec4 scales[]; };  // [groups, columns / 4]
layout(set = 0, binding = 3) readonly buffer Bias { vec4 bias[]; };
#if defined(INPUT_rows)
layout(set = 0, binding = 4) readonly buffer Input { int x[]; };
layout(set = 0, binding = 5) readonly buffer RowScales { float row_scales[]; };
#define S4 ivec4
#define S int
#else
layout(set = 0, binding = 4) readonly buffer Input { T x[]; };
#define S4 vec4
#define S float
#endif

const uint kPerWord = 32 / BITS;

void main() {
  const uint columns = (n + 3) / 4;
  const uint id = flat_id();
  const uint column = id % columns;
  const uint row = id / columns * ROWS;
  if (row >= m) return;
  uint start[ROWS];
  vec4 sums[ROWS];
  for (uint r = 0; r < ROWS; ++r) {
    start[r] = min(row + r, m - 1) * k;  // rows past the end repeat the last row, and are not stored
    sums[r] = vec4(0);
  }
  uint at = column;
  for (uint g = 0; g * group < k; ++g) {
    S4 partial[ROWS];
    for (uint r = 0; r < ROWS; ++r) partial[r] = S4(0);
    for (uint i = 0; i < group; i += kPerWord, at += columns) {
      const uvec4 word = w[at];
      const uint first = g * group + i;
      const uint filled = min(group - i, kPerWord);
      for (uint j = 0; j < filled; ++j) {
        const S4 weights = S4(ivec4(word << (32 - BITS - j * BITS)) >> (32 - BITS));
        for (uint r = 0; r < ROWS; ++r) partial[r] += S(x[start[r] + first + j]) * weights;
      }
    }
    const vec4 scale = scales[g * columns + column];
    for (uint r = 0; r < ROWS; ++r) sums[r] += vec4(partial[r]) * scale;
  }
  for (uint r = 0; r < ROWS && row + r < m; ++r) {
#if defined(INPUT_rows)
    const vec4 result = sums[r] * row_scales[row + r] + bias[column];
#else
    const vec4 result = sums[r] + bias[column];
#endif
    for (uint c = 0; c < 4 && column * 4 + c < n; ++c) target[(row + r) * n + column * 4 + c] = T(result[c]);
  }
}
