// Two-dimensional convolution of each channel by itself, of channels-last images with a multiple of four channels. One
// thread computes four channels of PIXELS neighbouring pixels, and reads each pixel of a row of its window once.
// Weights are [kernel height, kernel width, channels], channels in panels (access.glsl).
#version 450
#include "types.glsl"
#include "access.glsl"

layout(constant_id = 3) const uint PIXELS = 7;
layout(constant_id = 4) const uint WIDTH = 3;  // of the kernel
layout(constant_id = 5) const uint STRIDE = 1;
layout(constant_id = 6) const uint DILATION = 1;
layout(push_constant) uniform Params {
  int batch, in_height, in_width, out_height, out_width, vectors;
  int kernel_height, stride_y, padding_y, padding_x, dilation_y;
  float low, high;
};
INPUT(1, x);
WEIGHTS(2, w);
BIAS(3, bias);

const uint kWindow = (PIXELS - 1) * STRIDE + (WIDTH - 1) * DILATION + 1;

void main() {
  const int blocks = (out_width + int(PIXELS) - 1) / int(PIXELS);
  const int id = int(flat_id());
  const int column = id % vectors;
  int rest = id / vectors;
  const int first = rest % blocks * int(PIXELS);
  rest /= blocks;
  const int row = rest % out_height;
  const int image = rest / out_height;
  if (image >= batch) return;
  vec4 sums[PIXELS];
  for (int p = 0; p < PIXELS; ++p) sums[p] = READ4(bias, column);
  const int panel = in_panel(column, kernel_height * int(WIDTH));
  const int left = first * int(STRIDE) - padding_x;
  for (int ky = 0; ky < kernel_height; ++ky) {
    const int y = row * stride_y - padding_y + ky * dilation_y;
    const bool is_row = y >= 0 && y < in_height;
    const int base = (image * in_height + (is_row ? y : 0)) * in_width;
    vec4 window[kWindow];
    for (int i = 0; i < kWindow; ++i) {
      const int px = left + i;
      const bool inside = is_row && px >= 0 && px < in_width;
      window[i] = zero_unless(inside, READ4(x, (base + (inside ? px : 0)) * vectors + column));
    }
    for (int kx = 0; kx < WIDTH; ++kx) {
      const vec4 weights = READ4(w, panel + 8 * (ky * int(WIDTH) + kx));
      for (int p = 0; p < PIXELS; ++p) sums[p] = fma(window[p * STRIDE + kx * DILATION], weights, sums[p]);
    }
  }
  const int pixel = (image * out_height + row) * out_width + first;
  for (int p = 0; p < PIXELS; ++p) {
    if (first + p >= out_width) break;
    WRITE4((pixel + p) * vectors + column, limited(sums[p], low, high));
  }
}
