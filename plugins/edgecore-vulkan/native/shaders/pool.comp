// Two-dimensional max or average pooling. One thread computes four channels of one pixel; strides define the layout.
#version 450
#include "types.glsl"
#include "access.glsl"

layout(constant_id = 3) const bool VECTORS = false;  // all channels of a pixel are contiguous, in whole vectors of four
layout(constant_id = 4) const int DILATION_Y = 1;    // dilation; a specialization constant, so that divisions are fast
layout(constant_id = 5) const int DILATION_X = 1;

layout(push_constant) uniform Params {
  uint batch, channels;
  int in_height, in_width;
  uint out_height, out_width;
  int kernel_height, kernel_width;
  int stride_y, stride_x, padding_y, padding_x;
  uint in_strides[4];  // strides of the input along batch, channel, y and x, in elements
  uint out_strides[4];
  int divisor;           // divisor of an average; 0: the number of elements of each window,
  bool include_padding;  // with or without the elements in the padding
};
INPUT(1, source);

vec4 load(uvec4 at) {
  if (VECTORS) return READ4(source, int(at.x) / 4);
  return vec4(READ1(source, int(at.x)), READ1(source, int(at.y)), READ1(source, int(at.z)), READ1(source, int(at.w)));
}

void main() {
  const uint columns = (channels + 3) / 4;
  const uint id = flat_id();
  const uint channel = id % columns * 4;
  uint rest = id / columns;
  const int ox = int(rest % out_width);
  rest /= out_width;
  const int oy = int(rest % out_height);
  const uint n = rest / out_height;
  if (n >= batch) return;
  // In the last vector, channels past the end repeat the last channel, and are not stored.
  const uvec4 offsets =
      n * in_strides[0] + min(channel + uvec4(0, 1, 2, 3), uvec4(channels - 1)) * in_strides[1];
  const int top = oy * stride_y - padding_y, left = ox * stride_x - padding_x;
  // Compute the part of the window that is inside of the image.
  const int first_y = max(-top + DILATION_Y - 1, 0) / DILATION_Y, first_x = max(-left + DILATION_X - 1, 0) / DILATION_X;
  const int end_y = min(max(in_height - top + DILATION_Y - 1, 0) / DILATION_Y, kernel_height);
  const int end_x = min(max(in_width - left + DILATION_X - 1, 0) / DILATION_X, kernel_width);
#if defined(OP_max)
  vec4 result = vec4(uintBitsToFloat(0xff800000u));  // -infinity
#else
  vec4 result = vec4(0);
#endif
  for (int ky = first_y; ky < end_y; ++ky) {
    for (int kx = first_x; kx < end_x; ++kx) {
      const uint shift = uint(top + ky * DILATION_Y) * in_strides[2] + uint(left + kx * DILATION_X) * in_strides[3];
      const vec4 value = load(offsets + shift);
#if defined(OP_max)
      // Take a NaN as the maximum, as in PyTorch.
      result = mix(result, value, bvec4(uvec4(greaterThan(value, result)) | uvec4(notEqual(value, value))));
#else
      result += value;
#endif
    }
  }
#if defined(OP_average)
  int elements = max(end_y - first_y, 0) * max(end_x - first_x, 0);
  if (elements > 0 && include_padding) {
    elements = (min(top + kernel_height, in_height + padding_y) - top) *
               (min(left + kernel_width, in_width + padding_x) - left);
  }
  // Leave 0 as the average of a window that is only padding.
  if (elements > 0) result /= float(divisor != 0 ? divisor : elements);
#endif
  const uint base = n * out_strides[0] + uint(oy) * out_strides[2] + uint(ox) * out_strides[3];
  if (VECTORS) {
    WRITE4((base + channel) / 4, result);
    return;
  }
  for (uint c = 0; c < 4 && channel + c < channels; ++c) WRITE1(base + (channel + c) * out_strides[1], result[c]);
}
