// Samples an image or a volume at the points of a grid (aten::grid_sampler_2d, aten::grid_sampler_3d).
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

// The pixels before and after a coordinate on one axis, -1 if they are outside of the volume, and their weights.
template <class C>
struct Neighbors {
  int64_t index[2];
  C weight[2];

  Neighbors(const Axis<C> &axis, C x) {
    const C before = static_cast<C>(__builtin_floor(x));
    index[0] = index_of(before, axis.size);
    index[1] = index_of(before + 1, axis.size);
    weight[1] = x - before;
    weight[0] = 1 - weight[1];
  }
};

template <class C>
struct VolumeSampler {
  Axis<C> x, y, z;
  int64_t interpolation;
  const C *volume;  // the pixels of one channel of the sampled volume

  C at(int64_t column, int64_t row, int64_t plane) const { return volume[(plane * y.size + row) * x.size + column]; }

  // Samples at the grid's point [x, y, z].
  C sample(const C *point) const {
    const C u = x.padded(x.pixels(point[0]));
    const C v = y.padded(y.pixels(point[1]));
    const C w = z.padded(z.pixels(point[2]));
    if (interpolation == kNearest) {
      const int64_t column = index_of(static_cast<C>(__builtin_rint(u)), x.size);
      const int64_t row = index_of(static_cast<C>(__builtin_rint(v)), y.size);
      const int64_t plane = index_of(static_cast<C>(__builtin_rint(w)), z.size);
      return column < 0 || row < 0 || plane < 0 ? C(0) : at(column, row, plane);
    }
    const Neighbors<C> columns(x, u);
    const Neighbors<C> rows(y, v);
    const Neighbors<C> planes(z, w);
    C sum = 0;
    for (int corner = 0; corner < 8; ++corner) {
      const int i = corner & 1;
      const int j = corner >> 1 & 1;
      const int k = corner >> 2;
      // Skip pixels outside: the weights of an infinite coordinate are NaN.
      if (columns.index[i] < 0 || rows.index[j] < 0 || planes.index[k] < 0) continue;
      sum +=
          columns.weight[i] * rows.weight[j] * planes.weight[k] * at(columns.index[i], rows.index[j], planes.index[k]);
    }
    return sum;
  }
};

// The arguments of the operators. The input has the shape [batch, channels, spatial...], the grid has the shape
// [batch, spatial of the output..., spatial dims].
struct Arguments {
  Tensor input;
  Tensor grid;
  int64_t interpolation;
  int64_t padding;
  bool align_corners;
  Tensor out;

  explicit Arguments(Call &call)
      : input(call.tensor(0)),
        grid(call.tensor(1)),
        interpolation(call.integer(2)),
        padding(call.integer(3)),
        align_corners(call.flag(4)),
        out(call.tensor(5)) {}

  // Checks the arguments for a number of spatial dims, and resizes `out`.
  bool check(Call &call, int dims) const {
    if (call.failed()) return false;
    if (input.ndim() != dims + 2 || grid.ndim() != dims + 2) {
      call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "the input and the grid must have " << dims + 2 << " dims");
      return false;
    }
    if (grid.size(dims + 1) != dims || grid.size(0) != input.size(0)) {
      call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "the grid must be [batch, " << (dims == 3 ? "depth, " : "")
                                                     << "height, width, " << dims << "]");
      return false;
    }
    Shape shape;
    shape.push(input.size(0));
    shape.push(input.size(1));
    bool has_pixels = true;
    for (int d = 0; d < dims; ++d) {
      if (input.size(2 + d) == 0) has_pixels = false;
      shape.push(grid.size(1 + d));
    }
    return call.check(has_pixels, "the input has no pixels") &&
           call.check(interpolation >= 0 && interpolation <= 2 && padding >= 0 && padding <= 2,
                      "interpolation_mode and padding_mode must be 0, 1 or 2") &&
           call.check(is_floating(input.type()) && input.type() == grid.type() && input.type() == out.type(),
                      "the input, the grid and out must have the same floating dtype") &&
           call.resize(out, shape);
  }

  // Returns the axis of a dim of the input.
  template <class C>
  Axis<C> axis(int d) const {
    return {input.size(d), padding, align_corners};
  }
};

// Calls body(image, point, to, count) for each channel of each image or volume: `image` its pixels, `point` the first
// of the `count` points of the grid, `to` their samples.
template <class C, class Body>
void for_each_plane(Call &call, const Arguments &arguments, int dims, const Body &body) {
  const C *image = dense<C>(call, arguments.input);
  const C *points = dense<C>(call, arguments.grid);
  const DenseOut<C> result(call, arguments.out);
  if (call.failed() || arguments.out.numel() == 0) return;
  const int64_t channels = arguments.input.size(1);
  const int64_t planes = arguments.input.size(0) * channels;
  const int64_t pixels = arguments.input.numel() / planes;
  const int64_t count = arguments.out.numel() / planes;
  call.parallel(planes, 2048 / count + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t plane = begin; plane < end; ++plane) {
      body(image + plane * pixels, points + plane / channels * count * dims, result.data() + plane * count, count);
    }
  });
  result.finish(call);
}

}  // namespace

int32_t grid_sampler_2d_out(const edgecore_call *raw) {
  Call call(raw, "aten::grid_sampler_2d.out");
  const Arguments given(call);
  if (!given.check(call, 2)) return call.status();
  with_floating_compute(given.input.type(), [&](auto c) {
    using C = decltype(c);
    for_each_plane<C>(call, given, 2, [&](const C *image, const C *point, C *to, int64_t count) {
      const Sampler<C> sampler = {given.axis<C>(3), given.axis<C>(2), given.interpolation, image};
      for (int64_t i = 0; i < count; ++i) to[i] = sampler.sample(point[2 * i], point[2 * i + 1]);
    });
  });
  return call.status();
}

int32_t grid_sampler_3d_out(const edgecore_call *raw) {
  Call call(raw, "aten::grid_sampler_3d.out");
  const Arguments given(call);
  if (!given.check(call, 3) || !call.check(given.interpolation != kBicubic, "volumes have no bicubic interpolation")) {
    return call.status();
  }
  with_floating_compute(given.input.type(), [&](auto c) {
    using C = decltype(c);
    for_each_plane<C>(call, given, 3, [&](const C *volume, const C *point, C *to, int64_t count) {
      const VolumeSampler<C> sampler = {given.axis<C>(4), given.axis<C>(3), given.axis<C>(2), given.interpolation,
                                        volume};
      for (int64_t i = 0; i < count; ++i) to[i] = sampler.sample(point + 3 * i);
    });
  });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
