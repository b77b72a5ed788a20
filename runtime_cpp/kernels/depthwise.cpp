#include "convolution.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// out[i] += sum over taps of weight[t] * in[i * kStride + t * dilation], all positions inside.
template <class C, int kTaps, int kStride>
void row_taps(C *__restrict out, const C *__restrict in, const C *weight, int64_t dilation, int64_t n) {
  C w[kTaps];
  for (int t = 0; t < kTaps; ++t) w[t] = weight[t];
  for (int64_t i = 0; i < n; ++i) {
    C sum = out[i];
    for (int t = 0; t < kTaps; ++t) sum += w[t] * in[i * kStride + t * dilation];
    out[i] = sum;
  }
}

template <class C>
void row_any(C *__restrict out, const C *__restrict in, C weight, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] += weight * in[i * stride];
}

// One output row from one input row.
template <class C>
void row(const Conv &conv, C *out, const C *in, const C *weight) {
  const int64_t last = (conv.kernel_w - 1) * conv.dilation_w;
  // Columns where every tap is inside take the fused loop, the few at the borders one tap at a time.
  const Valid first_tap(conv.out_w, conv.stride_w, -conv.pad_w, conv.in_w);
  const Valid last_tap(conv.out_w, conv.stride_w, last - conv.pad_w, conv.in_w);
  int64_t begin = first_tap.begin;
  int64_t end = last_tap.end < first_tap.end ? last_tap.end : first_tap.end;
  const C *start = in + begin * conv.stride_w - conv.pad_w;
  const int64_t n = end - begin;
  const int64_t d = conv.dilation_w;
  const bool fused = n > 0 && (conv.kernel_w == 3 || conv.kernel_w == 5) && conv.stride_w <= 2;
  if (!fused) {
    begin = end = 0;
  } else if (conv.kernel_w == 3) {
    if (conv.stride_w == 1) row_taps<C, 3, 1>(out + begin, start, weight, d, n);
    if (conv.stride_w == 2) row_taps<C, 3, 2>(out + begin, start, weight, d, n);
  } else {
    if (conv.stride_w == 1) row_taps<C, 5, 1>(out + begin, start, weight, d, n);
    if (conv.stride_w == 2) row_taps<C, 5, 2>(out + begin, start, weight, d, n);
  }
  for (int64_t t = 0; t < conv.kernel_w; ++t) {
    const int64_t shift = t * d - conv.pad_w;
    const Valid valid(conv.out_w, conv.stride_w, shift, conv.in_w);
    const int64_t left_end = fused && valid.end > begin ? begin : valid.end;
    const int64_t right = fused && valid.begin < end ? end : valid.end;
    const C *source = in + shift;
    if (left_end > valid.begin) {
      row_any(out + valid.begin, source + valid.begin * conv.stride_w, weight[t], conv.stride_w,
              left_end - valid.begin);
    }
    if (valid.end > right) {
      row_any(out + right, source + right * conv.stride_w, weight[t], conv.stride_w, valid.end - right);
    }
  }
}

}  // namespace

template <class C>
void depthwise_planes(Call &call, const Conv &conv, const C *input, const C *weight, C *out) {
  const int64_t work = conv.out_pixels() * conv.taps();
  call.parallel(conv.batch * conv.in_channels, 65536 / (work + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const C *in = input + plane * conv.in_pixels();
      const C *w = weight + plane % conv.in_channels * conv.taps();
      C *target = out + plane * conv.out_pixels();
      for (int64_t oh = 0; oh < conv.out_h; ++oh) {
        for (int64_t kh = 0; kh < conv.kernel_h; ++kh) {
          const int64_t ih = oh * conv.stride_h - conv.pad_h + kh * conv.dilation_h;
          if (ih < 0 || ih >= conv.in_h) continue;
          row(conv, target + oh * conv.out_w, in + ih * conv.in_w, w + kh * conv.kernel_w);
        }
      }
    }
  });
}

template <class C>
void depthwise_pixels(Call &call, const Conv &conv, const C *input, const C *weight, C *out) {
  const int64_t channels = conv.in_channels;
  const int64_t work = conv.out_w * channels * conv.taps();
  call.parallel(conv.batch * conv.out_h, 65536 / (work + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t oh = line % conv.out_h;
      const C *image = input + line / conv.out_h * conv.in_pixels() * channels;
      for (int64_t ow = 0; ow < conv.out_w; ++ow) {
        C *__restrict target = out + (line * conv.out_w + ow) * channels;
        for (int64_t kh = 0; kh < conv.kernel_h; ++kh) {
          const int64_t ih = oh * conv.stride_h - conv.pad_h + kh * conv.dilation_h;
          if (ih < 0 || ih >= conv.in_h) continue;
          const C *line_in = image + ih * conv.in_w * channels;
          const C *line_w = weight + kh * conv.kernel_w * channels;
          const int64_t left = ow * conv.stride_w - conv.pad_w;
          if (conv.kernel_w == 3 && left >= 0 && left + 2 * conv.dilation_w < conv.in_w) {
            const C *__restrict a = line_in + left * channels;
            const C *__restrict b = a + conv.dilation_w * channels;
            const C *__restrict c = b + conv.dilation_w * channels;
            for (int64_t i = 0; i < channels; ++i) {
              target[i] += a[i] * line_w[i] + b[i] * line_w[channels + i] + c[i] * line_w[2 * channels + i];
            }
            continue;
          }
          for (int64_t kw = 0; kw < conv.kernel_w; ++kw) {
            const int64_t iw = left + kw * conv.dilation_w;
            if (iw < 0 || iw >= conv.in_w) continue;
            const C *__restrict a = line_in + iw * channels;
            const C *__restrict w = line_w + kw * channels;
            for (int64_t i = 0; i < channels; ++i) target[i] += a[i] * w[i];
          }
        }
      }
    }
  });
}

#define EDGECORE_INSTANTIATE(C)                                                       \
  template void depthwise_planes<C>(Call &, const Conv &, const C *, const C *, C *); \
  template void depthwise_pixels<C>(Call &, const Conv &, const C *, const C *, C *);
EDGECORE_INSTANTIATE(float)
EDGECORE_INSTANTIATE(double)
EDGECORE_INSTANTIATE(int64_t)
#undef EDGECORE_INSTANTIATE

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
