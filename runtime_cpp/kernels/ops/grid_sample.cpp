// Samples an image at the points of a grid (aten::grid_sampler_2d).
#include "lib/convert.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

enum Interpolation : int64_t { kBilinear = 0, kNearest = 1, kBicubic = 2 };
enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

template <class C>
struct Axis {
  int64_t size;
  int64_t padding;
  bool align_corners;

  // Converts a grid coordinate from [-1, 1] to pixels. -1 and 1 are the centers of the first and last pixel if
  // align_corners is true, otherwise the outer edges of these two pixels.
  C pixels(C x) const {
    return align_corners ? (x + 1) / 2 * static_cast<C>(size - 1) : ((x + 1) * static_cast<C>(size) - 1) / 2;
  }

  C clipped(C x) const {
    const C last = static_cast<C>(size - 1);
    return x > last ? last : x > 0 ? x : C(0);  // NaN becomes 0
  }

  // Reflects a coordinate until it is inside the image. The mirrors are the centers of the outer pixels if
  // align_corners is true, otherwise the outer edges of the image.
  C reflected(C x) const {
    const C low = align_corners ? C(0) : C(-0.5);
    const C span = static_cast<C>(align_corners ? size - 1 : size);
    if (span <= 0) return C(0);
    const C distance = static_cast<C>(__builtin_fabs(x - low));
    const C flips = static_cast<C>(__builtin_floor(distance / span));
    const C rest = distance - flips * span;
    return __builtin_fmod(static_cast<double>(flips), 2.0) == 0 ? rest + low : span - rest + low;
  }

  C padded(C x) const {
    if (padding == kBorder) return clipped(x);
    if (padding == kReflection) return clipped(reflected(x));
    return x;
  }
};

// Returns the index of a pixel, or -1 if its coordinate x is outside of the image or NaN.
template <class C>
int64_t index_of(C x, int64_t size) {
  return x >= 0 && x < static_cast<C>(size) ? static_cast<int64_t>(x) : -1;
}

// Computes the weights of the four pixels around a point on one axis. The point is between the second and the third
// pixel, at distance t from the second, 0 <= t < 1. Uses cubic convolution with the coefficient a = -0.75 (Keys, 1981),
// as ATen does.
template <class C>
void cubic_weights(C t, C *w) {
  const C a = C(-0.75);
  const auto near = [&](C x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [&](C x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  w[0] = far(t + 1);
  w[1] = near(t);
  w[2] = near(1 - t);
  w[3] = far(2 - t);
}

template <class C>
struct Sampler {
  Axis<C> x, y;
  int64_t interpolation;
  const C *image;  // the pixels of one channel of the sampled image

  C at(C column, C row) const {
    const int64_t i = index_of(column, x.size);
    const int64_t j = index_of(row, y.size);
    return i < 0 || j < 0 ? C(0) : image[j * x.size + i];
  }

  C sample(C grid_x, C grid_y) const {
    C u = x.pixels(grid_x);
    C v = y.pixels(grid_y);
    if (interpolation == kBicubic) return bicubic(u, v);
    u = x.padded(u);
    v = y.padded(v);
    if (interpolation == kNearest) return at(static_cast<C>(__builtin_rint(u)), static_cast<C>(__builtin_rint(v)));
    const C left = static_cast<C>(__builtin_floor(u));
    const C top = static_cast<C>(__builtin_floor(v));
    const C right_weight = u - left;
    const C bottom_weight = v - top;
    return (1 - right_weight) * (1 - bottom_weight) * at(left, top) +
           right_weight * (1 - bottom_weight) * at(left + 1, top) +
           (1 - right_weight) * bottom_weight * at(left, top + 1) +
           right_weight * bottom_weight * at(left + 1, top + 1);
  }

  // Interpolates the 16 pixels around the point (u, v). The padding mode is applied to each of these pixels.
  C bicubic(C u, C v) const {
    const C left = static_cast<C>(__builtin_floor(u));
    const C top = static_cast<C>(__builtin_floor(v));
    C wx[4];
    C wy[4];
    cubic_weights(u - left, wx);
    cubic_weights(v - top, wy);
    C sum = 0;
    for (int j = 0; j < 4; ++j) {
      C row = 0;
      for (int i = 0; i < 4; ++i) {
        row += wx[i] * at(x.padded(left + static_cast<C>(i - 1)), y.padded(top + static_cast<C>(j - 1)));
      }
      sum += wy[j] * row;
    }
    return sum;
  }
};

template <class C>
void sample_all(Call &call, Tensor input, Tensor grid, Tensor out, int64_t interpolation, int64_t padding, bool align) {
  const C *image = dense<C>(call, input);
  const C *points = dense<C>(call, grid);
  const DenseOut<C> result(call, out);
  if (call.failed() || out.numel() == 0) return;
  const int64_t channels = input.size(1);
  const int64_t pixels = input.size(2) * input.size(3);
  const int64_t count = grid.size(1) * grid.size(2);
  call.parallel(input.size(0) * channels, 2048 / count + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const Sampler<C> sampler = {
          {input.size(3), padding, align}, {input.size(2), padding, align}, interpolation, image + plane * pixels};
      const C *point = points + plane / channels * count * 2;
      C *to = result.data() + plane * count;
      for (int64_t i = 0; i < count; ++i) to[i] = sampler.sample(point[2 * i], point[2 * i + 1]);
    }
  });
  result.finish(call);
}

}  // namespace

int32_t grid_sampler_2d_out(const edgecore_call *raw) {
  Call call(raw, "aten::grid_sampler_2d.out");
  const Tensor input = call.tensor(0);
  const Tensor grid = call.tensor(1);
  const int64_t interpolation = call.integer(2);
  const int64_t padding = call.integer(3);
  const bool align_corners = call.flag(4);
  const Tensor out = call.tensor(5);
  if (call.failed() || !call.check(input.ndim() == 4 && grid.ndim() == 4, "the input and the grid must have 4 dims") ||
      !call.check(grid.size(3) == 2 && grid.size(0) == input.size(0), "the grid must be [batch, height, width, 2]") ||
      !call.check(input.size(2) > 0 && input.size(3) > 0, "the input has no pixels") ||
      !call.check(interpolation >= 0 && interpolation <= 2 && padding >= 0 && padding <= 2,
                  "interpolation_mode and padding_mode must be 0, 1 or 2") ||
      !call.check(is_floating(input.type()) && input.type() == grid.type() && input.type() == out.type(),
                  "the input, the grid and out must have the same floating dtype")) {
    return call.status();
  }
  Shape shape;
  shape.push(input.size(0));
  shape.push(input.size(1));
  shape.push(grid.size(1));
  shape.push(grid.size(2));
  if (!call.resize(out, shape)) return call.status();
  with_floating_compute(input.type(), [&](auto c) {
    sample_all<decltype(c)>(call, input, grid, out, interpolation, padding, align_corners);
  });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
