// What the convolution kernels share.
#ifndef EDGECORE_KERNELS_CONVOLUTION_H_
#define EDGECORE_KERNELS_CONVOLUTION_H_

#include "call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// A two-dimensional convolution; one-dimensional ones have height 1. For transposed ones "in" is still the input.
struct Conv {
  int64_t batch, in_channels, in_h, in_w;
  int64_t out_channels, out_h, out_w;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int64_t groups;
  bool transposed;

  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
  int64_t in_pixels() const { return in_h * in_w; }
  int64_t out_pixels() const { return out_h * out_w; }
  int64_t taps() const { return kernel_h * kernel_w; }
  bool is_pointwise() const { return taps() == 1 && stride_h == 1 && stride_w == 1 && pad_h == 0 && pad_w == 0; }
  bool is_depthwise() const { return groups == in_channels && groups == out_channels && groups > 1; }
};

// Output positions [begin, end) along one axis whose input position o * stride - pad + offset is inside [0, size).
struct Valid {
  int64_t begin, end;
  Valid(int64_t count, int64_t stride, int64_t shift, int64_t size) {
    begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    end = size - shift <= 0 ? 0 : (size - shift - 1) / stride + 1;
    if (end > count) end = count;
    if (begin > end) begin = end;
  }
};

// Depthwise convolution (one input and output channel a group). `out` holds the bias or zeros. planes: N, C, H, W;
// pixels: N, H, W, C, with `weight` as [taps, channels].
template <class C>
void depthwise_planes(Call &call, const Conv &conv, const C *input, const C *weight, C *out);
template <class C>
void depthwise_pixels(Call &call, const Conv &conv, const C *input, const C *weight, C *out);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_CONVOLUTION_H_
