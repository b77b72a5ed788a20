// Bilinear resampling with antialiasing: each output pixel is the weighted mean of input pixels. The weights fall
// linearly from the center of the output pixel to both sides, like a triangle. If the image shrinks, the triangle is as
// wide as two output pixels, so that every input pixel has a weight.
#include "ops/index.h"
#include "ops/resample.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Returns the triangle weights along one axis. `factor` is the call's scale factor, or 0 if the sizes define the scale.
template <class C>
AxisWeights<C> triangle_weights(Call &call, int64_t in, int64_t out, double factor, bool align_corners) {
  AxisWeights<C> t;
  const C scale = align_corners ? (out > 1 ? static_cast<C>(in - 1) / static_cast<C>(out - 1) : C{0})
                  : factor > 0  ? static_cast<C>(1.0 / factor)
                                : static_cast<C>(in) / static_cast<C>(out);
  const C support = scale >= 1 ? scale : C(1);
  if (!call.check(support < static_cast<C>(int64_t{1} << 30), "the scale is out of range")) return t;
  t.max_count = static_cast<int64_t>(support) * 2 + 3;
  t.max_count = t.max_count > in ? in : t.max_count;
  t.first = call.scratch<int64_t>(out);
  t.count = call.scratch<int64_t>(out);
  t.weights = call.scratch<C>(out * t.max_count);
  if (call.failed()) return t;
  for (int64_t i = 0; i < out; ++i) {
    const C center = scale * (static_cast<C>(i) + C(0.5));
    const auto pixel = [&](C x) { return x < 0 ? 0 : x > static_cast<C>(in) ? in : static_cast<int64_t>(x); };
    const int64_t begin = pixel(center - support + C(0.5));
    int64_t n = pixel(center + support + C(0.5)) - begin;
    n = n > t.max_count ? t.max_count : n;
    C total = 0;
    C *w = t.weights + i * t.max_count;
    for (int64_t k = 0; k < n; ++k) {
      const C distance = (static_cast<C>(begin + k) - center + C(0.5)) * (1 / support);
      const C height = 1 - (distance < 0 ? -distance : distance);
      w[k] = height > 0 ? height : 0;
      total += w[k];
    }
    for (int64_t k = 0; k < n; ++k) w[k] = total != 0 ? w[k] / total : 0;
    t.first[i] = begin;
    t.count[i] = n;
  }
  return t;
}

template <class C>
void resample(Call &call, Tensor self, Tensor out, bool align_corners, double factor_h, double factor_w) {
  const int64_t in_h = self.size(2);
  const int64_t in_w = self.size(3);
  const int64_t out_h = out.size(2);
  const int64_t out_w = out.size(3);
  const AxisWeights<C> rows = triangle_weights<C>(call, in_h, out_h, factor_h, align_corners);
  const AxisWeights<C> columns = triangle_weights<C>(call, in_w, out_w, factor_w, align_corners);
  const C *x = dense<C>(call, self);
  const DenseOut<C> result(call, out);
  C *memory = call.scratch<C>(in_h * out_w * call.worker_count());
  if (call.failed()) return;
  call.parallel(self.size(0) * self.size(1), 1, [&](int64_t begin, int64_t end, int64_t worker) {
    C *narrow = memory + worker * in_h * out_w;  // the image after the horizontal resampling
    for (int64_t plane = begin; plane < end; ++plane) {
      for (int64_t r = 0; r < in_h; ++r) {
        const C *from = x + (plane * in_h + r) * in_w;
        for (int64_t i = 0; i < out_w; ++i) {
          C sum = 0;
          for (int64_t k = 0; k < columns.count[i]; ++k) {
            sum += from[columns.first[i] + k] * columns.weights[i * columns.max_count + k];
          }
          narrow[r * out_w + i] = sum;
        }
      }
      for (int64_t r = 0; r < out_h; ++r) {
        C *to = result.data() + (plane * out_h + r) * out_w;
        for (int64_t i = 0; i < out_w; ++i) to[i] = 0;
        for (int64_t k = 0; k < rows.count[r]; ++k) {
          const C weight = rows.weights[r * rows.max_count + k];
          const C *from = narrow + (rows.first[r] + k) * out_w;
          for (int64_t i = 0; i < out_w; ++i) to[i] += weight * from[i];
        }
      }
    }
  });
  result.finish(call);
}

// The weights for uint8 images, as in ATen and Pillow: fixed-point numbers with `shift` fractional bits. `shift` is the
// largest number up to 22 for which the largest weight fits into an int16. The weights of an output add up to about
// 2^shift, so sums of weighted 8-bit pixels fit into an int32.
struct IntegerWeights {
  int16_t *weights = nullptr;
  int shift = 0;
};

IntegerWeights integer_weights(Call &call, const AxisWeights<double> &t, int64_t out) {
  IntegerWeights result;
  result.weights = call.scratch<int16_t>(out * t.max_count);
  if (call.failed()) return result;
  double max_weight = 0;
  for (int64_t i = 0; i < out; ++i) {
    for (int64_t k = 0; k < t.count[i]; ++k) {
      const double w = t.weights[i * t.max_count + k];
      max_weight = w > max_weight ? w : max_weight;
    }
  }
  while (result.shift < 22 && 0.5 + max_weight * static_cast<double>(1 << (result.shift + 1)) < 32768) ++result.shift;
  for (int64_t i = 0; i < out; ++i) {
    for (int64_t k = 0; k < t.count[i]; ++k) {
      const double w = t.weights[i * t.max_count + k] * static_cast<double>(1 << result.shift);
      result.weights[i * t.max_count + k] = static_cast<int16_t>(0.5 + w);
    }
  }
  return result;
}

// Returns the weighted mean, rounded and clamped, of `count` bytes that are `step` bytes apart.
uint8_t mean_of(const uint8_t *from, int64_t step, const int16_t *weights, int64_t count, int shift) {
  int32_t sum = shift > 0 ? 1 << (shift - 1) : 0;
  for (int64_t k = 0; k < count; ++k) sum += from[k * step] * weights[k];
  sum >>= shift;
  return static_cast<uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

}  // namespace

void resample_bytes(Call &call, Tensor self, Tensor out, const AxisWeights<double> &rows,
                    const AxisWeights<double> &columns) {
  const int64_t in_h = self.size(2);
  const int64_t in_w = self.size(3);
  const int64_t out_h = out.size(2);
  const int64_t out_w = out.size(3);
  if (call.failed()) return;
  const IntegerWeights row_weights = integer_weights(call, rows, out_h);
  const IntegerWeights column_weights = integer_weights(call, columns, out_w);
  const uint8_t *x = reinterpret_cast<const uint8_t *>(dense_bytes(call, self));
  const BytesOut result(call, out);
  uint8_t *narrow = call.scratch<uint8_t>(in_h * out_w);
  if (call.failed()) return;
  for (int64_t plane = 0; plane < self.size(0) * self.size(1); ++plane) {
    for (int64_t r = 0; r < in_h; ++r) {
      const uint8_t *from = x + (plane * in_h + r) * in_w;
      for (int64_t i = 0; i < out_w; ++i) {
        narrow[r * out_w + i] =
            in_w == out_w ? from[i]
                          : mean_of(from + columns.first[i], 1, column_weights.weights + i * columns.max_count,
                                    columns.count[i], column_weights.shift);
      }
    }
    uint8_t *to = reinterpret_cast<uint8_t *>(result.data()) + plane * out_h * out_w;
    for (int64_t r = 0; r < out_h; ++r) {
      for (int64_t i = 0; i < out_w; ++i) {
        to[r * out_w + i] = in_h == out_h
                                ? narrow[r * out_w + i]
                                : mean_of(narrow + rows.first[r] * out_w + i, out_w,
                                          row_weights.weights + r * rows.max_count, rows.count[r], row_weights.shift);
      }
    }
  }
  result.finish(call);
}

int32_t upsample_bilinear2d_aa_out(const edgecore_call *raw) {
  Call call(raw, "aten::_upsample_bilinear2d_aa.out");
  const Tensor self = call.tensor(0);
  const Ints size = call.ints(1);
  const bool align_corners = call.flag(2);
  const double factor_h = call.is_none(3) ? 0 : call.real(3);
  const double factor_w = call.is_none(4) ? 0 : call.real(4);
  const Tensor out = call.tensor(5);
  if (!call.check(!call.failed() && self.ndim() == 4 && size.count == 2,
                  "the input must have four dims, output_size two") ||
      !call.check(is_floating(self.type()) || self.type() == Type::kU8, "the input must be floating or uint8") ||
      !call.check(self.type() == out.type(), "out must have the input's dtype") ||
      !call.check(self.size(2) > 0 && self.size(3) > 0 && size[0] > 0 && size[1] > 0,
                  "input and output must have at least one pixel")) {
    return call.status();
  }
  Shape shape = self.shape();
  shape.sizes[2] = size[0];
  shape.sizes[3] = size[1];
  if (!call.resize(out, shape) || out.numel() == 0) return call.status();
  if (self.type() == Type::kU8) {
    const auto rows = triangle_weights<double>(call, self.size(2), size[0], factor_h, align_corners);
    const auto columns = triangle_weights<double>(call, self.size(3), size[1], factor_w, align_corners);
    resample_bytes(call, self, out, rows, columns);
  } else if (self.type() == Type::kF64) {
    resample<double>(call, self, out, align_corners, factor_h, factor_w);
  } else {
    resample<float>(call, self, out, align_corners, factor_h, factor_w);
  }
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
