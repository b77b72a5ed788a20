// Depthwise convolution, in which each output channel depends on one input channel.
#include "lib/vector.h"
#include "ops/convolution.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

constexpr int64_t kBlock = 4;  // number of vectors of sums that are computed at the same time

// Computes out[i] = bias + the sum over t in [0, count) of weight[t] * in[taps[t] + i], for i in [0, kVectors * lanes).
template <class C, int kVectors>
void sum_taps(const C *in, const int64_t *taps, const C *weight, int64_t count, C bias, C *out) {
  Vector<C> sums[kVectors];
  for (int v = 0; v < kVectors; ++v) sums[v] = Vector<C>{} + bias;
  for (int64_t t = 0; t < count; ++t) {
    const C *source = in + taps[t];
    const C w = weight[t];
    for (int v = 0; v < kVectors; ++v) sums[v] += load_vector(source + v * kLanes<C>) * w;
  }
  for (int v = 0; v < kVectors; ++v) store_vector(out + v * kLanes<C>, sums[v]);
}

// Computes all channels of the output pixel (oh, ow): bias + the sum over taps of weight * input.
template <class C>
void sum_pixel(const Conv &conv, const C *image, const C *weight, const C *bias, int64_t oh, int64_t ow, C *target) {
  const int64_t channels = conv.in_channels;
  const ValidRange rows(conv.kernel_h, conv.dilation_h, oh * conv.stride_h - conv.pad_h, conv.in_h);
  const ValidRange columns(conv.kernel_w, conv.dilation_w, ow * conv.stride_w - conv.pad_w, conv.in_w);
  const C *corner =
      image + ((oh * conv.stride_h - conv.pad_h) * conv.in_w + ow * conv.stride_w - conv.pad_w) * channels;
  const auto for_each_tap = [&](auto body) {
    for (int64_t kh = rows.begin; kh < rows.end; ++kh) {
      for (int64_t kw = columns.begin; kw < columns.end; ++kw) {
        body(corner + (kh * conv.dilation_h * conv.in_w + kw * conv.dilation_w) * channels,
             weight + (kh * conv.kernel_w + kw) * channels);
      }
    }
  };
  int64_t c = 0;
  for (; c + kBlock * kLanes<C> <= channels; c += kBlock * kLanes<C>) {
    Vector<C> sums[kBlock] = {};
    for (int64_t v = 0; bias != nullptr && v < kBlock; ++v) sums[v] = load_vector(bias + c + v * kLanes<C>);
    for_each_tap([&](const C *in, const C *w) {
      for (int64_t v = 0; v < kBlock; ++v) {
        sums[v] += load_vector(in + c + v * kLanes<C>) * load_vector(w + c + v * kLanes<C>);
      }
    });
    for (int64_t v = 0; v < kBlock; ++v) store_vector(target + c + v * kLanes<C>, sums[v]);
  }
  for (int64_t i = c; i < channels; ++i) target[i] = bias != nullptr ? bias[i] : C{0};
  if (c == channels) return;
  for_each_tap([&](const C *__restrict in, const C *__restrict w) {
    for (int64_t i = c; i < channels; ++i) target[i] += in[i] * w[i];
  });
}

}  // namespace

template <class C>
void depthwise_planes(Call &call, const Conv &conv, const Phases &phases, const C *input, const C *weight,
                      const C *bias, C *out) {
  // Compute the output as one long line whose rows have `pitch` elements, so that rows need no partial vectors. The
  // pitch - out_w surplus elements of each row are computed from other rows or padding, and are not copied to `out`.
  constexpr int64_t kBlockWidth = kBlock * kLanes<C>;
  const int64_t line = conv.out_h * phases.pitch;
  const int64_t slack = phases.pitch + kBlockWidth;  // number of elements beyond the padded plane that may be read
  const int64_t in_part = round_up(phases.plane() + slack, 16);
  const int64_t part = in_part + round_up(line, kBlockWidth);
  int64_t *taps = call.scratch<int64_t>(conv.taps());
  C *memory = call.scratch<C>(part * call.worker_count());
  if (call.failed()) return;
  for (int64_t t = 0; t < conv.taps(); ++t) taps[t] = phases.tap(conv, t / conv.kernel_w, t % conv.kernel_w);
  const int64_t work = line * conv.taps();
  call.parallel(conv.batch * conv.in_channels, 65536 / (work + 1) + 1, [&](int64_t begin, int64_t end, int64_t worker) {
    C *in = memory + worker * part;
    C *sums = in + in_part;
    for (int64_t i = 0; i < in_part; ++i) in[i] = 0;  // zero the padding once: fill() never writes it
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t channel = plane % conv.in_channels;
      const C *taps_weight = weight + channel * conv.taps();
      const C start = bias != nullptr ? bias[channel] : C{0};
      phases.fill(conv, input + plane * conv.in_pixels(), in);
      int64_t i = 0;
      for (; i + kBlockWidth <= line; i += kBlockWidth)
        sum_taps<C, kBlock>(in + i, taps, taps_weight, conv.taps(), start, sums + i);
      for (; i < line; i += kLanes<C>) sum_taps<C, 1>(in + i, taps, taps_weight, conv.taps(), start, sums + i);
      C *target = out + plane * conv.out_pixels();
      for (int64_t oh = 0; oh < conv.out_h; ++oh, target += conv.out_w) {
        copy_run<1>(target, sums + oh * phases.pitch, conv.out_w);
      }
    }
  });
}

template <class C>
void depthwise_pixels(Call &call, const Conv &conv, const C *input, const C *weight, const C *bias, C *out) {
  const int64_t channels = conv.in_channels;
  const int64_t work = conv.out_w * channels * conv.taps();
  call.parallel(conv.batch * conv.out_h, 65536 / (work + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t line = begin; line < end; ++line) {
      const C *image = input + line / conv.out_h * conv.in_pixels() * channels;
      for (int64_t ow = 0; ow < conv.out_w; ++ow) {
        C *target = out + (line * conv.out_w + ow) * channels;
        sum_pixel(conv, image, weight, bias, line % conv.out_h, ow, target);
      }
    }
  });
}

#define EDGECORE_INSTANTIATE(C)                                                                                  \
  template void depthwise_planes<C>(Call &, const Conv &, const Phases &, const C *, const C *, const C *, C *); \
  template void depthwise_pixels<C>(Call &, const Conv &, const C *, const C *, const C *, C *);
EDGECORE_INSTANTIATE(float)
EDGECORE_INSTANTIATE(double)
EDGECORE_INSTANTIATE(int64_t)
#undef EDGECORE_INSTANTIATE

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
