// Transposed convolution: a GEMM of weights and input computes what each input pixel contributes through each tap; then
// the contributions are added to the output pixels (col2im).
#include "lib/packed_gemm.h"
#include "ops/convolution.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

template <class C>
void convolve_transposed(Call &call, const Conv &conv, const C *input, const C *weight, const C *bias, C *out) {
  const int64_t depth = conv.group_in();
  const int64_t k = depth == 0 ? 0 : conv.group_out() * conv.taps();
  const int64_t part = k * conv.in_pixels();
  const int64_t count = conv.batch * conv.groups;
  C *filters = call.scratch<C>(conv.groups * k * depth);  // shape [group][group_out * taps][group_in]
  C *columns = call.scratch<C>(count * part);
  if (call.failed()) return;
  call.parallel(conv.groups * k, 16384 / (depth + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      const C *source = weight + i / k * depth * k + i % k;
      for (int64_t c = 0; c < depth; ++c) filters[i * depth + c] = source[c * k];
    }
  });
  packed_gemm<C>(
      call, count, k, conv.in_pixels(), depth,
      [&](int64_t i) {
        const GemmResult<C> result = {columns + i * part, conv.in_pixels()};
        return GemmOperands<C>{filters + i % conv.groups * k * depth, depth, result};
      },
      [&](int64_t i, int64_t k0, int64_t steps, int64_t pixel, int64_t n, int64_t width, C *target) {
        const C *source = input + (i * depth + k0) * conv.in_pixels() + pixel;
        return pack_rows(source, conv.in_pixels(), steps, n, width, k <= kTileRows, target);
      });
  if (call.failed()) return;
  const int64_t work = conv.out_pixels() + conv.taps() * conv.in_pixels();
  call.parallel(conv.batch * conv.out_channels, 16384 / (work + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t plane = begin; plane < end; ++plane) {
      C *target = out + plane * conv.out_pixels();
      const C start = bias != nullptr ? bias[plane % conv.out_channels] : C{0};
      for (int64_t i = 0; i < conv.out_pixels(); ++i) target[i] = start;
      const C *from = columns + plane * conv.taps() * conv.in_pixels();
      for (int64_t tap = 0; k > 0 && tap < conv.taps(); ++tap) {
        const int64_t shift_h = tap / conv.kernel_w * conv.dilation_h - conv.pad_h;
        const int64_t shift_w = tap % conv.kernel_w * conv.dilation_w - conv.pad_w;
        const ValidRange rows(conv.in_h, conv.stride_h, shift_h, conv.out_h);
        const ValidRange valid(conv.in_w, conv.stride_w, shift_w, conv.out_w);
        for (int64_t ih = rows.begin; ih < rows.end; ++ih) {
          C *__restrict line = target + (ih * conv.stride_h + shift_h) * conv.out_w + shift_w;
          const C *__restrict source = from + ih * conv.in_w;
          for (int64_t i = valid.begin; i < valid.end; ++i) line[i * conv.stride_w] += source[i];
        }
        from += conv.in_pixels();
      }
    }
  });
}

#define EDGECORE_INSTANTIATE(C) \
  template void convolve_transposed<C>(Call &, const Conv &, const C *, const C *, const C *, C *);
EDGECORE_INSTANTIATE(float)
EDGECORE_INSTANTIATE(double)
EDGECORE_INSTANTIATE(int64_t)
#undef EDGECORE_INSTANTIATE

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
