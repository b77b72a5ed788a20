// Convolution of layout N, C, H, W as a GEMM of the weights and the patch matrix (im2col). The patch matrix is never
// stored: each panel (some columns) is packed from the image just before the panel is multiplied.
#include "lib/packed_gemm.h"
#include "ops/convolution.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Returns the number of phases (see Phases) of the padded input along one axis. Taps k with the same remainder k *
// dilation % stride read the same phase; there are at most stride / gcd(stride, dilation) different remainders.
int64_t phase_count(int64_t taps, int64_t stride, int64_t dilation) {
  int64_t a = stride;
  for (int64_t b = dilation; b != 0;) {  // Euclid's algorithm: `a` becomes gcd(stride, dilation)
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return min_of(taps, stride / a);
}

// Packs rows [k0, k0 + depth) and columns [pixel, pixel + pixels) of the patch matrix [channels * taps, output pixels]
// of one group. For one tap, the pixels of an output row read a part of an input row; these parts are the same for
// every channel, so their bounds are computed once per tap. columns[kw] are the output columns for which tap column kw
// is inside the image. Elements whose tap is in the padding become zero.
template <class C>
void pack_patches(const Conv &conv, const ValidRange *columns, const C *image, int64_t k0, int64_t depth, int64_t pixel,
                  int64_t pixels, int64_t width, C *target) {
  struct Run {
    int64_t to, from, length;
  } runs[kPanel<C>];
  const int64_t taps = conv.taps();
  const int64_t first_row = pixel / conv.out_w;
  const int64_t first_column = pixel % conv.out_w;
  for (int64_t tap = 0; tap < taps; ++tap) {
    const int64_t c0 = k0 > tap ? (k0 - tap + taps - 1) / taps : 0;
    const int64_t c1 = k0 + depth > tap ? (k0 + depth - tap + taps - 1) / taps : 0;
    if (c0 >= c1) continue;
    const int64_t kw = tap % conv.kernel_w;
    const int64_t shift_w = kw * conv.dilation_w - conv.pad_w;
    const int64_t shift_h = tap / conv.kernel_w * conv.dilation_h - conv.pad_h;
    int64_t count = 0;
    int64_t inside = 0;
    for (int64_t to = 0, oh = first_row, ow = first_column; to < pixels; to += conv.out_w - ow, ow = 0, ++oh) {
      const int64_t ih = oh * conv.stride_h + shift_h;
      const int64_t begin = max_of(ow, columns[kw].begin);
      const int64_t end = min_of(ow + pixels - to, columns[kw].end);
      if (ih < 0 || ih >= conv.in_h || begin >= end) continue;
      runs[count++] = {to + begin - ow, ih * conv.in_w + begin * conv.stride_w + shift_w, end - begin};
      inside += end - begin;
    }
    C *row = target + (c0 * taps + tap - k0) * width;
    const C *source = image + c0 * conv.in_pixels();
    // the most frequent case: one part of an input row fills the whole panel row
    if (inside == width && count == 1 && conv.stride_w == 1) {
      for (int64_t c = c0; c < c1; ++c, row += taps * width, source += conv.in_pixels()) {
        for (int64_t j = 0; j < width; j += kLanes<C>) store_vector(row + j, load_vector(source + runs[0].from + j));
      }
      continue;
    }
    for (int64_t c = c0; c < c1; ++c, row += taps * width, source += conv.in_pixels()) {
      for (int64_t j = 0; inside < width && j < width; j += kLanes<C>) store_vector(row + j, Vector<C>{});
      for (int64_t r = 0; r < count; ++r) {
        copy_steps(row + runs[r].to, source + runs[r].from, conv.stride_w, runs[r].length);
      }
    }
  }
}

}  // namespace

Phases::Phases(const Conv &conv)
    : count_h(phase_count(conv.kernel_h, conv.stride_h, conv.dilation_h)),
      count_w(phase_count(conv.kernel_w, conv.stride_w, conv.dilation_w)),
      rows(conv.out_h + (conv.kernel_h - 1) * conv.dilation_h / conv.stride_h),
      pitch(conv.out_w + (conv.kernel_w - 1) * conv.dilation_w / conv.stride_w) {
  const int64_t limit = 16 * (conv.in_pixels() + conv.out_pixels()) + 4096;
  fit = count_h <= limit && count_w <= limit / count_h && rows <= limit && pitch <= limit / rows && plane() <= limit;
}

template <class C>
void Phases::fill(const Conv &conv, const C *in, C *out) const {
  for (int64_t a = 0; a < count_h; ++a) {
    const int64_t shift_h = a * conv.dilation_h % conv.stride_h - conv.pad_h;
    const ValidRange lines(rows, conv.stride_h, shift_h, conv.in_h);
    for (int64_t b = 0; b < count_w; ++b, out += rows * pitch) {
      const int64_t shift_w = b * conv.dilation_w % conv.stride_w - conv.pad_w;
      const ValidRange valid(pitch, conv.stride_w, shift_w, conv.in_w);
      const int64_t n = valid.end - valid.begin;
      const C *from = in + (lines.begin * conv.stride_h + shift_h) * conv.in_w + shift_w + valid.begin * conv.stride_w;
      C *to = out + lines.begin * pitch + valid.begin;
      for (int64_t i = lines.begin; i < lines.end; ++i, to += pitch, from += conv.stride_h * conv.in_w) {
        copy_steps(to, from, conv.stride_w, n);
      }
    }
  }
}

template <class C>
void convolve_planes(Call &call, const Conv &conv, const C *input, const C *weight, const C *bias, C *out) {
  if (conv.is_depthwise()) {
    const Phases phases(conv);
    if (phases.fit) return depthwise_planes(call, conv, phases, input, weight, bias, out);
  }
  if constexpr (__is_same(C, float)) {
    if (prefers_winograd(conv) && winograd_planes(call, conv, input, weight, bias, out)) return;
  }
  const int64_t width = conv.group_out();
  const int64_t k = conv.group_in() * conv.taps();
  // Returns the left operand (weights) and the result of the matrix product of one group of one image.
  const auto operands = [&](int64_t i) {
    const int64_t group = i % conv.groups;
    GemmResult<C> result = {out + i * width * conv.out_pixels(), conv.out_pixels()};
    if (bias != nullptr) result.row_bias = bias + group * width;
    return GemmOperands<C>{weight + group * width * k, k, result};
  };
  const int64_t count = conv.batch * conv.groups;
  const int64_t group_pixels = conv.group_in() * conv.in_pixels();
  if (conv.is_pointwise()) {
    return packed_gemm<C>(
        call, count, width, conv.out_pixels(), k, operands,
        [&](int64_t i, int64_t k0, int64_t depth, int64_t pixel, int64_t n, int64_t panel, C *target) {
          const C *source = input + i * group_pixels + k0 * conv.in_pixels() + pixel;
          return pack_rows(source, conv.in_pixels(), depth, n, panel, width <= kTileRows, target);
        });
  }
  ValidRange *columns = call.scratch<ValidRange>(k == 0 ? 0 : conv.kernel_w);
  if (call.failed()) return;
  for (int64_t kw = 0; k > 0 && kw < conv.kernel_w; ++kw) {
    columns[kw] = ValidRange(conv.out_w, conv.stride_w, kw * conv.dilation_w - conv.pad_w, conv.in_w);
  }
  packed_gemm<C>(call, count, width, conv.out_pixels(), k, operands,
                 [&](int64_t i, int64_t k0, int64_t depth, int64_t pixel, int64_t n, int64_t panel, C *target) {
                   const C *image = input + i * group_pixels;
                   if (depth > 0) pack_patches(conv, columns, image, k0, depth, pixel, n, panel, target);
                   return Panel<C>{target, panel};
                 });
}

#define EDGECORE_INSTANTIATE(C)                                      \
  template void Phases::fill<C>(const Conv &, const C *, C *) const; \
  template void convolve_planes<C>(Call &, const Conv &, const C *, const C *, const C *, C *);
EDGECORE_INSTANTIATE(float)
EDGECORE_INSTANTIATE(double)
EDGECORE_INSTANTIATE(int64_t)
#undef EDGECORE_INSTANTIATE

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
