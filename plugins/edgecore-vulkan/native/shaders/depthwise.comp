// Depthwise two-dimensional convolution of channels-last images with a multiple of four channels. One thread computes
// four channels of LINES lines of PIXELS adjacent pixels, and reads each input pixel once. Weights are [kernel height,
// kernel width, channels], with channels in panels (panels.glsl).
#version 450
#extension GL_EXT_control_flow_attributes : require
#include "types.glsl"
#include "layer.glsl"

layout(constant_id = 3) const uint PIXELS = 7;
layout(constant_id = 4) const uint WIDTH = 3;   // width of the kernel
layout(constant_id = 5) const uint STRIDE = 1;  // stride in x
layout(constant_id = 6) const uint DILATION = 1;
layout(constant_id = 7) const bool ADDS = false;  // adds the tensor `addend` to the convolution's result
layout(constant_id = 8) const int LINES = 1;
// HEIGHT is the kernel's height, STRIDE_Y the stride in y. Used if LINES > 1, with a dilation of 1 in y.
layout(constant_id = 9) const int HEIGHT = 0;
layout(constant_id = 10) const int STRIDE_Y = 1;
layout(push_constant) uniform Params {
  int batch, in_height, in_width, out_height, out_width, vectors;
  int kernel_height, stride_y, padding_y, padding_x, dilation_y;
  float low, high;
  PARAMS_OF_INTEGERS
};
TENSORS;

const uint kWindow = (PIXELS - 1) * STRIDE + (WIDTH - 1) * DILATION + 1;

void main() {
  const int blocks = (out_width + int(PIXELS) - 1) / int(PIXELS);
  const int pairs = (out_height + LINES - 1) / LINES;
  const int id = int(flat_id());
  const int column = id % vectors;
  int rest = id / vectors;
  const int first = rest % blocks * int(PIXELS);
  rest /= blocks;
  const int row = rest % pairs * LINES;
  const int image = rest / pairs;
  if (image >= batch) return;
  SUMS(LINES * PIXELS);
  const vec4 initial = FIRST(column);
  [[unroll]] for (int p = 0; p < LINES * PIXELS; ++p) sums[p] = initial;
  const int panel = in_panel(column, kernel_height * int(WIDTH));
  const int left = first * int(STRIDE) - padding_x;
  // Read the kernel's height in input lines for the first line of the result, and STRIDE_Y more for each further one.
  const int more = (LINES - 1) * STRIDE_Y;
  [[unroll]] for (int ky = 0; ky < (LINES == 1 ? kernel_height : HEIGHT) + more; ++ky) {
    const int y = row * stride_y - padding_y + ky * dilation_y;
    const bool is_row = y >= 0 && y < in_height;
    const int base = (image * in_height + (is_row ? y : 0)) * in_width;
    vec4 window[kWindow];
    [[unroll]] for (int i = 0; i < kWindow; ++i) {
      const int px = left + i;
      const bool inside = is_row && px >= 0 && px < in_width;
      window[i] = zero_unless(inside, X4((base + (inside ? px : 0)) * vectors + column));
    }
    [[unroll]] for (int line = 0; line < LINES; ++line) {
      const int tap = ky - line * STRIDE_Y;
      if (LINES != 1 && (tap < 0 || tap >= HEIGHT)) continue;
      [[unroll]] for (int kx = 0; kx < WIDTH; ++kx) {
        const vec4 weights = W4(panel + 8 * (tap * int(WIDTH) + kx));
        [[unroll]] for (int p = 0; p < PIXELS; ++p) {
          sums[line * PIXELS + p] = fma(window[p * STRIDE + kx * DILATION], weights, sums[line * PIXELS + p]);
        }
      }
    }
  }
  KEEP(LINES * PIXELS)
  [[unroll]] for (int line = 0; line < LINES; ++line) {
    if (row + line >= out_height) continue;
    const int pixel = (image * out_height + row + line) * out_width + first;
    [[unroll]] for (int p = 0; p < PIXELS; ++p) {
      if (first + p >= out_width) continue;
      STORE4((pixel + p) * vectors + column, column, line * int(PIXELS) + p);
    }
  }
}
