// Convolution of N, C, H, W: weights times the patches of each output pixel, which are packed panel by panel.
#include "convolution.h"
#include "product.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

int64_t phase_count(int64_t taps, int64_t stride, int64_t dilation) {
  int64_t a = stride;
  for (int64_t b = dilation; b != 0;) {  // the greatest common divisor
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return min_of(taps, stride / a);
}

// The output pixels of a panel as runs within output rows.
template <class C>
struct Runs {
  int64_t count = 0;
  int64_t start[kPanel<C>];   // of the first pixel, in a phase
  int64_t length[kPanel<C>];  // pixels

  Runs(const Conv &conv, const Phases &phases, int64_t pixel, int64_t pixels) {
    for (const int64_t end = pixel + pixels; pixel < end; ++count) {
      const int64_t ow = pixel % conv.out_w;
      start[count] = pixel / conv.out_w * phases.pitch + ow;
      length[count] = min_of(conv.out_w - ow, end - pixel);
      pixel += length[count];
    }
  }
};

// Rows [k0, k0 + depth) of the patch matrix [channels * taps, pixels] from the phases of all channels.
template <class C>
void pack_from_phases(const Conv &conv, const Phases &phases, const int64_t *taps, const C *planes, int64_t k0,
                      int64_t depth, int64_t pixel, int64_t pixels, int64_t width, C *target) {
  const Runs<C> runs(conv, phases, pixel, pixels);
  const int64_t count = conv.taps();
  const C *plane = planes + k0 / count * phases.plane();
  int64_t tap = k0 % count;
  for (int64_t p = 0; p < depth; ++p, target += width) {
    const C *source = plane + taps[tap];
    C *to = target;
    for (int64_t r = 0; r < runs.count; ++r) {
      // Whole vectors: what is too much is overwritten by the next run, row or block.
      const C *from = source + runs.start[r];
      for (int64_t j = 0; j < runs.length[r]; j += kLanes<C>) store_vector(to + j, load_vector(from + j));
      to += runs.length[r];
    }
    for (int64_t j = pixels; j < width; ++j) target[j] = 0;
    if (++tap == count) {
      tap = 0;
      plane += phases.plane();
    }
  }
}

// The same from the image, one element at a time.
template <class C>
void pack_from_image(const Conv &conv, const C *image, int64_t k0, int64_t depth, int64_t pixel, int64_t pixels,
                     int64_t width, C *target) {
  for (int64_t p = k0; p < k0 + depth; ++p, target += width) {
    const C *plane = image + p / conv.taps() * conv.in_pixels();
    const int64_t tap = p % conv.taps();
    for (int64_t j = 0; j < width; ++j) {
      const int64_t oh = (pixel + j) / conv.out_w;
      const int64_t ow = (pixel + j) % conv.out_w;
      const int64_t ih = oh * conv.stride_h - conv.pad_h + tap / conv.kernel_w * conv.dilation_h;
      const int64_t iw = ow * conv.stride_w - conv.pad_w + tap % conv.kernel_w * conv.dilation_w;
      const bool inside = j < pixels && ih >= 0 && ih < conv.in_h && iw >= 0 && iw < conv.in_w;
      target[j] = inside ? plane[ih * conv.in_w + iw] : C{0};
    }
  }
}

}  // namespace

Phases::Phases(const Conv &conv)
    : count_h(phase_count(conv.kernel_h, conv.stride_h, conv.dilation_h)),
      count_w(phase_count(conv.kernel_w, conv.stride_w, conv.dilation_w)),
      rows(conv.out_h + (conv.kernel_h - 1) * conv.dilation_h / conv.stride_h),
      pitch(conv.out_w + (conv.kernel_w - 1) * conv.dilation_w / conv.stride_w) {
  const int64_t image = conv.in_channels * conv.in_pixels() + conv.out_channels * conv.out_pixels();
  const int64_t limit = conv.in_channels == 0 ? 0 : (16 * image + 65536) / conv.in_channels;
  fit = count_h <= limit && count_w <= limit / count_h && rows <= limit && pitch <= limit / rows && plane() <= limit;
}

template <class C>
void Phases::fill(const Conv &conv, const C *in, C *out) const {
  for (int64_t a = 0; a < count_h; ++a) {
    const int64_t shift_h = a * conv.dilation_h % conv.stride_h - conv.pad_h;
    const Valid lines(rows, conv.stride_h, shift_h, conv.in_h);
    for (int64_t b = 0; b < count_w; ++b, out += rows * pitch) {
      const int64_t shift_w = b * conv.dilation_w % conv.stride_w - conv.pad_w;
      const Valid valid(pitch, conv.stride_w, shift_w, conv.in_w);
      const int64_t n = valid.end - valid.begin;
      const C *from = in + (lines.begin * conv.stride_h + shift_h) * conv.in_w + shift_w + valid.begin * conv.stride_w;
      C *to = out + lines.begin * pitch + valid.begin;
      for (int64_t i = lines.begin; i < lines.end; ++i, to += pitch, from += conv.stride_h * conv.in_w) {
        if (conv.stride_w == 1) {
          copy_run<1>(to, from, n);
        } else if (conv.stride_w == 2) {
          copy_run<2>(to, from, n);
        } else {
          for (int64_t j = 0; j < n; ++j) to[j] = from[j * conv.stride_w];
        }
      }
    }
  }
}

template <class C>
void convolve_planes(Call &call, const Conv &conv, const C *input, const C *weight, const C *bias, C *out) {
  const Phases phases(conv);
  const int64_t width = conv.group_out();
  const int64_t k = conv.group_in() * conv.taps();
  // The weights and the result of a group of an image.
  const auto product = [&](int64_t i) {
    const int64_t group = i % conv.groups;
    Result<C> result = {out + i * width * conv.out_pixels(), conv.out_pixels()};
    if (bias != nullptr) result.row_bias = bias + group * width;
    return Product<C>{weight + group * width * k, k, result};
  };
  const int64_t count = conv.batch * conv.groups;
  const int64_t group_pixels = conv.group_in() * conv.in_pixels();
  if (conv.is_pointwise()) {
    return multiply<C>(call, count, width, conv.out_pixels(), k, product,
                       [&](int64_t i, int64_t k0, int64_t depth, int64_t pixel, int64_t n, int64_t panel, C *target) {
                         const C *source = input + i * group_pixels + k0 * conv.in_pixels() + pixel;
                         pack_rows(source, conv.in_pixels(), depth, n, panel, target);
                       });
  }
  if (!phases.fit) {
    return multiply<C>(call, count, width, conv.out_pixels(), k, product,
                       [&](int64_t i, int64_t k0, int64_t depth, int64_t pixel, int64_t n, int64_t panel, C *target) {
                         pack_from_image(conv, input + i * group_pixels, k0, depth, pixel, n, panel, target);
                       });
  }
  if (conv.is_depthwise()) return depthwise_planes(call, conv, phases, input, weight, bias, out);
  int64_t *taps = call.scratch<int64_t>(conv.taps());
  C *planes = call.scratch<C>(conv.batch * conv.in_channels * phases.plane() + kLanes<C>);
  if (call.failed()) return;
  for (int64_t t = 0; t < conv.taps(); ++t) taps[t] = phases.tap(conv, t / conv.kernel_w, t % conv.kernel_w);
  call.parallel(conv.batch * conv.in_channels, 16384 / (phases.plane() + 1) + 1,
                [&](int64_t begin, int64_t end, int64_t) {
                  const int64_t bytes = (end - begin) * phases.plane() * static_cast<int64_t>(sizeof(C));
                  __builtin_memset(planes + begin * phases.plane(), 0, static_cast<uint64_t>(bytes));
                  for (int64_t c = begin; c < end; ++c) {
                    phases.fill(conv, input + c * conv.in_pixels(), planes + c * phases.plane());
                  }
                });
  multiply<C>(call, count, width, conv.out_pixels(), k, product,
              [&](int64_t i, int64_t k0, int64_t depth, int64_t pixel, int64_t n, int64_t panel, C *target) {
                const C *own = planes + i * conv.group_in() * phases.plane();
                pack_from_phases(conv, phases, taps, own, k0, depth, pixel, n, panel, target);
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
