// Layer, group and RMS norm: subtracts the mean of each row (except for the RMS norm), multiplies by the inverse
// standard deviation and by weights, and adds biases. The result has the same memory layout as the input.
#version 450
#include "types.glsl"
#include "access.glsl"
// A row of a group norm has the elements of one group of one image; its innermost dim are the channels of the group.
// group_channels is the size of this dim: in vectors of four with TERM_VECTORS, else in elements.
#define MORE_PARAMS     \
  float epsilon;        \
  float inverse_count;  \
  uint groups;          \
  uint group_channels;
#include "rows.glsl"

layout(constant_id = 8) const bool HAS_WEIGHT = true;
layout(constant_id = 9) const bool HAS_BIAS = true;

#if defined(KIND_rms)
INPUT(1, x);
INPUT(2, weights);
INPUT(3, bias);
#else
layout(set = 0, binding = 1) writeonly buffer Means { T means[]; };
layout(set = 0, binding = 2) writeonly buffer Deviations { T inverse_deviations[]; };
INPUT(3, x);
INPUT(4, weights);
INPUT(5, bias);
#endif

void main() {
  const uint row = row_index();
  const uint start = row_start(row);
  const Terms all = all_terms();
#if defined(KIND_rms)
  const vec4 mean = vec4(0);
#else
  vec4 sums = vec4(0);
  for (EACH_TERM(all, term)) sums += LOAD(x, start + offset_of(all, term));
  const vec4 mean = sum_of_row(sums) * inverse_count;
#endif
  vec4 squares = vec4(0);
  for (EACH_TERM(all, term)) {
    const vec4 difference = LOAD(x, start + offset_of(all, term)) - mean;
    squares += difference * difference;
  }
  const vec4 inverse = inversesqrt(sum_of_row(squares) * inverse_count + epsilon);
  if (row >= rows) return;
#if !defined(KIND_rms)
  if (lane() == 0) {
    means[row] = T(mean.x);
    inverse_deviations[row] = T(inverse.x);
  }
#endif
#if defined(KIND_group)
  const uint channels = group_channels, first_channel = row % groups * channels, step = LANES % channels;
  uint channel = lane() % channels;
#endif
  for (EACH_TERM(all, term)) {
    const uint at = start + offset_of(all, term);
#if defined(KIND_group)
    const int affine = int(first_channel + channel);
    channel += step;
    if (channel >= channels) channel -= channels;
#else
    const int affine = int(term.index);
#endif
    vec4 value = (LOAD(x, at) - mean) * inverse;
    if (HAS_WEIGHT) value *= VECTORS ? READ4(weights, affine) : vec4(READ1(weights, affine));
    if (HAS_BIAS) value += VECTORS ? READ4(bias, affine) : vec4(READ1(bias, affine));
    STORE(at, value);
  }
}
