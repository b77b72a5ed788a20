// Two-dimensional convolution of channels-last images. One thread computes four channels of one pixel. Weights are
// [kernel height, kernel width, input channels of a group, output channels], output channels in vectors of four.
#version 450
#include "types.glsl"

layout(push_constant) uniform Params {
  uint batch;
  int in_height, in_width;
  uint in_channels;
  uint out_height, out_width, out_channels;
  int kernel_height, kernel_width;
  int stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;
  uint in_group, out_group;  // channels of a group
  float low, high;
};
layout(set = 0, binding = 0) writeonly buffer Output { T target[]; };
layout(set = 0, binding = 1) readonly buffer Input { T x[]; };
layout(set = 0, binding = 2) readonly buffer Weights { T4 w[]; };
layout(set = 0, binding = 3) readonly buffer Bias { T4 bias[]; };

void main() {
  const uint columns = (out_channels + 3) / 4;
  const uint id = flat_id();
  const uint column = id % columns;
  uint rest = id / columns;
  const uint pixel = rest;
  const int ox = int(rest % out_width);
  rest /= out_width;
  const int oy = int(rest % out_height);
  const uint n = rest / out_height;
  if (n >= batch) return;
  vec4 sum = vec4(bias[column]);
  // The first input channel for each of the four output channels; channels past the end repeat the last one.
  uvec4 first = min(uvec4(0, 1, 2, 3) + column * 4, uvec4(out_channels - 1)) / out_group * in_group;
  for (int ky = 0; ky < kernel_height; ++ky) {
    const int y = oy * stride_y - padding_y + ky * dilation_y;
    if (y < 0 || y >= in_height) continue;
    for (int kx = 0; kx < kernel_width; ++kx) {
      const int px = ox * stride_x - padding_x + kx * dilation_x;
      if (px < 0 || px >= in_width) continue;
      const uint base = ((n * uint(in_height) + uint(y)) * uint(in_width) + uint(px)) * in_channels;
      uint at = uint(ky * kernel_width + kx) * in_group * columns + column;
#if defined(GROUPS_one)
      for (uint c = 0; c < in_group; ++c, at += columns) sum += float(x[base + c]) * vec4(w[at]);
#else
      for (uint c = 0; c < in_group; ++c, at += columns) {
        const uvec4 from = base + first + c;
        sum += vec4(float(x[from.x]), float(x[from.y]), float(x[from.z]), float(x[from.w])) * vec4(w[at]);
      }
#endif
    }
  }
  sum = min(max(sum, vec4(low)), vec4(high));
  for (uint c = 0; c < 4 && column * 4 + c < out_channels; ++c) {
    target[pixel * out_channels + column * 4 + c] = T(sum[c]);
  }
}
