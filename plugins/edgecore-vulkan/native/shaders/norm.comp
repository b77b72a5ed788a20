// Layer, group and RMS norm: each row minus its mean (but for the RMS norm), times the inverse of its standard
// deviation, times weights, plus biases. The result lies in memory as the input does.
#version 450
#include "types.glsl"
// Rows of a group norm are batches of groups, and the innermost dim of a row are the channels of its group.
#define MORE_PARAMS \
  float epsilon;    \
  uint groups;      \
  uint group_channels;
#include "rows.glsl"

layout(constant_id = 6) const bool HAS_WEIGHT = true;
layout(constant_id = 7) const bool HAS_BIAS = true;

layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
#if defined(KIND_rms)
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };
layout(set = 0, binding = 2) readonly buffer Weights { T weights[]; };
layout(set = 0, binding = 3) readonly buffer Bias { T bias[]; };
#else
layout(set = 0, binding = 1) writeonly buffer Means { T means[]; };
layout(set = 0, binding = 2) writeonly buffer Deviations { T inverse_deviations[]; };
layout(set = 0, binding = 3) readonly buffer Input { T x[]; };
layout(set = 0, binding = 4) readonly buffer Weights { T weights[]; };
layout(set = 0, binding = 5) readonly buffer Bias { T bias[]; };
#endif

void main() {
  const uint row = row_index();
  const uint start = row_start(row);
#if defined(KIND_rms)
  const float mean = 0;
#else
  float sum = 0;
  for (EACH_TERM(term)) sum += float(x[start + offset_of(term)]);
  const float mean = sum_of_lanes(sum) / float(terms);
#endif
  float squares = 0;
  for (EACH_TERM(term)) {
    const float difference = float(x[start + offset_of(term)]) - mean;
    squares += difference * difference;
  }
  const float inverse = inversesqrt(sum_of_lanes(squares) / float(terms) + epsilon);
  if (row >= rows) return;
#if !defined(KIND_rms)
  if (lane() == 0) {
    means[row] = T(mean);
    inverse_deviations[row] = T(inverse);
  }
#endif
#if defined(KIND_group)
  const uint first_channel = row % groups * group_channels, step = LANES % group_channels;
  uint channel = lane() % group_channels;
#endif
  for (EACH_TERM(term)) {
    const uint at = start + offset_of(term);
#if defined(KIND_group)
    const uint affine = first_channel + channel;
    channel += step;
    if (channel >= group_channels) channel -= group_channels;
#else
    const uint affine = term.index;
#endif
    float value = (float(x[at]) - mean) * inverse;
    if (HAS_WEIGHT) value *= float(weights[affine]);
    if (HAS_BIAS) value += float(bias[affine]);
    target[at] = T(value);
  }
}
