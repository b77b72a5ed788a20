// out = clamp(x w + bias): x is [m, k], w is [k, n4] in vectors of four columns, out is [m, n]. One thread computes
// four rows and four columns: no shared memory, which costs more than it saves on software devices.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint m;
  uint k;
  uint n;
  float low;
  float high;
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };
layout(set = 0, binding = 2) readonly buffer Weights { T4 w[]; };
layout(set = 0, binding = 3) readonly buffer Bias { T4 bias[]; };

void main() {
  const uint columns = (n + 3) / 4;
  const uint id = flat_id();
  const uint column = id % columns;
  const uint row = id / columns * 4;
  if (row >= m) return;
  // Rows past the end repeat the last one, and are not stored.
  const uint r0 = row * k, r1 = min(row + 1, m - 1) * k, r2 = min(row + 2, m - 1) * k, r3 = min(row + 3, m - 1) * k;
  vec4 s0 = vec4(bias[column]), s1 = s0, s2 = s0, s3 = s0;
  for (uint i = 0; i < k; ++i) {
    const vec4 weights = vec4(w[i * columns + column]);
    s0 += float(x[r0 + i]) * weights;
    s1 += float(x[r1 + i]) * weights;
    s2 += float(x[r2 + i]) * weights;
    s3 += float(x[r3 + i]) * weights;
  }
  vec4 sums[4] = vec4[4](s0, s1, s2, s3);
  for (uint r = 0; r < 4 && row + r < m; ++r) {
    const vec4 sum = min(max(sums[r], vec4(low)), vec4(high));
    for (uint c = 0; c < 4 && column * 4 + c < n; ++c) target[(row + r) * n + column * 4 + c] = T(sum[c]);
  }
}
