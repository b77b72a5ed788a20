// out = alpha * (a b) + addend, like matmul.comp, for CPUs with subgroups of eight threads: a subgroup computes ROWS
// rows of 32 columns, whose threads read rows of `a` for each other. A thread computes four columns. Rows of b are
// whole vectors.
#version 450
#include "types.glsl"
#include "access.glsl"

layout(constant_id = 3) const bool TRANSPOSED = false;  // b is [n, k]
layout(constant_id = 4) const bool HAS_ADDEND = false;
layout(constant_id = 5) const bool A_VECTORS = true;    // rows of matrix a are read in vectors; k is a multiple of 4
layout(constant_id = 6) const bool OUT_VECTORS = true;  // the number n of output columns is a multiple of 4
layout(constant_id = 7) const uint ROWS = 8;            // a multiple of 8
layout(push_constant) uniform Params {
  int m;
  int k;
  int n;
  int batches;
  int b_batches;       // number of matrices b in the batch; 1: all batches share one b
  // Strides of the addend, in elements: addend_batches along the outer batch dim, addend_rows, addend_columns.
  int addend_batches;
  int addend_inner;    // stride of the addend along the inner batch dim, if there are two
  int inner;           // its size
  int addend_rows;
  int addend_columns;
  float alpha;
};
INPUT(1, a);
INPUT(2, b);
INPUT(3, addend);

const uint LOADS = ROWS / 8;

void main() {
  const int id = int(flat_id()), lane = id % 8;
  const int columns = (n + 3) / 4, depth = k;
  const int panels = (columns + 7) / 8, blocks = (m + int(ROWS) - 1) / int(ROWS);
  int rest = id / 8;
  const int column = rest % panels * 8 + lane;
  rest /= panels;
  const int row = rest % blocks * int(ROWS);
  const int batch = min(rest / blocks, batches - 1);
  // Rows and columns past the end repeat the last row or column, and are not stored.
  int from[LOADS];
  for (int l = 0; l < LOADS; ++l) from[l] = (batch * m + min(row + l * 8 + lane, m - 1)) * depth;
  const int b_start = b_batches == 1 ? 0 : batch * n * depth;
  ivec4 b_rows = b_start + min(ivec4(0, 1, 2, 3) + column * 4, ivec4(n - 1)) * depth;  // for a transposed b
  int at = b_start / 4 + min(column, columns - 1);
  vec4 sums[ROWS];
  for (int r = 0; r < ROWS; ++r) sums[r] = vec4(0);
  if (A_VECTORS) {
    b_rows /= 4;
    for (int l = 0; l < LOADS; ++l) from[l] /= 4;
    const int steps = depth / 4;
    for (int i = 0; i < steps; ++i) {
      mat4 parts;  // parts[j] has row 4 i + j of matrix b for the thread's four columns
      if (TRANSPOSED) {
        parts = transpose(mat4(READ4(b, b_rows.x + i), READ4(b, b_rows.y + i), READ4(b, b_rows.z + i),
                               READ4(b, b_rows.w + i)));
      } else {
        for (int j = 0; j < 4; ++j, at += columns) parts[j] = READ4(b, at);
      }
      vec4 own[LOADS];
      for (int l = 0; l < LOADS; ++l) own[l] = READ4(a, from[l] + i);
      for (int r = 0; r < ROWS; ++r) {
        const vec4 v = subgroupShuffle(own[r / 8], r % 8);
        sums[r] = fma(v.wwww, parts[3], fma(v.zzzz, parts[2], fma(v.yyyy, parts[1], fma(v.xxxx, parts[0], sums[r]))));
      }
    }
  } else {
    for (int i = 0; i < depth; ++i, at += columns) {
      const vec4 part = READ4(b, at);
      float own[LOADS];
      for (int l = 0; l < LOADS; ++l) own[l] = READ1(a, from[l] + i);
      for (int r = 0; r < ROWS; ++r) sums[r] = fma(vec4(subgroupShuffle(own[r / 8], r % 8)), part, sums[r]);
    }
  }
  if (column >= columns || rest / blocks >= batches) return;
  for (int r = 0; r < ROWS; ++r) {
    if (row + r >= m) break;
    vec4 sum = sums[r] * alpha;
    if (HAS_ADDEND) {
      const int first = batch / inner * addend_batches + batch % inner * addend_inner + (row + r) * addend_rows;
      const ivec4 places = first + min(ivec4(0, 1, 2, 3) + column * 4, ivec4(n - 1)) * addend_columns;
      sum += vec4(READ1(addend, places.x), READ1(addend, places.y), READ1(addend, places.z), READ1(addend, places.w));
    }
    if (OUT_VECTORS) {
      WRITE4((batch * m + row + r) * columns + column, sum);
    } else {
      for (int c = 0; c < 4 && column * 4 + c < n; ++c) WRITE1((batch * m + row + r) * n + column * 4 + c, sum[c]);
    }
  }
}
