// out = clamp(x w + bias): x is [m, k], w is [k, n] in vectors of four columns, out is [m, n]. One thread computes ROWS
// rows and four columns. No shared memory: it costs more than it saves on processors and for few rows.
#version 450
#include "types.glsl"
#include "read.glsl"

layout(constant_id = 3) const uint ROWS = 8;
layout(constant_id = 4) const bool X_VECTORS = true;    // k is a multiple of 4, and x is read in vectors
layout(constant_id = 5) const bool OUT_VECTORS = true;  // n is a multiple of 4
layout(push_constant) uniform Params {
  int m;
  int k;
  int n;
  float low;
  float high;
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 0) writeonly buffer Output4 { T4 target4[]; };
INPUT(1, x);
INPUT(2, w);
INPUT(3, bias);

void main() {
  const int columns = (n + 3) / 4;
  const int id = int(flat_id());
  const int column = id % columns;
  const int row = id / columns * int(ROWS);
  if (row >= m) return;
  const int steps = X_VECTORS ? k / 4 : k;
  vec4 sums[ROWS];
  int from[ROWS];
  for (int r = 0; r < ROWS; ++r) {
    sums[r] = READ4(bias, column);
    from[r] = min(row + r, m - 1) * steps;  // rows past the end repeat the last one, and are not stored
  }
  int at = column;
  if (X_VECTORS) {
    for (int i = 0; i < steps; ++i, at += 4 * columns) {
      const vec4 w0 = READ4(w, at);
      const vec4 w1 = READ4(w, at + columns);
      const vec4 w2 = READ4(w, at + 2 * columns);
      const vec4 w3 = READ4(w, at + 3 * columns);
      for (int r = 0; r < ROWS; ++r) {
        const vec4 v = READ4(x, from[r] + i);
        sums[r] = fma(v.wwww, w3, fma(v.zzzz, w2, fma(v.yyyy, w1, fma(v.xxxx, w0, sums[r]))));
      }
    }
  } else {
    for (int i = 0; i < steps; ++i, at += columns) {
      const vec4 w0 = READ4(w, at);
      for (int r = 0; r < ROWS; ++r) sums[r] = fma(vec4(READ1(x, from[r] + i)), w0, sums[r]);
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    if (row + r >= m) break;
    const vec4 sum = limited(sums[r], low, high);
    if (OUT_VECTORS) {
      target4[(row + r) * columns + column] = T4(sum);
    } else {
      for (int c = 0; c < 4 && column * 4 + c < n; ++c) target[(row + r) * n + column * 4 + c] = T(sum[c]);
    }
  }
}
