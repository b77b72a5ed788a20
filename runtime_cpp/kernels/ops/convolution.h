// Declarations that the convolution kernels share.
#ifndef EDGECORE_KERNELS_CONVOLUTION_H_
#define EDGECORE_KERNELS_CONVOLUTION_H_

#include "lib/call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// The sizes of a 2-d convolution; a 1-d convolution has height 1. in_* are the sizes of the operator's input and out_*
// the sizes of its output, also for a transposed convolution.
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

// The range [begin, end) of output positions o along one axis for which the input position o * stride + shift is in [0,
// size).
struct ValidRange {
  int64_t begin, end;
  ValidRange(int64_t count, int64_t stride, int64_t shift, int64_t size) {
    begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    end = size - shift <= 0 ? 0 : (size - shift - 1) / stride + 1;
    if (end > count) end = count;
    if (begin > end) begin = end;
  }
};

// The layout of a padded copy of one plane of a depthwise convolution, split into phases (a polyphase decomposition).
// Tap k of output o reads position o * stride + k * dilation - pad. Positions with the same remainder k * dilation %
// stride form a phase and are stored next to each other. So for adjacent outputs each tap reads adjacent elements, for
// every stride and dilation. Example: with stride 2 and dilation 1, phase 0 has the even and phase 1 the odd positions
// of the padded plane. Element (i, j) of phase (a, b) is in[i * stride_h + a * dilation_h % stride_h - pad_h][the same
// for w]. Tap (kh, kw) of output (oh, ow) is at offset tap(kh, kw) + oh * pitch + ow.
struct Phases {
  int64_t count_h, count_w, rows, pitch;
  bool fit;  // false: the padded copy would be much larger than input and output, as damaged files may demand

  explicit Phases(const Conv &conv);
  int64_t plane() const { return count_h * count_w * rows * pitch; }
  int64_t tap(const Conv &conv, int64_t kh, int64_t kw) const {
    return (kh % count_h * count_w + kw % count_w) * rows * pitch + kh * conv.dilation_h / conv.stride_h * pitch +
           kw * conv.dilation_w / conv.stride_w;
  }
  template <class C>
  // copies one plane; `out` must be zero before, because fill does not write the padding
  void fill(const Conv &conv, const C *in, C *out) const;
};

// Depthwise convolution, in which each group has one input and one output channel. Functions named "planes" are for
// layout N, C, H, W. Functions named "pixels" are for N, H, W, C, and their `weight` is [taps, channels].
template <class C>
void depthwise_planes(Call &call, const Conv &conv, const Phases &phases, const C *input, const C *weight,
                      const C *bias, C *out);
template <class C>
void depthwise_pixels(Call &call, const Conv &conv, const C *input, const C *weight, const C *bias, C *out);

// Convolution and transposed convolution of layout N, C, H, W ("planes"), for all sizes, strides and groups.
template <class C>
void convolve_planes(Call &call, const Conv &conv, const C *input, const C *weight, const C *bias, C *out);
template <class C>
void convolve_transposed(Call &call, const Conv &conv, const C *input, const C *weight, const C *bias, C *out);

// Convolution of layout N, H, W, C ("pixels") with at least one input channel. The weight of output channel o, input
// channel i of the group, and tap (h, w) is weight[o * strides[0] + i * strides[1] + h * strides[2] + w * strides[3]].
template <class C>
void convolve_pixels(Call &call, const Conv &conv, const C *input, const C *weight, const int64_t *strides,
                     const C *bias, C *out);

// Winograd's convolution (convolution_winograd.cpp). prefers_winograd() returns true if this algorithm is faster than
// the other kernels. The choice depends only on the sizes, so that results have the same bits for any number of
// threads. winograd_planes() and winograd_pixels() return false if the output must be computed in another way, because
// the host lacks scratch memory, or because an infinite or NaN output may have spread to the other outputs of its tile.
bool prefers_winograd(const Conv &conv);
bool winograd_planes(Call &call, const Conv &conv, const float *input, const float *weight, const float *bias,
                     float *out);
bool winograd_pixels(Call &call, const Conv &conv, const float *input, const float *weight, const int64_t *strides,
                     const float *bias, float *out);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_CONVOLUTION_H_
