// out = clamp(x w + bias), like gemm.comp, for GPUs: a workgroup of 8 x 16 threads computes a tile of 8 * ROWS rows and
// 64 columns from parts of x and w in shared memory; a thread computes ROWS rows and 4 columns.
#version 450
#include "types.glsl"
#include "access.glsl"

layout(constant_id = 3) const bool X_VECTORS = true;    // k, the length of rows of x, is a multiple of 4
layout(constant_id = 4) const bool OUT_VECTORS = true;  // the number n of output columns is a multiple of 4
layout(constant_id = 5) const bool ADDS = false;  // adds the tensor `addend` to the product; only with OUT_VECTORS
layout(constant_id = 6) const int ROWS = 8;
layout(push_constant) uniform Params {
  int m;
  int k;
  int n;
  float low;
  float high;
};
INPUT(1, x);
WEIGHTS(2, w);
BIAS(3, bias);
ADDEND(4, addend);

const int kRows = 8 * ROWS, kSteps = 16, kColumns = 16;  // sizes of a tile: rows, steps of k, vectors of columns
const int kStride = kRows + 1;  // one more than a row, so that threads write to different banks
shared float x_part[kSteps * kStride];
shared vec4 w_part[kSteps][kColumns];

void main() {
  const int columns = (n + 3) / 4;
  const int thread = int(gl_LocalInvocationIndex);
  const int column = int(gl_WorkGroupID.x) * kColumns + thread % kColumns;
  const int first = int(gl_WorkGroupID.y) * kRows;
  const int row = thread / kColumns * ROWS;
  vec4 sums[ROWS];
  for (int r = 0; r < ROWS; ++r) sums[r] = READ4(bias, min(column, columns - 1));
  for (int step = 0; step < k; step += kSteps) {
    // Each thread loads vectors of four steps of x, and vectors of four columns of w, into shared memory.
    for (int part = thread; part < kRows * kSteps / 4; part += 128) {
      const int r = first + part / 4, s = part % 4 * 4;
      vec4 v = vec4(0);
      if (X_VECTORS) {
        if (r < m && step + s < k) v = READ4(x, (r * k + step + s) / 4);
      } else {
        for (int c = 0; c < 4; ++c) {
          if (r < m && step + s + c < k) v[c] = READ1(x, r * k + step + s + c);
        }
      }
      for (int c = 0; c < 4; ++c) x_part[(s + c) * kStride + part / 4] = v[c];
    }
    for (int part = thread; part < kColumns * kSteps; part += 128) {
      const int s = step + part / kColumns, c = int(gl_WorkGroupID.x) * kColumns + part % kColumns;
      vec4 v = vec4(0);
      if (s < k && c < columns) v = READ4(w, in_panel(c, k) + 8 * s);
      w_part[part / kColumns][part % kColumns] = v;
    }
    barrier();
    for (int s = 0; s < kSteps; ++s) {
      const vec4 weights = w_part[s][thread % kColumns];
      for (int r = 0; r < ROWS; ++r) sums[r] = fma(vec4(x_part[s * kStride + row + r]), weights, sums[r]);
    }
    barrier();
  }
  if (column >= columns) return;
  for (int r = 0; r < ROWS && first + row + r < m; ++r) {
    const int at = first + row + r;
    if (OUT_VECTORS) {
      FINISH4(at * columns + column, sums[r]);
    } else {
      const vec4 sum = limited(sums[r], low, high);
      for (int c = 0; c < 4 && column * 4 + c < n; ++c) WRITE1(at * n + column * 4 + c, sum[c]);
    }
  }
}
