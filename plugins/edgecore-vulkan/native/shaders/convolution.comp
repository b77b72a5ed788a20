// Two-dimensional convolution, also transposed or grouped; the result is channels-last. One thread computes four
// channels of PIXELS neighbouring pixels. With READ_shuffle eight neighbouring threads compute the same pixels and share
// the reads; all their channels belong to the same group. Weights are [kernel height, kernel width, input channels of a
// group, output channels], output channels in panels (access.glsl).
#version 450
#extension GL_EXT_control_flow_attributes : require
#include "types.glsl"
#include "access.glsl"

layout(constant_id = 3) const uint PIXELS = 8;
layout(constant_id = 4) const bool X_VECTORS = true;    // x is channels-last and read in vectors of a group's channels
layout(constant_id = 5) const bool OUT_VECTORS = true;  // there is a multiple of four output channels
layout(constant_id = 6) const bool MIXED = false;       // the four output channels may belong to several groups
layout(constant_id = 7) const bool TRANSPOSED = false;
layout(constant_id = 8) const bool ADDS = false;  // addend is added to the result; with OUT_VECTORS
// The width of the kernel and the channels of a group, or 0 where a loop counts them: loops of known length need not
// store the sums.
layout(constant_id = 9) const int WIDTH = 0;
layout(constant_id = 10) const int CHANNELS = 0;  // without X_VECTORS
layout(push_constant) uniform Params {
  int batch, in_height, in_width, out_height, out_width, out_channels;
  int image_stride, y_stride, x_stride, channel_stride;  // of x, in vectors or elements
  int kernel_height, kernel_width;
  int stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;
  int in_group, out_group;  // channels of a group
  float low, high;
};
INPUT(1, x);
WEIGHTS(2, w);
BIAS(3, bias);
ADDEND(4, addend);

const uint kOwn = (PIXELS + 7) / 8;  // pixels that a thread reads with READ_shuffle

// Returns the position in the input of a position in the kernel for one in the output, or -1 outside of the input.
int position(int out_at, int kernel_at, int stride, int padding, int dilation, int size) {
  int at;
  bool inside;
  if (TRANSPOSED) {
    const int scaled = out_at + padding - kernel_at * dilation;
    at = scaled / stride;
    inside = scaled >= 0 && at * stride == scaled && at < size;
  } else {
    at = out_at * stride - padding + kernel_at * dilation;
    inside = at >= 0 && at < size;
  }
  return inside ? at : -1;
}

void main() {
  const int columns = (out_channels + 3) / 4;
  const int blocks = (out_width + int(PIXELS) - 1) / int(PIXELS);
  const int id = int(flat_id());
#if defined(READ_shuffle)
  const int panels = (columns + 7) / 8;
  const int column = id / 8 % panels * 8 + id % 8;
  int rest = id / 8 / panels;
#else
  const int column = id % columns;
  int rest = id / columns;
#endif
  const int first = rest % blocks * int(PIXELS);
  rest /= blocks;
  const int row = rest % out_height;
  const int image = rest / out_height;
  // The first input channel for each of the four output channels; channels past the end repeat the last one.
  const ivec4 channel = min(ivec4(0, 1, 2, 3) + column * 4, ivec4(out_channels - 1)) / out_group * in_group;
  const int vectors = in_group / 4;
  vec4 sums[PIXELS];
  [[unroll]] for (int p = 0; p < PIXELS; ++p) sums[p] = READ4(bias, min(column, columns - 1));
  const int panel = in_panel(column, kernel_height * kernel_width * in_group);
  // Of a transposed kernel, only each stride-th row has a row of the input.
  const bool skips = TRANSPOSED && dilation_y == 1;
  const int step = skips ? stride_y : 1;
  for (int ky = skips ? (row + padding_y) % stride_y : 0; ky < kernel_height; ky += step) {
    const int y = position(row, ky, stride_y, padding_y, dilation_y, in_height);
    for (int kx = 0; kx < (WIDTH != 0 ? WIDTH : kernel_width); ++kx) {
      int at = panel + 8 * (ky * kernel_width + kx) * in_group;
      // All threads take the same way, and what lies outside of the image counts as 0: branches cost more.
      const int line = image * image_stride + y * y_stride;
      const bool is_line = y >= 0 && image < batch;
#if defined(READ_shuffle)
      int from[kOwn];
      bool inside[kOwn];
      [[unroll]] for (int o = 0; o < kOwn; ++o) {
        const int px = position(first + o * 8 + id % 8, kx, stride_x, padding_x, dilation_x, in_width);
        inside[o] = is_line && px >= 0;
        from[o] = inside[o] ? line + px * x_stride : 0;
      }
#else
      int from[PIXELS];
      for (int p = 0; p < PIXELS; ++p) {
        const int px = position(first + p, kx, stride_x, padding_x, dilation_x, in_width);
        from[p] = is_line && px >= 0 ? line + px * x_stride : -1;
      }
#endif
      if (X_VECTORS) {
        for (int c = 0; c < vectors; ++c, at += 32) {
          const vec4 w0 = READ4(w, at);
          const vec4 w1 = READ4(w, at + 8);
          const vec4 w2 = READ4(w, at + 16);
          const vec4 w3 = READ4(w, at + 24);
#if defined(READ_shuffle)
          vec4 own[kOwn];
          [[unroll]] for (int o = 0; o < kOwn; ++o) {
            own[o] = zero_unless(inside[o], READ4(x, from[o] + channel.x / 4 + c));
          }
#endif
          [[unroll]] for (int p = 0; p < PIXELS; ++p) {
#if defined(READ_shuffle)
            const vec4 v = subgroupShuffle(own[p / 8], p % 8);
#else
            const vec4 v = zero_unless(from[p] >= 0, READ4(x, max(from[p], 0) + channel.x / 4 + c));
#endif
            sums[p] = fma(v.wwww, w3, fma(v.zzzz, w2, fma(v.yyyy, w1, fma(v.xxxx, w0, sums[p]))));
          }
        }
      } else {
        for (int c = 0; c < (CHANNELS != 0 ? CHANNELS : in_group); ++c, at += 8) {
          const vec4 weights = READ4(w, at);
#if defined(READ_shuffle)
          float own[kOwn];
          [[unroll]] for (int o = 0; o < kOwn; ++o) {
            const float loaded = READ1(x, from[o] + (channel.x + c) * channel_stride);
            own[o] = inside[o] ? loaded : 0;
          }
          [[unroll]] for (int p = 0; p < PIXELS; ++p) {
            sums[p] = fma(vec4(subgroupShuffle(own[p / 8], p % 8)), weights, sums[p]);
          }
#else
          for (int p = 0; p < PIXELS; ++p) {
            const int base = max(from[p], 0) + c * channel_stride;
            vec4 v;
            v.x = READ1(x, base + channel.x * channel_stride);
            if (MIXED) {
              v.y = READ1(x, base + channel.y * channel_stride);
              v.z = READ1(x, base + channel.z * channel_stride);
              v.w = READ1(x, base + channel.w * channel_stride);
            } else {
              v = v.xxxx;
            }
            sums[p] = fma(zero_unless(from[p] >= 0, v), weights, sums[p]);
          }
#endif
        }
      }
    }
  }
  if (image >= batch || column >= columns) return;
  const int pixel = (image * out_height + row) * out_width + first;
  [[unroll]] for (int p = 0; p < PIXELS; ++p) {
    if (first + p >= out_width) continue;
    if (OUT_VECTORS) {
      FINISH4((pixel + p) * columns + column, sums[p]);
    } else {
      const vec4 sum = limited(sums[p], low, high);
      [[unroll]] for (int c = 0; c < 4; ++c) {
        if (column * 4 + c < out_channels) WRITE1((pixel + p) * out_channels + column * 4 + c, sum[c]);
      }
    }
  }
}
