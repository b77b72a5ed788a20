// Bilinear and nearest-neighbor resampling of two spatial dims.
#include "lib/convert.h"
#include "ops/resample.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// The two input positions that an output position reads along one axis, and the weight of the second one, `high`.
template <class C>
struct Tap {
  int32_t low, high;
  C weight;
};

struct Sizes {
  int64_t planes, in_h, in_w, out_h, out_w;
  double scale_h, scale_w;  // scale factor arguments of the call; 0 if the call has output sizes instead
};

// Reads the arguments output_size or scale_factors, and resizes `out`. The call's arguments are input, output_size,
// [align_corners,] scale_factors, out.
bool read_sizes(Call &call, Tensor self, uint64_t factors_index, Tensor out, Sizes *sizes) {
  if (!call.check(self.ndim() == 4, "the input must have four dims")) return false;
  sizes->planes = self.size(0) * self.size(1);
  sizes->in_h = self.size(2);
  sizes->in_w = self.size(3);
  sizes->scale_h = sizes->scale_w = 0;
  if (!call.is_none(1)) {
    const Ints size = call.ints(1);
    if (!call.check(size.count == 2, "output_size must have two entries")) return false;
    sizes->out_h = size[0];
    sizes->out_w = size[1];
  } else {
    int64_t count = 0;
    const double *factors = call.doubles(factors_index, &count);
    if (!call.check(count == 2, "scale_factors must have two entries")) return false;
    sizes->scale_h = factors[0];
    sizes->scale_w = factors[1];
    sizes->out_h = static_cast<int64_t>(static_cast<double>(sizes->in_h) * factors[0]);
    sizes->out_w = static_cast<int64_t>(static_cast<double>(sizes->in_w) * factors[1]);
  }
  Shape shape = self.shape();
  shape.sizes[2] = sizes->out_h;
  shape.sizes[3] = sizes->out_w;
  return call.check(sizes->in_h > 0 && sizes->in_w > 0 && sizes->out_h > 0 && sizes->out_w > 0 &&
                        sizes->in_h <= INT32_MAX && sizes->in_w <= INT32_MAX,
                    "input and output must have at least one pixel") &&
         call.check_cast(self.type(), out) && call.resize(out, shape);
}

template <class C>
void linear_taps(int64_t in, int64_t out, double factor, bool align_corners, Tap<C> *taps) {
  const C step = align_corners ? (out > 1 ? static_cast<C>(in - 1) / static_cast<C>(out - 1) : C{0})
                 : factor > 0  ? static_cast<C>(1.0 / factor)
                               : static_cast<C>(in) / static_cast<C>(out);
  for (int64_t i = 0; i < out; ++i) {
    C position = align_corners ? static_cast<C>(i) * step : (static_cast<C>(i) + C(0.5)) * step - C(0.5);
    if (position < C{0}) position = C{0};
    int64_t low = static_cast<int64_t>(position);
    if (low > in - 1) low = in - 1;
    const int64_t high = low < in - 1 ? low + 1 : low;
    C weight = position - static_cast<C>(low);
    if (weight > C{1}) weight = C{1};
    taps[i] = {static_cast<int32_t>(low), static_cast<int32_t>(high), weight};
  }
}

template <class C>
void bilinear(Call &call, Tensor self, Tensor out, const Sizes &s, bool align_corners) {
  const C *x = dense<C>(call, self);
  const DenseOut<C> result(call, out);
  Tap<C> *rows = call.scratch<Tap<C>>(s.out_h);
  Tap<C> *columns = call.scratch<Tap<C>>(s.out_w);
  if (call.failed()) return;
  linear_taps(s.in_h, s.out_h, s.scale_h, align_corners, rows);
  linear_taps(s.in_w, s.out_w, s.scale_w, align_corners, columns);
  call.parallel(s.planes * s.out_h, 8192 / s.out_w + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t line = begin; line < end; ++line) {
      const C *plane = x + line / s.out_h * s.in_h * s.in_w;
      const Tap<C> &row = rows[line % s.out_h];
      const C *upper = plane + row.low * s.in_w;
      const C *lower = plane + row.high * s.in_w;
      C *target = result.data() + line * s.out_w;
      for (int64_t i = 0; i < s.out_w; ++i) {
        const Tap<C> &t = columns[i];
        const C above = (C{1} - t.weight) * upper[t.low] + t.weight * upper[t.high];
        const C below = (C{1} - t.weight) * lower[t.low] + t.weight * lower[t.high];
        target[i] = (C{1} - row.weight) * above + row.weight * below;
      }
    }
  });
  result.finish(call);
}

// Returns bilinear weights along one axis, for resample_bytes(). Each output has a first input position and 1 or 2
// weights.
AxisWeights<double> byte_weights(Call &call, int64_t in, int64_t out, double factor, bool align_corners) {
  AxisWeights<double> t;
  t.max_count = 2;
  t.first = call.scratch<int64_t>(out);
  t.count = call.scratch<int64_t>(out);
  t.weights = call.scratch<double>(out * 2);
  Tap<double> *taps = call.scratch<Tap<double>>(out);
  if (call.failed()) return t;
  linear_taps(in, out, factor, align_corners, taps);
  for (int64_t i = 0; i < out; ++i) {
    const bool two = taps[i].high > taps[i].low;
    t.first[i] = taps[i].low;
    t.count[i] = two ? 2 : 1;
    t.weights[2 * i] = two ? 1 - taps[i].weight : 1;
    t.weights[2 * i + 1] = two ? taps[i].weight : 0;
  }
  return t;
}

void nearest_taps(int64_t in, int64_t out, double factor, int32_t *taps) {
  const float step = factor > 0 ? static_cast<float>(1.0 / factor) : static_cast<float>(in) / static_cast<float>(out);
  for (int64_t i = 0; i < out; ++i) {
    const int64_t position = static_cast<int64_t>(static_cast<float>(i) * step);
    taps[i] = static_cast<int32_t>(position < in - 1 ? position : in - 1);
  }
}

template <class C>
void nearest(Call &call, Tensor self, Tensor out, const Sizes &s) {
  const C *x = dense<C>(call, self);
  const DenseOut<C> result(call, out);
  int32_t *rows = call.scratch<int32_t>(s.out_h);
  int32_t *columns = call.scratch<int32_t>(s.out_w);
  if (call.failed()) return;
  nearest_taps(s.in_h, s.out_h, s.scale_h, rows);
  nearest_taps(s.in_w, s.out_w, s.scale_w, columns);
  call.parallel(s.planes * s.out_h, 8192 / s.out_w + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t line = begin; line < end; ++line) {
      const C *source = x + (line / s.out_h * s.in_h + rows[line % s.out_h]) * s.in_w;
      C *target = result.data() + line * s.out_w;
      for (int64_t i = 0; i < s.out_w; ++i) target[i] = source[columns[i]];
    }
  });
  result.finish(call);
}

}  // namespace

int32_t upsample_bilinear2d_vec_out(const edgecore_call *raw) {
  Call call(raw, "aten::upsample_bilinear2d.vec_out");
  const Tensor self = call.tensor(0);
  const bool align_corners = call.flag(2);
  const Tensor out = call.tensor(4);
  Sizes sizes;
  if (!call.check(is_floating(self.type()) || (self.type() == Type::kU8 && out.type() == Type::kU8),
                  "the input must be floating, or uint8 like out") ||
      !read_sizes(call, self, 3, out, &sizes) || out.numel() == 0) {
    return call.status();
  }
  if (self.type() == Type::kU8) {
    const auto rows = byte_weights(call, sizes.in_h, sizes.out_h, sizes.scale_h, align_corners);
    const auto columns = byte_weights(call, sizes.in_w, sizes.out_w, sizes.scale_w, align_corners);
    resample_bytes(call, self, out, rows, columns);
  } else if (self.type() == Type::kF64) {
    bilinear<double>(call, self, out, sizes, align_corners);
  } else {
    bilinear<float>(call, self, out, sizes, align_corners);
  }
  return call.status();
}

int32_t upsample_nearest2d_vec_out(const edgecore_call *raw) {
  Call call(raw, "aten::upsample_nearest2d.vec_out");
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(3);
  Sizes sizes;
  if (!read_sizes(call, self, 2, out, &sizes) || out.numel() == 0) return call.status();
  with_compute(self.type(), [&](auto c) { nearest<decltype(c)>(call, self, out, sizes); });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
