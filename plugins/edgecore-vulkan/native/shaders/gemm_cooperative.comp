// out = clamp(x w + bias), like gemm_tiled.comp, in fp16 with sums in fp32, by cooperative matrices. A workgroup of 2 x
// 2 subgroups computes a tile of 2 x 2 parts from pieces of x and w in shared memory; a subgroup computes one part,
// which consists of kBlocks x kBlocks matrices.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "types.glsl"
#include "access.glsl"

layout(constant_id = 3) const bool X_VECTORS = true;  // k, the length of rows of x, is a multiple of 4
layout(constant_id = 4) const bool ADDS = false;      // adds the tensor `addend` to the product
// The sizes of the device's cooperative matrices: [ROWS, STEPS] times [STEPS, COLUMNS] is [ROWS, COLUMNS].
layout(constant_id = 5) const int ROWS = 16;
layout(constant_id = 6) const int COLUMNS = 16;
layout(constant_id = 7) const int STEPS = 16;
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

const int kBlocks = 4;  // a subgroup's part has kBlocks x kBlocks matrices
const int kTileRows = 2 * kBlocks * ROWS, kTileColumns = 2 * kBlocks * COLUMNS;
const int kTileSteps = 2 * STEPS;
// In shared memory, rows of x and w are 8 elements longer, so that the rows of a matrix are in different banks.
const int kXStride = kTileSteps + 8, kWStride = kTileColumns + 8;
shared f16vec4 x_part[kTileRows * kXStride / 4];
shared f16vec4 w_part[kTileSteps * kWStride / 4];
shared float results[4 * ROWS * COLUMNS];  // shared memory for one result matrix of each subgroup

f16vec4 x_vector(int row, int step) {
  if (row >= m) return f16vec4(0);
  if (X_VECTORS) return step < k ? f16vec4(READ4(x, (row * k + step) / 4)) : f16vec4(0);
  vec4 v = vec4(0);
  for (int c = 0; c < 4; ++c) {
    if (step + c < k) v[c] = READ1(x, row * k + step + c);
  }
  return f16vec4(v);
}

void main() {
  const int thread = int(gl_LocalInvocationIndex), threads = int(gl_WorkGroupSize.x);
  const int first_row = int(gl_WorkGroupID.y) * kTileRows, first_column = int(gl_WorkGroupID.x) * kTileColumns;
  const int columns = (n + 3) / 4;  // in vectors
  const int part_row = int(gl_SubgroupID) / 2 * kBlocks * ROWS,
            part_column = int(gl_SubgroupID) % 2 * kBlocks * COLUMNS;
  coopmat<float, gl_ScopeSubgroup, ROWS, COLUMNS, gl_MatrixUseAccumulator> sums[kBlocks][kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    for (int j = 0; j < kBlocks; ++j) {
      sums[i][j] = coopmat<float, gl_ScopeSubgroup, ROWS, COLUMNS, gl_MatrixUseAccumulator>(0.0);
    }
  }
  for (int step = 0; step < k; step += kTileSteps) {
    for (int i = thread; i < kTileRows * kTileSteps / 4; i += threads) {
      const int row = i / (kTileSteps / 4), vector = i % (kTileSteps / 4);
      x_part[row * kXStride / 4 + vector] = x_vector(first_row + row, step + 4 * vector);
    }
    for (int i = thread; i < kTileSteps * kTileColumns / 4; i += threads) {
      const int row = i / (kTileColumns / 4), vector = i % (kTileColumns / 4), column = first_column / 4 + vector;
      const bool is_inside = step + row < k && column < columns;
      w_part[row * kWStride / 4 + vector] =
          is_inside ? f16vec4(READ4(w, in_panel(column, k) + 8 * (step + row))) : f16vec4(0);
    }
    barrier();
    for (int s = 0; s < kTileSteps; s += STEPS) {
      coopmat<float16_t, gl_ScopeSubgroup, STEPS, COLUMNS, gl_MatrixUseB> b[kBlocks];
      for (int j = 0; j < kBlocks; ++j) {
        coopMatLoad(b[j], w_part, (s * kWStride + part_column + j * COLUMNS) / 4, kWStride / 4,
                    gl_CooperativeMatrixLayoutRowMajor);
      }
      for (int i = 0; i < kBlocks; ++i) {
        coopmat<float16_t, gl_ScopeSubgroup, ROWS, STEPS, gl_MatrixUseA> a;
        coopMatLoad(a, x_part, ((part_row + i * ROWS) * kXStride + s) / 4, kXStride / 4,
                    gl_CooperativeMatrixLayoutRowMajor);
        for (int j = 0; j < kBlocks; ++j) sums[i][j] = coopMatMulAdd(a, b[j], sums[i][j]);
      }
    }
    barrier();
  }
  const int own = int(gl_SubgroupID) * ROWS * COLUMNS;
  for (int i = 0; i < kBlocks; ++i) {
    for (int j = 0; j < kBlocks; ++j) {
      coopMatStore(sums[i][j], results, own, COLUMNS, gl_CooperativeMatrixLayoutRowMajor);
      barrier();
      for (int e = int(gl_SubgroupInvocationID); e < ROWS * COLUMNS; e += int(gl_SubgroupSize)) {
        const int row = first_row + part_row + i * ROWS + e / COLUMNS;
        const int column = first_column + part_column + j * COLUMNS + e % COLUMNS;
        if (row < m && column < n) {
          const int at = row * n + column;
          float result = limited(vec4(results[own + e] + READ1(bias, column)), low, high).x;
          if (ADDS) result += READ1(addend, at);
          WRITE1(at, result);
        }
      }
      barrier();
    }
  }
}
