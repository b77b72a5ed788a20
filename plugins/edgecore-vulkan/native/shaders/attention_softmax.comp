// Softmax of each row of attention scores, in place. One workgroup computes one row: each thread handles every
// gl_WorkGroupSize.x-th vector of four. A row that sees no key (all scores are -inf) becomes zeros, as in PyTorch.
#version 450
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(constant_id = 3) const bool VECTORS = false;  // rows are whole vectors

layout(push_constant) uniform Params {
  uint rows;
  uint columns;
};
layout(set = 0, binding = 0) buffer Scores { float scores[]; };
layout(set = 0, binding = 0) buffer Scores4 { vec4 scores4[]; };

const float kInfinity = 1.0 / 0.0;
shared float largest_of[gl_WorkGroupSize.x];
shared float sum_of[gl_WorkGroupSize.x];

// Returns the larger of two numbers; NaN if one of them is NaN.
float larger(float a, float b) {
  return b > a || b != b ? b : a;
}

// Returns the number to subtract from scores whose maximum is `largest`: 0 for -inf, so that exp() of -inf stays 0.
float shift_of(float largest) {
  return largest == -kInfinity ? 0 : largest;
}

vec4 load(uint base, uint i) {
  if (VECTORS) return scores4[base / 4 + i];
  vec4 x = vec4(-kInfinity);
  for (uint c = 0; c < 4; ++c) {
    if (i * 4 + c < columns) x[c] = scores[base + i * 4 + c];
  }
  return x;
}

void main() {
  const uint row = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x;
  const uint lane = gl_LocalInvocationID.x;
  if (row >= rows) return;  // all threads of a workgroup have the same row, so none is left waiting at a barrier
  const uint base = row * columns, vectors = (columns + 3) / 4;
  // `sum` is the sum of exp(score - largest) over the scores so far; it is rescaled when `largest` grows.
  float largest = -kInfinity, sum = 0;
  for (uint i = lane; i < vectors; i += gl_WorkGroupSize.x) {
    const vec4 x = load(base, i);
    const float before = largest;
    largest = larger(larger(larger(larger(largest, x.x), x.y), x.z), x.w);
    const float shift = shift_of(largest);
    sum = sum * exp(before - shift) + dot(exp(x - shift), vec4(1));
  }
  largest_of[lane] = largest;
  sum_of[lane] = sum;
  barrier();
  largest = -kInfinity;
  for (uint i = 0; i < gl_WorkGroupSize.x; ++i) largest = larger(largest, largest_of[i]);
  const float shift = shift_of(largest);
  sum = 0;
  for (uint i = 0; i < gl_WorkGroupSize.x; ++i) sum += sum_of[i] * exp(largest_of[i] - shift);
  const float factor = sum == 0 ? 0 : 1 / sum;
  for (uint i = lane; i < vectors; i += gl_WorkGroupSize.x) {
    const vec4 weights = exp(load(base, i) - shift) * factor;
    if (VECTORS) {
      scores4[base / 4 + i] = weights;
    } else {
      for (uint c = 0; c < 4; ++c) {
        if (i * 4 + c < columns) scores[base + i * 4 + c] = weights[c];
      }
    }
  }
}
