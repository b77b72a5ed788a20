// Two-dimensional convolution of channels-last images of 8-bit integers, with exact sums. One thread computes
// four channels of one pixel. Weights are [kernel height, kernel width, input channels of a group, output
// channels], in words of four output channels.
#version 450
#include "types.glsl"
#include "integers.glsl"

// Whether four input channels are read at a time: in_group, or the channels of a depthwise convolution, are whole vectors.
layout(constant_id = 3) const bool VECTORS = false;
layout(constant_id = 4) const bool OUT_VECTORS = false;  // out_channels is a multiple of 4
layout(push_constant) uniform Params {
  uint batch;
  int in_height, in_width;
  uint in_channels;
  uint out_height, out_width, out_channels;
  int kernel_height, kernel_width;
  int stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;
  uint in_group, out_group;  // channels of a group
  int in_zero, out_zero;
  float in_scale, inverse;  // inverse: 1 / scale of the result
  float low;                // of the result before it is quantized
};
RESULTS;
INTEGERS_OF(1, x);
layout(set = 0, binding = 2) readonly buffer Weights { uint w[]; };
layout(set = 0, binding = 3) readonly buffer Scales { vec4 scales[]; };
layout(set = 0, binding = 4) readonly buffer Bias { vec4 bias[]; };

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
  ivec4 sum = ivec4(0);
  // The first input channel for each of the four output channels; channels past the end repeat the last one.
  const uvec4 first = min(uvec4(0, 1, 2, 3) + column * 4, uvec4(out_channels - 1)) / out_group * in_group;
  for (int ky = 0; ky < kernel_height; ++ky) {
    const int y = oy * stride_y - padding_y + ky * dilation_y;
    if (y < 0 || y >= in_height) continue;
    for (int kx = 0; kx < kernel_width; ++kx) {
      const int px = ox * stride_x - padding_x + kx * dilation_x;
      if (px < 0 || px >= in_width) continue;
      const uint base = ((n * uint(in_height) + uint(y)) * uint(in_width) + uint(px)) * in_channels;
      uint at = uint(ky * kernel_width + kx) * in_group * columns + column;
#if defined(GROUPS_one)
      if (VECTORS) {
        for (uint c = 0; c < in_group; c += 4, at += 4 * columns) {
          const ivec4 values = INTEGER4(x, (base + c) / 4) - in_zero;
          sum += values.x * unpacked(w[at]) + values.y * unpacked(w[at + columns]) +
                 values.z * unpacked(w[at + 2 * columns]) + values.w * unpacked(w[at + 3 * columns]);
        }
      } else {
        for (uint c = 0; c < in_group; ++c, at += columns) sum += (INTEGER1(x, base + c) - in_zero) * unpacked(w[at]);
      }
#else
      if (VECTORS) {
        sum += (INTEGER4(x, base / 4 + column) - in_zero) * unpacked(w[at]);
      } else {
        for (uint c = 0; c < in_group; ++c, at += columns) {
          const uvec4 from = base + first + c;
          sum += (ivec4(INTEGER1(x, from.x), INTEGER1(x, from.y), INTEGER1(x, from.z), INTEGER1(x, from.w)) - in_zero) *
                 unpacked(w[at]);
        }
      }
#endif
    }
  }
  const vec4 result = max(vec4(sum) * (scales[column] * in_scale) + bias[column], vec4(low));
  const ivec4 integers = ivec4(clamp(roundEven(result * inverse) + float(out_zero), -128.0, 127.0));
  if (OUT_VECTORS) {
    PUT4(id, integers);
  } else {
    for (uint c = 0; c < 4 && column * 4 + c < out_channels; ++c) {
      PUT1(pixel * out_channels + column * 4 + c, integers[c]);
    }
  }
}
