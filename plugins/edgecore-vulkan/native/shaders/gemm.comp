// out = clamp(x w + bias): x is [m, k], w is [k, n] in panels (panels.glsl), out is [m, n]. Eight adjacent threads
// compute ROWS rows of a panel; each thread computes four columns. Uses no shared memory, which costs more than it
// saves on CPUs and for few rows.
//
// With READ_shuffle each thread reads one of eight rows of x for the other threads. Two vectors of x are read at a
// time, so that the sums are loaded and stored half as often: a CPU has too few registers to keep them.
#version 450
#extension GL_EXT_control_flow_attributes : require
#include "types.glsl"
#include "layer.glsl"

layout(constant_id = 3) const uint ROWS = 8;
layout(constant_id = 4) const uint X_VECTORS = 1;  // number of vectors of a row of x to read at a time; 0: elements
layout(constant_id = 5) const bool OUT_VECTORS = true;  // the number n of output columns is a multiple of 4
layout(constant_id = 6) const bool ADDS = false;        // if `adds`, adds `addend` to the product; needs OUT_VECTORS
LONG_CONSTANT(7)
layout(push_constant) uniform Params {
  int m;
  int k;
  int n;
  float low;
  float high;
  int rows_first;  // adjacent groups of eight threads compute: 1: other rows of the same panel; 0: other panels
  int adds;
  PARAMS_OF_INTEGERS
};
TENSORS;

const uint kVectors = X_VECTORS == 0 ? 1 : X_VECTORS;
const uint kOwn = (ROWS + 7) / 8;  // number of rows that a thread reads with READ_shuffle

void main() {
  const int columns = (n + 3) / 4;
  const int blocks = (m + int(ROWS) - 1) / int(ROWS);
  const int id = int(flat_id());
  const int panels = (columns + 7) / 8;
  const int inner = rows_first != 0 ? blocks : panels;
  const int across = id / 8 % inner, along = id / 8 / inner;
  const int row = (rows_first != 0 ? across : along) * int(ROWS);
  const int column = (rows_first != 0 ? along : across) * 8 + id % 8;
  const int steps = X_VECTORS != 0 ? k / 4 : k;
  SUMS(ROWS);
  const vec4 first = FIRST(min(column, columns - 1));
  [[unroll]] for (int r = 0; r < ROWS; ++r) sums[r] = first;
  // Rows and columns past the end compute with those of other threads, and are not stored.
#if defined(READ_shuffle)
  int from[kOwn];
  [[unroll]] for (int o = 0; o < kOwn; ++o) from[o] = min(row + o * 8 + id % 8, m - 1) * steps;
#else
  int from[ROWS];
  [[unroll]] for (int r = 0; r < ROWS; ++r) from[r] = min(row + r, m - 1) * steps;
#endif
  int at = in_panel(min(column, panels * 8 - 1), k);
  if (X_VECTORS != 0) {
    PARTS(begin, end, steps, 4) {
      for (int i = begin; i < end; i += int(kVectors), at += 32 * int(kVectors)) {
        vec4 weights[kVectors * 4];
        [[unroll]] for (int j = 0; j < kVectors * 4; ++j) weights[j] = W4(at + 8 * j);
#if defined(READ_shuffle)
        vec4 own[kOwn * kVectors];
        [[unroll]] for (int o = 0; o < kOwn * kVectors; ++o) {
          own[o] = X4(from[o / kVectors] + i + o % int(kVectors));
        }
#endif
        [[unroll]] for (int r = 0; r < ROWS; ++r) {
          [[unroll]] for (int j = 0; j < kVectors; ++j) {
#if defined(READ_shuffle)
            const vec4 v = subgroupShuffle(own[r / 8 * kVectors + j], r % 8);
#else
            const vec4 v = X4(from[r] + i + j);
#endif
            sums[r] = fma(v.xxxx, weights[4 * j], sums[r]);
            sums[r] = fma(v.yyyy, weights[4 * j + 1], sums[r]);
            sums[r] = fma(v.zzzz, weights[4 * j + 2], sums[r]);
            sums[r] = fma(v.wwww, weights[4 * j + 3], sums[r]);
          }
        }
      }
      KEEP_PART(ROWS)
    }
  } else {
    PARTS(begin, end, steps, 1) {
      for (int i = begin; i < end; ++i, at += 8) {
        const vec4 w0 = W4(at);
#if defined(READ_shuffle)
        float own[kOwn];
        [[unroll]] for (int o = 0; o < kOwn; ++o) own[o] = X1(from[o] + i);
#endif
        [[unroll]] for (int r = 0; r < ROWS; ++r) {
#if defined(READ_shuffle)
          const float v = subgroupShuffle(own[r / 8], r % 8);
#else
          const float v = X1(from[r] + i);
#endif
          sums[r] = fma(vec4(v), w0, sums[r]);
        }
      }
      KEEP_PART(ROWS)
    }
  }
  KEEP(ROWS)
  if (column >= columns || row >= m) return;
  [[unroll]] for (int r = 0; r < ROWS; ++r) {
    if (row + r >= m) continue;
    if (OUT_VECTORS) {
      STORE4_IF(adds != 0, (row + r) * columns + column, column, r);
    } else {
      const RESULT4 result = RESULT(column, r);
      [[unroll]] for (int c = 0; c < 4; ++c) {
        if (column * 4 + c < n) STORE1((row + r) * n + column * 4 + c, result[c]);
      }
    }
  }
}
