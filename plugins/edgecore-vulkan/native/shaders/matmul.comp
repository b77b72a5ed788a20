// out = alpha * (a b) + addend for batches of computed (not constant) matrices: a is [m, k], b is [k, n] or,
// transposed, [n, k], all in row-major order; the addend has any strides. One thread computes ROWS rows and four
// columns.
//
// All threads of a workgroup compute the same rows, so that the device can load numbers of `a` once for all.
#version 450
#extension GL_EXT_shader_16bit_storage : require
#if defined(KIND_f32)  // f32, f32 -> f32
#define TA float
#define TA4 vec4
#define TB float
#define TB4 vec4
#define TO float
#define TO4 vec4
#elif defined(KIND_f16)  // f16, f16 -> f16
#define TA float16_t
#define TA4 f16vec4
#define TB float16_t
#define TB4 f16vec4
#define TO float16_t
#define TO4 f16vec4
#elif defined(KIND_scores)  // f16, f16 -> f32
#define TA float16_t
#define TA4 f16vec4
#define TB float16_t
#define TB4 f16vec4
#define TO float
#define TO4 vec4
#else  // dtypes of KIND_weighted: a is f32, b is f16, the result f16
#define TA float
#define TA4 vec4
#define TB float16_t
#define TB4 f16vec4
#define TO float16_t
#define TO4 f16vec4
#endif

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(constant_id = 3) const bool TRANSPOSED = false;  // b is [n, k]
layout(constant_id = 4) const bool HAS_ADDEND = false;
layout(constant_id = 5) const bool A_VECTORS = false;  // rows of matrix a are whole vectors of four elements
layout(constant_id = 6) const bool B_VECTORS = false;  // rows of matrix b are whole vectors of four elements
layout(constant_id = 7) const uint ROWS = 8;

layout(push_constant) uniform Params {
  uint m;
  uint k;
  uint n;
  uint batches;
  uint b_batches;       // number of matrices b in the batch; 1: all batches share one b
  // Strides of the addend, in elements: addend_batches along the outer batch dim, addend_rows, addend_columns.
  uint addend_batches;
  uint addend_inner;    // stride of the addend along the inner batch dim, if there are two
  uint inner;           // its size
  uint addend_rows;
  uint addend_columns;
  float alpha;
};
layout(set = 0, binding = 0) writeonly buffer Output { TO target[]; };
layout(set = 0, binding = 0) writeonly buffer Output4 { TO4 target4[]; };
layout(set = 0, binding = 1) readonly buffer InputA { TA a_data[]; };
layout(set = 0, binding = 1) readonly buffer InputA4 { TA4 a_data4[]; };
layout(set = 0, binding = 2) readonly buffer InputB { TB b_data[]; };
layout(set = 0, binding = 2) readonly buffer InputB4 { TB4 b_data4[]; };
layout(set = 0, binding = 3) readonly buffer Addend { TB addend[]; };

// Returns four numbers of `a` from index `at` on; only the first `valid` of them are used.
vec4 load_a(uint at, uint valid) {
  if (A_VECTORS) return vec4(a_data4[at / 4]);
  vec4 values = vec4(float(a_data[at]), 0, 0, 0);
  if (valid > 1) values.y = float(a_data[at + 1]);
  if (valid > 2) values.z = float(a_data[at + 2]);
  if (valid > 3) values.w = float(a_data[at + 3]);
  return values;
}

vec4 load_b(uint at, uint valid) {
  if (B_VECTORS) return vec4(b_data4[at / 4]);
  vec4 values = vec4(float(b_data[at]), 0, 0, 0);
  if (valid > 1) values.y = float(b_data[at + 1]);
  if (valid > 2) values.z = float(b_data[at + 2]);
  if (valid > 3) values.w = float(b_data[at + 3]);
  return values;
}

void multiply(uint batch, uint row, uint column) {
  const uint columns = min(n - column, 4);
  const uint b_start = (b_batches == 1 ? 0 : batch) * k * n;
  // Rows and columns past the end repeat the last row or column, and are not stored.
  const uvec4 b_rows = b_start + min(uvec4(column, column + 1, column + 2, column + 3), uvec4(n - 1)) * k;
  uint a_rows[ROWS];
  vec4 sums[ROWS];
  for (uint r = 0; r < ROWS; ++r) {
    a_rows[r] = (batch * m + min(row + r, m - 1)) * k;
    sums[r] = vec4(0);
  }
  for (uint i = 0; i < k; i += 4) {
    const uint valid = min(k - i, 4);
    mat4 b;  // b[j] has row i + j of matrix b for the thread's four columns
    if (TRANSPOSED) {
      b = transpose(mat4(load_b(b_rows.x + i, valid), load_b(b_rows.y + i, valid), load_b(b_rows.z + i, valid),
                         load_b(b_rows.w + i, valid)));
    } else {
      const uint at = b_start + i * n + column;
      b[0] = load_b(at, columns);
      b[1] = valid > 1 ? load_b(at + n, columns) : vec4(0);
      b[2] = valid > 2 ? load_b(at + 2 * n, columns) : vec4(0);
      b[3] = valid > 3 ? load_b(at + 3 * n, columns) : vec4(0);
    }
    for (uint r = 0; r < ROWS; ++r) {
      const vec4 a = load_a(a_rows[r] + i, valid);
      sums[r] = fma(a.wwww, b[3], fma(a.zzzz, b[2], fma(a.yyyy, b[1], fma(a.xxxx, b[0], sums[r]))));
    }
  }
  for (uint r = 0; r < ROWS; ++r) {
    if (row + r >= m) break;
    vec4 sum = sums[r] * alpha;
    if (HAS_ADDEND) {
      const uint at = batch / inner * addend_batches + batch % inner * addend_inner + (row + r) * addend_rows;
      for (uint c = 0; c < 4; ++c) sum[c] += float(addend[at + min(column + c, n - 1) * addend_columns]);
    }
    const uint at = (batch * m + row + r) * n + column;
    if (n % 4 == 0) {
      target4[at / 4] = TO4(sum);
    } else {
      target[at] = TO(sum.x);
      if (columns > 1) target[at + 1] = TO(sum.y);
      if (columns > 2) target[at + 2] = TO(sum.z);
      if (columns > 3) target[at + 3] = TO(sum.w);
    }
  }
}

void main() {
  const uint column = gl_GlobalInvocationID.x * 4;
  if (column >= n) return;
  for (uint batch = gl_WorkGroupID.z; batch < batches; batch += gl_NumWorkGroups.z) {
    for (uint row = gl_WorkGroupID.y * ROWS; row < m; row += gl_NumWorkGroups.y * ROWS) multiply(batch, row, column);
  }
}
