// Two-dimensional convolution, also transposed or grouped; the result is channels-last. One thread computes four
// channels of PIXELS adjacent pixels. With READ_shuffle, COLUMNS of eight adjacent threads compute the same pixels and
// share the values that they read; all channels of the eight threads belong to one group. Weights are [kernel height,
// kernel width, input channels of a group, output channels], with output channels in panels (panels.glsl).
#version 450
#extension GL_EXT_control_flow_attributes : require
#include "types.glsl"
#include "layer.glsl"

layout(constant_id = 3) const uint PIXELS = 8;
layout(constant_id = 4) const bool X_VECTORS = true;    // image x is channels-last; a vector has channels of one group
layout(constant_id = 5) const bool OUT_VECTORS = true;  // the number of output channels is a multiple of four
layout(constant_id = 6) const bool MIXED = false;       // the four output channels of a thread may be in several groups
layout(constant_id = 7) const bool TRANSPOSED = false;
layout(constant_id = 8) const bool ADDS = false;  // adds the tensor `addend` to the result; only with OUT_VECTORS

// WIDTH is the width of the kernel, CHANNELS the number of input channels of a group, or 0 if the shader is compiled
// for any number. In loops of known length, the sums can stay in registers.
layout(constant_id = 9) const int WIDTH = 0;
layout(constant_id = 10) const int CHANNELS = 0;  // only without X_VECTORS
layout(constant_id = 11) const uint COLUMNS = 8;  // 4 or 8 threads for the same pixels; only with READ_shuffle
LONG_CONSTANT(12)
layout(push_constant) uniform Params {
  int batch, in_height, in_width, out_height, out_width, out_channels;
  int image_stride, y_stride, x_stride, channel_stride;  // strides of image x, in vectors or elements
  int kernel_height, kernel_width;
  int stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;
  int in_group, out_group;  // channels of a group
  float low, high;
  PARAMS_OF_INTEGERS
};
TENSORS;

// Maps positions along one axis of the output and the kernel to positions in the input. The members are copies of push
// constants, because a driver may load a push constant each time that a loop uses it.
struct Axis {
  int stride, padding, dilation, size;
};

// Returns the input position for a kernel position and an output position, or -1 if it is outside of the input.
int position(Axis axis, int out_at, int kernel_at) {
  int at;
  bool inside;
  if (TRANSPOSED) {
    const int scaled = out_at + axis.padding - kernel_at * axis.dilation;
    at = scaled / axis.stride;
    inside = scaled >= 0 && at * axis.stride == scaled && at < axis.size;
  } else {
    at = out_at * axis.stride - axis.padding + kernel_at * axis.dilation;
    inside = at >= 0 && at < axis.size;
  }
  return inside ? at : -1;
}

#if defined(READ_shuffle)
const uint LOADS = (PIXELS + COLUMNS - 1) / COLUMNS;  // number of pixels that a thread reads in each step

// Returns the number of the thread, in the subgroup, that reads `pixel` for this thread.
uint reader(uint thread, uint pixel) {
  return COLUMNS == 8 ? pixel % COLUMNS : thread / COLUMNS * COLUMNS + pixel % COLUMNS;
}
#endif

void main() {
  const int columns = (out_channels + 3) / 4;
  const int blocks = (out_width + int(PIXELS) - 1) / int(PIXELS);
  const int id = int(flat_id());
#if defined(READ_shuffle)
  const uint thread = uint(id) % 8;
  const int parts = (columns + int(COLUMNS) - 1) / int(COLUMNS);
  const int column = id / 8 % parts * int(COLUMNS) + int(thread % COLUMNS);
  int rest = id / 8 / parts * int(8 / COLUMNS) + int(thread / COLUMNS);
#else
  const int column = id % columns;
  int rest = id / columns;
#endif
  const int first = rest % blocks * int(PIXELS);
  rest /= blocks;
  const int row = rest % out_height;
  const int image = rest / out_height;
  // The first input channel of each of the four output channels' groups; channels past the end repeat the last one.
  const ivec4 channel = min(ivec4(0, 1, 2, 3) + column * 4, ivec4(out_channels - 1)) / out_group * in_group;
  const Axis vertical = Axis(stride_y, padding_y, dilation_y, in_height);
  const Axis horizontal = Axis(stride_x, padding_x, dilation_x, in_width);
  const int width = kernel_width, height = kernel_height, inputs = in_group, pixel_stride = x_stride;
  const int line_stride = y_stride, next_channel = channel_stride;
  SUMS(PIXELS);
  [[unroll]] for (int p = 0; p < PIXELS; ++p) sums[p] = FIRST(min(column, columns - 1));
  const int panel = in_panel(column, height * width * inputs);
  const int start = image * image_stride;
  const bool is_image = image < batch;
  // Skip kernel rows: in a transposed convolution, only each stride-th kernel row meets a row of the input.
  const bool skips = TRANSPOSED && dilation_y == 1;
  const int step = skips ? stride_y : 1;
  for (int ky = skips ? (row + padding_y) % stride_y : 0; ky < height; ky += step) {
    const int y = position(vertical, row, ky);
    const int line = start + y * line_stride;
    const bool is_line = y >= 0 && is_image;
    for (int kx = 0; kx < (WIDTH != 0 ? WIDTH : width); ++kx) {
      int at = panel + 8 * (ky * width + kx) * inputs;
      // Let all threads take the same path, and count positions outside of the image as 0: branches would cost more.
#if defined(READ_shuffle)
      int from[LOADS];
      [[unroll]] for (int l = 0; l < LOADS; ++l) {
        const int px = position(horizontal, first + l * int(COLUMNS) + int(thread % COLUMNS), kx);
        from[l] = is_line && px >= 0 ? line + px * pixel_stride : -1;
      }
#else
      int from[PIXELS];
      for (int p = 0; p < PIXELS; ++p) {
        const int px = position(horizontal, first + p, kx);
        from[p] = is_line && px >= 0 ? line + px * pixel_stride : -1;
      }
#endif
      if (X_VECTORS) {
        const int vectors = inputs / 4, base = channel.x / 4;
        PARTS(begin, end, vectors, 4) {
          for (int c = begin; c < end; ++c, at += 32) {
            const vec4 w0 = W4(at);
            const vec4 w1 = W4(at + 8);
            const vec4 w2 = W4(at + 16);
            const vec4 w3 = W4(at + 24);
#if defined(READ_shuffle)
            vec4 own[LOADS];
            [[unroll]] for (int l = 0; l < LOADS; ++l) {
              own[l] = zero_unless(from[l] >= 0, X4(max(from[l], 0) + base + c));
            }
#endif
            [[unroll]] for (int p = 0; p < PIXELS; ++p) {
#if defined(READ_shuffle)
              const vec4 v = subgroupShuffle(own[p / COLUMNS], reader(thread, p));
#else
              const vec4 v = zero_unless(from[p] >= 0, X4(max(from[p], 0) + base + c));
#endif
              sums[p] = fma(v.wwww, w3, fma(v.zzzz, w2, fma(v.yyyy, w1, fma(v.xxxx, w0, sums[p]))));
            }
          }
          KEEP_PART(PIXELS)
        }
      } else {
        const int channels = CHANNELS != 0 ? CHANNELS : inputs;
        PARTS(begin, end, channels, 1) {
          for (int c = begin; c < end; ++c, at += 8) {
            const vec4 weights = W4(at);
#if defined(READ_shuffle)
            float own[LOADS];
            [[unroll]] for (int l = 0; l < LOADS; ++l) {
              const float loaded = X1(max(from[l], 0) + (channel.x + c) * next_channel);
              own[l] = from[l] >= 0 ? loaded : 0;
            }
            [[unroll]] for (int p = 0; p < PIXELS; ++p) {
              sums[p] = fma(vec4(subgroupShuffle(own[p / COLUMNS], reader(thread, p))), weights, sums[p]);
            }
#else
            for (int p = 0; p < PIXELS; ++p) {
              const int base = max(from[p], 0) + c * next_channel;
              vec4 v;
              v.x = X1(base + channel.x * next_channel);
              if (MIXED) {
                v.y = X1(base + channel.y * next_channel);
                v.z = X1(base + channel.z * next_channel);
                v.w = X1(base + channel.w * next_channel);
              } else {
                v = v.xxxx;
              }
              sums[p] = fma(zero_unless(from[p] >= 0, v), weights, sums[p]);
            }
#endif
          }
          KEEP_PART(PIXELS)
        }
      }
    }
  }
  KEEP(PIXELS)
  if (image >= batch || column >= columns) return;
  const int pixel = (image * out_height + row) * out_width + first;
  [[unroll]] for (int p = 0; p < PIXELS; ++p) {
    if (first + p >= out_width) continue;
    if (OUT_VECTORS) {
      STORE4((pixel + p) * columns + column, column, p);
    } else {
      const RESULT4 result = RESULT(column, p);
      [[unroll]] for (int c = 0; c < 4; ++c) {
        if (column * 4 + c < out_channels) STORE1((pixel + p) * out_channels + column * 4 + c, result[c]);
      }
    }
  }
}
