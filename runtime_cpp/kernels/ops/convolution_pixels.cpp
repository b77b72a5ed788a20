// Convolution of layout N, H, W, C as a GEMM without im2col: the micro-kernel reads the channels of each input pixel in
// place, through one pointer for each tap and output pixel, and multiplies the channels by packed weights.
#include "lib/tile.h"
#include "ops/convolution.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Sets rows[tap][i], for i in [0, kTileRows), to the address of the input pixel that the tap reads for output pixel
// `pixel` + i. Taps in the padding read `zeros`. Only n of the output pixels exist: entries i >= n repeat entry n - 1,
// and their results are not stored.
template <class C>
void find_rows(const Conv &conv, const C *image, const C *zeros, int64_t pixel, int64_t n, const C **rows) {
  for (int64_t i = 0; i < kTileRows; ++i) {
    const int64_t output = pixel + min_of(i, n - 1);
    const int64_t top = output / conv.out_w * conv.stride_h - conv.pad_h;
    const int64_t left = output % conv.out_w * conv.stride_w - conv.pad_w;
    for (int64_t kh = 0; kh < conv.kernel_h; ++kh) {
      const int64_t ih = top + kh * conv.dilation_h;
      for (int64_t kw = 0; kw < conv.kernel_w; ++kw) {
        const int64_t iw = left + kw * conv.dilation_w;
        const bool inside = ih >= 0 && ih < conv.in_h && iw >= 0 && iw < conv.in_w;
        const C *source = inside ? image + (ih * conv.in_w + iw) * conv.in_channels : zeros;
        rows[(kh * conv.kernel_w + kw) * kTileRows + i] = source;
      }
    }
  }
}

// Packs the weights of n output channels as a panel [taps * group_in, width]. Handles 64 input channels of all n output
// channels at a time, so that the part of the panel that is being written stays in the cache.
template <class C>
void pack_weights(const Conv &conv, const C *weight, const int64_t *strides, int64_t n, int64_t width, C *target) {
  constexpr int64_t kSide = 64;
  const int64_t channels = conv.group_in();
  for (int64_t tap = 0; tap < conv.taps(); ++tap, target += channels * width) {
    const C *tap_weight = weight + tap / conv.kernel_w * strides[2] + tap % conv.kernel_w * strides[3];
    for (int64_t c0 = 0; c0 < channels; c0 += kSide) {
      const int64_t c1 = min_of(channels, c0 + kSide);
      for (int64_t j = 0; j < n; ++j) {
        const C *source = tap_weight + j * strides[0];
        for (int64_t c = c0; c < c1; ++c) target[c * width + j] = source[c * strides[1]];
      }
      for (int64_t c = c0; n < width && c < c1; ++c) {
        for (int64_t j = n; j < width; ++j) target[c * width + j] = 0;
      }
    }
  }
}

}  // namespace

template <class C>
void convolve_pixels(Call &call, const Conv &conv, const C *input, const C *weight, const int64_t *strides,
                     const C *bias, C *out) {
  if constexpr (__is_same(C, float)) {
    if (prefers_winograd(conv) && winograd_pixels(call, conv, input, weight, strides, bias, out)) return;
  }
  const int64_t k = conv.group_in() * conv.taps();
  const int64_t width = conv.group_out();
  const Panels<C> panels(width);
  const int64_t stride = k * kPanel<C>;
  const int64_t all_panels = conv.groups * panels.count;
  const int64_t pixels_of_task = conv.taps() <= 256 ? 64 : kTileRows;
  const int64_t blocks_of_task = pixels_of_task / kTileRows;
  const int64_t rows_of_block = conv.taps() * kTileRows;
  C *packed = call.scratch<C>(all_panels * stride);
  C *zeros = call.scratch<C>(conv.group_in());
  const C **all_rows = call.scratch<const C *>(rows_of_block * blocks_of_task * call.worker_count());
  if (call.failed()) return;
  for (int64_t i = 0; i < conv.group_in(); ++i) zeros[i] = 0;
  call.parallel(all_panels, 16384 / (stride + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t panel = i % panels.count;
      const int64_t column = panels.begin(panel);
      const int64_t columns = panels.width(panel);
      const C *source = weight + (i / panels.count * width + column) * strides[0];
      pack_weights(conv, source, strides, min_of(columns, width - column), columns, packed + i * stride);
    }
  });
  // Each task multiplies up to pixels_of_task output pixels of an image by all panels of weights. So the pointers to
  // input pixels are computed only once, and each panel is read only once per task.
  const int64_t tasks = (conv.out_pixels() + pixels_of_task - 1) / pixels_of_task;
  const int64_t grain = (1 << 17) / (pixels_of_task * k * conv.out_channels / conv.groups + 1) + 1;
  call.parallel(conv.batch * conv.groups * tasks, grain, [&](int64_t begin, int64_t end, int64_t worker) {
    const C **rows = all_rows + worker * rows_of_block * blocks_of_task;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task / tasks % conv.groups;
      const int64_t image = task / tasks / conv.groups;
      const C *source = input + image * conv.in_pixels() * conv.in_channels + group * conv.group_in();
      C *target = out + image * conv.out_pixels() * conv.out_channels + group * width;
      const int64_t first = task % tasks * pixels_of_task;
      const int64_t last = min_of(first + pixels_of_task, conv.out_pixels());
      for (int64_t pixel = first, block = 0; pixel < last; pixel += kTileRows, ++block) {
        find_rows(conv, source, zeros, pixel, min_of(kTileRows, last - pixel), rows + block * rows_of_block);
      }
      for (int64_t panel = 0; panel < panels.count; ++panel) {
        const int64_t column = panels.begin(panel);
        const int64_t columns = panels.width(panel);
        const C *filters = packed + (group * panels.count + panel) * stride;
        GemmResult<C> result = {target + column, conv.out_channels};
        if (bias != nullptr) result.column_bias = bias + group * width + column;
        for (int64_t pixel = first, block = 0; pixel < last; pixel += kTileRows, ++block) {
          multiply_panel<C>(rows + block * rows_of_block, conv.taps(), conv.group_in(), {filters, columns}, columns,
                            result.at(pixel, 0), min_of(kTileRows, last - pixel), min_of(columns, width - column));
        }
      }
    }
  });
}

#define EDGECORE_INSTANTIATE(C) \
  template void convolve_pixels<C>(Call &, const Conv &, const C *, const C *, const int64_t *, const C *, C *);
EDGECORE_INSTANTIATE(float)
EDGECORE_INSTANTIATE(double)
EDGECORE_INSTANTIATE(int64_t)
#undef EDGECORE_INSTANTIATE

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
