// out = clamp(x w + bias): x is [m, k], w is [k, n] in panels (access.glsl), out is [m, n]. Eight neighbouring threads
// compute ROWS rows of a panel; each thread computes four columns. No shared memory: it costs more than it saves on
// processors and for few rows.
//
// With READ_shuffle each thread reads one of the rows, and the others get it from there.
#version 450
#include "types.glsl"
#include "access.glsl"

layout(constant_id = 3) const uint ROWS = 8;
layout(constant_id = 4) const bool X_VECTORS = true;    // k is a multiple of 4, and x is read in vectors
layout(constant_id = 5) const bool OUT_VECTORS = true;  // n is a multiple of 4
layout(push_constant) uniform Params {
  int m;
  int k;
  int n;
  float low;
  float high;
  int rows_first;  // whether neighbouring threads compute other rows of the same panel, and not other panels
};
INPUT(1, x);
WEIGHTS(2, w);
BIAS(3, bias);

void main() {
  const int columns = (n + 3) / 4;
  const int blocks = (m + int(ROWS) - 1) / int(ROWS);
  const int id = int(flat_id());
  const int panels = (columns + 7) / 8;
  const int inner = rows_first != 0 ? blocks : panels;
  const int across = id / 8 % inner, along = id / 8 / inner;
  const int row = (rows_first != 0 ? across : along) * int(ROWS);
  const int column = (rows_first != 0 ? along : across) * 8 + id % 8;
  const int steps = X_VECTORS ? k / 4 : k;
  vec4 sums[ROWS];
  const vec4 first = READ4(bias, min(column, columns - 1));
  for (int r = 0; r < ROWS; ++r) sums[r] = first;
  // Rows and columns past the end repeat others, and are not stored.
#if defined(READ_shuffle)
  const int from = min(row + id % 8, m - 1) * steps;
#else
  int from[ROWS];
  for (int r = 0; r < ROWS; ++r) from[r] = min(row + r, m - 1) * steps;
#endif
  int at = in_panel(min(column, panels * 8 - 1), k);
  if (X_VECTORS) {
    for (int i = 0; i < steps; ++i, at += 32) {
      const vec4 w0 = READ4(w, at);
      const vec4 w1 = READ4(w, at + 8);
      const vec4 w2 = READ4(w, at + 16);
      const vec4 w3 = READ4(w, at + 24);
#if defined(READ_shuffle)
      const vec4 own = READ4(x, from + i);
#endif
      for (int r = 0; r < ROWS; ++r) {
#if defined(READ_shuffle)
        const vec4 v = subgroupShuffle(own, r);
#else
        const vec4 v = READ4(x, from[r] + i);
#endif
        sums[r] = fma(v.wwww, w3, fma(v.zzzz, w2, fma(v.yyyy, w1, fma(v.xxxx, w0, sums[r]))));
      }
    }
  } else {
    for (int i = 0; i < steps; ++i, at += 8) {
      const vec4 w0 = READ4(w, at);
#if defined(READ_shuffle)
      const float own = READ1(x, from + i);
      for (int r = 0; r < ROWS; ++r) sums[r] = fma(vec4(subgroupShuffle(own, r)), w0, sums[r]);
#else
      for (int r = 0; r < ROWS; ++r) sums[r] = fma(vec4(READ1(x, from[r] + i)), w0, sums[r]);
#endif
    }
  }
  if (column >= columns || row >= m) return;
  for (int r = 0; r < ROWS; ++r) {
    if (row + r >= m) break;
    const vec4 sum = limited(sums[r], low, high);
    if (OUT_VECTORS) {
      WRITE4((row + r) * columns + column, sum);
    } else {
      for (int c = 0; c < 4 && column * 4 + c < n; ++c) WRITE1((row + r) * n + column * 4 + c, sum[c]);
    }
  }
}
