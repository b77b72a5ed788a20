// Softmax of each row of the scores of attention, in place. One workgroup computes one row: each thread goes over every
// gl_WorkGroupSize.x-th number. A row that sees nothing (all scores are -inf) becomes zeros, as in PyTorch.
#version 450
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(push_constant) uniform Params {
  uint rows;
  uint columns;
};
layout(set = 0, binding = 0) buffer Scores { float scores[]; };

shared float largest_of[gl_WorkGroupSize.x];
shared float sum_of[gl_WorkGroupSize.x];

void main() {
  const float infinity = uintBitsToFloat(0x7f800000u);
  const uint row = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x;
  const uint lane = gl_LocalInvocationID.x;
  if (row >= rows) return;  // the whole workgroup
  const uint base = row * columns;
  float largest = -infinity;
  for (uint i = lane; i < columns; i += gl_WorkGroupSize.x) {
    const float score = scores[base + i];
    largest = score > largest || score != score ? score : largest;
  }
  largest_of[lane] = largest;
  barrier();
  largest = largest_of[0];
  for (uint i = 1; i < gl_WorkGroupSize.x; ++i) {
    const float other = largest_of[i];
    largest = other > largest || other != other ? other : largest;
  }
  const float shift = largest == -infinity ? 0 : largest;
  float sum = 0;
  for (uint i = lane; i < columns; i += gl_WorkGroupSize.x) {
    const float weight = largest == -infinity ? 0 : exp(scores[base + i] - shift);
    scores[base + i] = weight;
    sum += weight;
  }
  sum_of[lane] = sum;
  barrier();
  sum = 0;
  for (uint i = 0; i < gl_WorkGroupSize.x; ++i) sum += sum_of[i];
  const float factor = sum == 0 ? 0 : 1 / sum;
  for (uint i = lane; i < columns; i += gl_WorkGroupSize.x) scores[base + i] *= factor;
}
