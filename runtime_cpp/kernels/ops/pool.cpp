// Pooling over two spatial dims. An output row is computed at once: for each tap (position in the window), the input
// elements that the tap reads for the row are copied to a line, and the lines are combined by vector instructions.
#include "lib/convert.h"
#include "lib/math.h"
#include "lib/vector.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

struct Pool {
  int64_t planes, in_h, in_w, out_h, out_w;
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

// Reads a list that has an entry for each of the two spatial dims, or one entry for both.
bool read_pair(Call &call, Ints list, int64_t min_value, int64_t *h, int64_t *w) {
  if (!call.check(list.count == 1 || list.count == 2, "a list must have one or two entries")) return false;
  *h = list[0];
  *w = list[list.count - 1];
  return call.check(*h >= min_value && *w >= min_value && *h <= INT32_MAX && *w <= INT32_MAX,
                    "kernel, stride, padding or dilation is out of range");
}

// Returns the output size along one axis, as in ATen; 0 if the window is larger than the padded input.
int64_t pooled_size(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, bool ceil) {
  const int64_t span = in + 2 * pad - dilation * (kernel - 1) - 1;
  if (span < 0) return ceil && span + stride - 1 >= 0 ? 1 : 0;
  int64_t out = (span + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (out - 1) * stride >= in + pad) --out;  // no pooling window may start in the right padding
  return out;
}

// Reads kernel_size, stride and padding from arguments 1 to 3, and sets `shape` to the shape of the output.
bool read_pool(Call &call, Tensor self, bool ceil, Ints dilation, Pool *pool, Shape *shape) {
  if (!call.check(self.ndim() == 3 || self.ndim() == 4, "the input must have three or four dims")) return false;
  const int h = self.ndim() - 2;
  pool->in_h = self.size(h);
  pool->in_w = self.size(h + 1);
  pool->planes = self.size(0) * (self.ndim() == 4 ? self.size(1) : 1);
  pool->dilation_h = pool->dilation_w = 1;
  const Ints stride = call.ints(2);
  if (!read_pair(call, call.ints(1), 1, &pool->kernel_h, &pool->kernel_w) ||
      !read_pair(call, stride.count == 0 ? call.ints(1) : stride, 1, &pool->stride_h, &pool->stride_w) ||
      !read_pair(call, call.ints(3), 0, &pool->pad_h, &pool->pad_w) ||
      (dilation.count > 0 && !read_pair(call, dilation, 1, &pool->dilation_h, &pool->dilation_w)) ||
      !call.check(2 * pool->pad_h <= pool->kernel_h && 2 * pool->pad_w <= pool->kernel_w,
                  "the padding must be at most half of the kernel size")) {
    return false;
  }
  pool->out_h = pooled_size(pool->in_h, pool->kernel_h, pool->stride_h, pool->pad_h, pool->dilation_h, ceil);
  pool->out_w = pooled_size(pool->in_w, pool->kernel_w, pool->stride_w, pool->pad_w, pool->dilation_w, ceil);
  *shape = self.shape();
  shape->sizes[h] = pool->out_h;
  shape->sizes[h + 1] = pool->out_w;
  return call.check(pool->in_h > 0 && pool->in_w > 0, "the spatial dims must not be empty") &&
         call.check(pool->out_h > 0 && pool->out_w > 0, "the kernel is larger than the padded input");
}

// Returns n / stride, rounded up, for n >= 0. Kernels call this function for each tap of each row, where a 64-bit
// division would take as long as a short row. The common strides 1 and 2 need no division.
inline int64_t strides_in(int64_t n, int64_t stride) {
  return stride == 1 ? n : stride == 2 ? (n + 1) >> 1 : (n + stride - 1) / stride;
}

// Sets [begin, end) to the output columns for which tap t reads inside of the image.
void valid_columns(const Pool &p, int64_t t, int64_t *begin, int64_t *end) {
  const int64_t shift = t * p.dilation_w - p.pad_w;
  *end = p.in_w > shift ? min_of(strides_in(p.in_w - shift, p.stride_w), p.out_w) : 0;
  *begin = shift < 0 ? min_of(strides_in(-shift, p.stride_w), *end) : 0;
}

// Sets line[i] to the element of an input row that tap t reads for output column i, or to `outside` if the tap reads
// outside of the image. `length` is a multiple of the vector length, so the line may be longer than the output row.
template <class C>
void read_line(const Pool &p, const C *row, int64_t t, C outside, int64_t length, C *line) {
  int64_t begin;
  int64_t end;
  valid_columns(p, t, &begin, &end);
  const C *source = row + t * p.dilation_w - p.pad_w + begin * p.stride_w;
  for (int64_t i = 0; i < begin; ++i) line[i] = outside;
  copy_steps(line + begin, source, p.stride_w, end - begin);
  for (int64_t i = end; i < length; ++i) line[i] = outside;
}

// The taps of a window along one axis that read inside of the image for at least one output position. Kernels loop only
// over these taps, because a file may have a kernel and a padding that are far larger than the image.
struct Taps {
  int64_t count = 0;
  int64_t *taps = nullptr;

  Taps(Call &call, int64_t kernel, int64_t dilation, int64_t pad, int64_t stride, int64_t in, int64_t out) {
    const auto next = [&](int64_t t) {  // returns the first tap >= t that ever reads inside of the image
      while (t < kernel && t * dilation - pad < in) {
        const int64_t shift = t * dilation - pad;
        // The first output column for which tap t is not left of the image.
        const int64_t column = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
        if (column < out && column * stride + shift < in) return t;
        // Tap t is never inside: it is left of the image for all output columns before `column`, and right of it from
        // `column` on. A later tap can be inside only for an earlier column, and for column - 1 first: continue with
        // the first tap that is not left of the image for that column.
        const int64_t before = min_of(column, out) - 1;
        t = before < 0 ? kernel : (pad - before * stride + dilation - 1) / dilation;
      }
      return kernel;
    };
    for (int64_t t = next(0); t < kernel; t = next(t + 1)) ++count;
    taps = call.scratch<int64_t>(count);
    if (call.failed()) return;
    count = 0;
    for (int64_t t = next(0); t < kernel; t = next(t + 1)) taps[count++] = t;
  }
};

template <class C>
C min_value() {
  return C(-__builtin_inf());
}
template <>
int64_t min_value() {
  return INT64_MIN;
}

// Returns the position of the first tap of a window that is not left of (or above) the image. `start` is the position
// of the window's tap 0, which is negative in the padding; taps are `dilation` apart.
int64_t first_inside(int64_t start, int64_t dilation) {
  return start >= 0 ? start : start + (-start + dilation - 1) / dilation * dilation;
}

// An integer type as wide as C, so that vectors of positions have as many lanes as vectors of values.
template <class C>
struct PositionOf {
  using Type = int64_t;
};
template <>
struct PositionOf<float> {
  using Type = int32_t;
};
template <class C>
using Position = typename PositionOf<C>::Type;

// Where line[i] is NaN or larger than best[i], sets best[i] to line[i], and best_at[i] to the position of line[i] in
// the image, first + i * step. `length` must be a multiple of the vector length.
template <class C>
void update_max(const C *line, int64_t length, Position<C> first, Position<C> step, C *best, Position<C> *best_at) {
  Vector<Position<C>> here;
  for (int l = 0; l < kLanes<C>; ++l) here[l] = first + static_cast<Position<C>>(l) * step;
  for (int64_t i = 0; i < length; i += kLanes<C>, here += step * kLanes<C>) {
    const Vector<C> value = load_vector(line + i);
    const Vector<C> old = load_vector(best + i);
    const auto better = (value > old) | (value != value);
    store_vector<C>(best + i, better ? value : old);
    store_vector<Position<C>>(best_at + i, better ? here : load_vector(best_at + i));
  }
}

template <class C>
void max_pool(Call &call, const Pool &p, Tensor self, Tensor out, Tensor indices) {
  const C *x = dense<C>(call, self);
  const DenseOut<C> result(call, out);
  const DenseOut<int64_t> result_indices(call, indices);
  const int64_t length = round_up(p.out_w, kLanes<C>);
  C *values = call.scratch<C>(2 * length * call.worker_count());
  auto *positions = call.scratch<Position<C>>(length * call.worker_count());
  const Taps rows(call, p.kernel_h, p.dilation_h, p.pad_h, p.stride_h, p.in_h, p.out_h);
  const Taps columns(call, p.kernel_w, p.dilation_w, p.pad_w, p.stride_w, p.in_w, p.out_w);
  // For each output column, the image column of the window's first tap that is not in the left padding. The search for
  // the max starts there with the minimum of the dtype (-infinity for floats); if no element of the window is larger,
  // this position is the result.
  auto *first_columns = call.scratch<Position<C>>(length);
  if (call.failed()) return;
  for (int64_t i = 0; i < length; ++i) {
    first_columns[i] = static_cast<Position<C>>(first_inside(i * p.stride_w - p.pad_w, p.dilation_w));
  }
  call.parallel(p.planes * p.out_h, 16384 / (p.out_w * rows.count * columns.count + 1) + 1,
                [&](int64_t begin, int64_t end, int64_t worker) {
                  Position<C> *__restrict best_at = positions + worker * length;
                  C *__restrict best = values + worker * 2 * length;
                  C *__restrict line = best + length;
                  for (int64_t output = begin; output < end; ++output) {
                    const C *plane = x + output / p.out_h * p.in_h * p.in_w;
                    const int64_t top = output % p.out_h * p.stride_h - p.pad_h;
                    const int64_t first_row = first_inside(top, p.dilation_h);
                    for (int64_t i = 0; i < length; ++i) {
                      best[i] = min_value<C>();
                      best_at[i] = static_cast<Position<C>>(first_row * p.in_w) + first_columns[i];
                    }
                    for (int64_t h = 0; h < rows.count; ++h) {
                      const int64_t ih = top + rows.taps[h] * p.dilation_h;
                      if (ih < 0 || ih >= p.in_h) continue;
                      for (int64_t w = 0; w < columns.count; ++w) {
                        const int64_t kw = columns.taps[w];
                        read_line(p, plane + ih * p.in_w, kw, min_value<C>(), length, line);
                        const int64_t first = ih * p.in_w + kw * p.dilation_w - p.pad_w;
                        update_max<C>(line, length, static_cast<Position<C>>(first),
                                      static_cast<Position<C>>(p.stride_w), best, best_at);
                      }
                    }
                    copy_run<1>(result.data() + output * p.out_w, static_cast<const C *>(best), p.out_w);
                    int64_t *target = result_indices.data() + output * p.out_w;
                    for (int64_t i = 0; i < p.out_w; ++i) target[i] = best_at[i];
                  }
                });
  result.finish(call);
  result_indices.finish(call);
}

template <class C>
C quotient(C sum, int64_t divisor) {
  return sum / static_cast<C>(divisor);
}
template <>
int64_t quotient(int64_t sum, int64_t divisor) {
  return divisor == -1 ? 0 - sum : sum / divisor;  // avoid INT64_MIN / -1, which would crash
}

template <class C>
void average_pool(Call &call, const Pool &p, Tensor self, Tensor out, bool count_padding, int64_t divisor) {
  const C *x = dense<C>(call, self);
  const DenseOut<C> result(call, out);
  const int64_t length = round_up(p.out_w, kLanes<C>);
  C *values = call.scratch<C>(2 * length * call.worker_count());
  const Taps rows(call, p.kernel_h, 1, p.pad_h, p.stride_h, p.in_h, p.out_h);
  const Taps columns(call, p.kernel_w, 1, p.pad_w, p.stride_w, p.in_w, p.out_w);
  if (call.failed()) return;
  call.parallel(p.planes * p.out_h, 16384 / (p.out_w * rows.count * columns.count + 1) + 1,
                [&](int64_t begin, int64_t end, int64_t worker) {
                  C *__restrict sum = values + worker * 2 * length;
                  C *__restrict line = sum + length;
                  for (int64_t output = begin; output < end; ++output) {
                    const C *plane = x + output / p.out_h * p.in_h * p.in_w;
                    const int64_t top = output % p.out_h * p.stride_h - p.pad_h;
                    for (int64_t i = 0; i < length; ++i) sum[i] = 0;
                    for (int64_t h = 0; h < rows.count; ++h) {
                      const int64_t ih = top + rows.taps[h];
                      if (ih < 0 || ih >= p.in_h) continue;
                      for (int64_t w = 0; w < columns.count; ++w) {
                        read_line(p, plane + ih * p.in_w, columns.taps[w], C{0}, length, line);
                        for (int64_t i = 0; i < length; i += kLanes<C>) {
                          store_vector(sum + i, load_vector(sum + i) + load_vector(line + i));
                        }
                      }
                    }
                    // The divisor counts the window's elements in the image or, if count_padding, in the padded image.
                    const int64_t margin_h = count_padding ? p.pad_h : 0;
                    const int64_t margin_w = count_padding ? p.pad_w : 0;
                    const int64_t h0 = max_of(top, -margin_h);
                    const int64_t h1 = min_of(top + p.kernel_h, p.in_h + margin_h);
                    C *target = result.data() + output * p.out_w;
                    for (int64_t i = 0; i < p.out_w; ++i) {
                      const int64_t left = i * p.stride_w - p.pad_w;
                      const int64_t w0 = max_of(left, -margin_w);
                      const int64_t w1 = min_of(left + p.kernel_w, p.in_w + margin_w);
                      target[i] = quotient(sum[i], divisor != 0 ? divisor : (h1 - h0) * (w1 - w0));
                    }
                  }
                });
  result.finish(call);
}

// Adaptive average pooling: output i averages input positions floor(i * in / out) to ceil((i + 1) * in / out) - 1.
template <class C>
void adaptive_average(Call &call, const Pool &p, Tensor self, Tensor out) {
  const C *x = dense<C>(call, self);
  const DenseOut<C> result(call, out);
  if (call.failed()) return;
  call.parallel(p.planes, 16384 / (p.in_h * p.in_w + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const C *source = x + plane * p.in_h * p.in_w;
      C *target = result.data() + plane * p.out_h * p.out_w;
      for (int64_t oh = 0; oh < p.out_h; ++oh) {
        const int64_t h0 = oh * p.in_h / p.out_h;
        const int64_t h1 = ((oh + 1) * p.in_h + p.out_h - 1) / p.out_h;
        for (int64_t ow = 0; ow < p.out_w; ++ow) {
          const int64_t w0 = ow * p.in_w / p.out_w;
          const int64_t w1 = ((ow + 1) * p.in_w + p.out_w - 1) / p.out_w;
          C sum{0};
          for (int64_t h = h0; h < h1; ++h) {
            const C *line = source + h * p.in_w;
            C part{0};
            for (int64_t w = w0; w < w1; ++w) part += line[w];
            sum += part;
          }
          target[oh * p.out_w + ow] = sum / static_cast<C>((h1 - h0) * (w1 - w0));
        }
      }
    }
  });
  result.finish(call);
}

}  // namespace

int32_t max_pool2d_with_indices_out(const edgecore_call *raw) {
  Call call(raw, "aten::max_pool2d_with_indices.out");
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(6);
  const Tensor indices = call.tensor(7);
  Pool pool = {};
  Shape shape;
  if (!read_pool(call, self, call.flag(5), call.ints(4), &pool, &shape) ||
      !call.check(pool.in_h * pool.in_w <= INT32_MAX, "a plane has too many elements") ||
      !call.check(indices.type() == Type::kI64, "the indices must be int64") || !call.check_cast(self.type(), out) ||
      !call.resize(out, shape) || !call.resize(indices, shape, "indices") || out.numel() == 0) {
    return call.status();
  }
  with_compute(self.type(), [&](auto c) { max_pool<decltype(c)>(call, pool, self, out, indices); });
  return call.status();
}

int32_t avg_pool2d_out(const edgecore_call *raw) {
  Call call(raw, "aten::avg_pool2d.out");
  const Tensor self = call.tensor(0);
  const bool count_padding = call.flag(5);
  const int64_t divisor = call.integer_or(6, 0);
  const Tensor out = call.tensor(7);
  Pool pool = {};
  Shape shape;
  call.check(call.is_none(6) || divisor != 0, "divisor_override must not be zero");
  if (!read_pool(call, self, call.flag(4), Ints(), &pool, &shape) || !call.check_cast(self.type(), out) ||
      !call.resize(out, shape) || out.numel() == 0) {
    return call.status();
  }
  with_compute(self.type(), [&](auto c) { average_pool<decltype(c)>(call, pool, self, out, count_padding, divisor); });
  return call.status();
}

int32_t adaptive_avg_pool2d_out(const edgecore_call *raw) {
  Call call(raw, "aten::_adaptive_avg_pool2d.out");
  const Tensor self = call.tensor(0);
  const Tensor out = call.tensor(2);
  Pool pool = {};
  if (!call.check(self.ndim() == 3 || self.ndim() == 4, "the input must have three or four dims") ||
      !read_pair(call, call.ints(1), 0, &pool.out_h, &pool.out_w) ||
      // PyTorch accepts an integer input if the result has no elements.
      !call.check(is_floating(self.type()) || self.numel() == 0 || pool.out_h == 0 || pool.out_w == 0,
                  "the input must have a floating dtype") ||
      !call.check_cast(self.type(), out)) {
    return call.status();
  }
  const int h = self.ndim() - 2;
  pool.in_h = self.size(h);
  pool.in_w = self.size(h + 1);
  pool.planes = self.size(0) * (self.ndim() == 4 ? self.size(1) : 1);
  Shape shape = self.shape();
  shape.sizes[h] = pool.out_h;
  shape.sizes[h + 1] = pool.out_w;
  if (!call.check(pool.in_h > 0 && pool.in_w > 0, "the spatial dims must not be empty") || !call.resize(out, shape)) {
    return call.status();
  }
  if (out.numel() == 0) return call.status();
  with_floating_compute(self.type(), [&](auto c) { adaptive_average<decltype(c)>(call, pool, self, out); });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
