// Nearest or bilinear resizing. One thread computes four channels of one pixel; strides define the layout.
#version 450
#include "types.glsl"
#include "access.glsl"

layout(constant_id = 3) const bool VECTORS = false;  // all channels of a pixel are contiguous, in whole vectors of four
layout(push_constant) uniform Params {
  uint batch, channels;
  int in_height, in_width;
  uint out_height, out_width;
  float scale_y, scale_x;  // number of input pixels per output pixel
  uint in_strides[4];      // strides of the input along batch, channel, y and x, in elements
  uint out_strides[4];
  bool align_corners;  // true: align the centres of the corner pixels; false: the corners of the images
};
INPUT(1, source);

vec4 load(uvec4 at) {
  if (VECTORS) return READ4(source, int(at.x) / 4);
  return vec4(READ1(source, int(at.x)), READ1(source, int(at.y)), READ1(source, int(at.z)), READ1(source, int(at.w)));
}

vec4 pixel(uvec4 channel_offsets, ivec2 at) {
  return load(channel_offsets + uint(at.y) * in_strides[2] + uint(at.x) * in_strides[3]);
}

void main() {
  const uint columns = (channels + 3) / 4;
  const uint id = flat_id();
  const uint channel = id % columns * 4;
  uint rest = id / columns;
  const uint ox = rest % out_width;
  rest /= out_width;
  const uint oy = rest % out_height;
  const uint n = rest / out_height;
  if (n >= batch) return;
  // In the last vector, channels past the end repeat the last channel, and are not stored.
  const uvec4 offsets =
      n * in_strides[0] + min(channel + uvec4(0, 1, 2, 3), uvec4(channels - 1)) * in_strides[1];
  const ivec2 last = ivec2(in_width, in_height) - 1;
  const vec2 scale = vec2(scale_x, scale_y);
#if defined(MODE_nearest)
  const vec4 result = pixel(offsets, min(ivec2(floor(vec2(ox, oy) * scale)), last));
#else
  const vec2 at = align_corners ? vec2(ox, oy) * scale : max((vec2(ox, oy) + 0.5) * scale - 0.5, vec2(0));
  const ivec2 low = min(ivec2(floor(at)), last), high = min(low + 1, last);
  const vec2 part = clamp(at - vec2(low), vec2(0), vec2(1));
  const vec4 upper = pixel(offsets, low) * (1 - part.x) + pixel(offsets, ivec2(high.x, low.y)) * part.x;
  const vec4 lower = pixel(offsets, ivec2(low.x, high.y)) * (1 - part.x) + pixel(offsets, high) * part.x;
  const vec4 result = upper * (1 - part.y) + lower * part.y;
#endif
  const uint base = n * out_strides[0] + oy * out_strides[2] + ox * out_strides[3];
  if (VECTORS) {
    WRITE4((base + channel) / 4, result);
    return;
  }
  for (uint c = 0; c < 4 && channel + c < channels; ++c) WRITE1(base + (channel + c) * out_strides[1], result[c]);
}
