// Convolutions of int8 values in one and two dims. A transposed convolution is one over an upsampled input: between its
// elements are zeros, which are the zero point here, as in the padding.
#include "lib/int8_gemm.h"
#include "ops/int8_arguments.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// One spatial dim. Tap t of output o reads the upsampled position o * stride - padding + t * dilation.
struct Axis {
  int64_t input = 1, kernel = 1, output = 1, stride = 1, padding = 0, dilation = 1, upsampling = 1;

  // Returns the input's index for output o and tap t; -1 for a zero.
  int64_t source(int64_t o, int64_t t) const {
    const int64_t position = o * stride - padding + t * dilation;
    if (position < 0) return -1;
    if (upsampling == 1) return position < input ? position : -1;  // a division takes long on a microcontroller
    if (position % upsampling != 0) return -1;
    return position / upsampling < input ? position / upsampling : -1;
  }
};

struct Convolution {
  Axis y, x;
  int64_t batch, inputs, outputs, groups;  // channels
  int32_t zero_point;
  const int8_t *input;
  const int8_t *weight;  // [outputs, inputs / groups, y.kernel, x.kernel]
  Int8Range range;
  int8_t *result;

  int64_t inputs_of_group() const { return inputs / groups; }
  int64_t outputs_of_group() const { return outputs / groups; }
  int64_t taps() const { return y.kernel * x.kernel; }
  int64_t pixels() const { return y.output * x.output; }
  bool is_pointwise() const {
    return taps() == 1 && x.output == x.input && y.output == y.input && x.stride == 1 && y.stride == 1 &&
           x.padding == 0 && y.padding == 0 && x.upsampling == 1 && y.upsampling == 1;
  }
};

constexpr int64_t kMaxStep = int64_t{1} << 24;  // of strides, paddings and the like, so that products do not overflow
constexpr int64_t kMaxSize = int64_t{1} << 31;

Axis axis_at(Call &call, int spatial, int i, Tensor input, Tensor weight, const Ints (&lists)[5]) {
  Axis axis;
  axis.input = input.size(2 + i);
  axis.kernel = weight.size(2 + i);
  for (const Ints &list : lists) {
    if (!call.check(list.count == spatial, "stride, padding and the like must have an entry for each spatial dim"))
      return axis;
    if (!call.check(-kMaxStep < list[i] && list[i] < kMaxStep, "a number in stride, padding and the like is too large"))
      return axis;
  }
  axis.stride = lists[0][i];
  axis.padding = lists[1][i];
  axis.dilation = lists[2][i];
  axis.upsampling = lists[3][i];
  const bool ok = axis.stride > 0 && axis.dilation > 0 && axis.upsampling > 0 && axis.input > 0 && axis.kernel > 0;
  if (!call.check(ok, "stride, dilation, upsampling and sizes must be positive") ||
      !call.check(axis.kernel < kMaxSize && axis.input < kMaxSize, "input or kernel is too large"))
    return axis;
  const int64_t size = (axis.input - 1) * axis.upsampling + 1 + 2 * axis.padding + lists[4][i];
  const int64_t rest = size - axis.dilation * (axis.kernel - 1) - 1;
  call.check(rest >= 0, "the kernel is larger than the padded input");
  axis.output = rest / axis.stride + 1;
  return axis;
}

// Quotient and remainder of indices, which an address can hold: a division of 64 bits takes long on a microcontroller.
struct Position {
  int64_t row, column;
};
Position divide(int64_t index, int64_t columns) {
  const size_t row = static_cast<size_t>(index) / static_cast<size_t>(columns);
  return {static_cast<int64_t>(row), index - static_cast<int64_t>(row) * columns};
}

// Copies the inputs of one tap and `count` outputs from pixel `pixel` on.
void read_tap(const Convolution &c, const int8_t *plane, int64_t ty, int64_t tx, int64_t pixel, int64_t count,
              int8_t *target) {
  while (count > 0) {
    const Position at = divide(pixel, c.x.output);
    const int64_t oy = at.row, ox = at.column;
    const int64_t run = min_of(count, c.x.output - ox);
    const int64_t iy = c.y.source(oy, ty);
    if (iy < 0) {
      __builtin_memset(target, c.zero_point, static_cast<size_t>(run));
    } else if (c.x.upsampling == 1) {
      const int8_t *row = plane + iy * c.x.input;
      const int64_t start = ox * c.x.stride - c.x.padding + tx * c.x.dilation;
      for (int64_t i = 0; i < run; ++i) {
        const int64_t ix = start + i * c.x.stride;
        target[i] =
            static_cast<uint64_t>(ix) < static_cast<uint64_t>(c.x.input) ? row[ix] : static_cast<int8_t>(c.zero_point);
      }
    } else {
      for (int64_t i = 0; i < run; ++i) {
        const int64_t ix = c.x.source(ox + i, tx);
        target[i] = ix < 0 ? static_cast<int8_t>(c.zero_point) : plane[iy * c.x.input + ix];
      }
    }
    target += run;
    pixel += run;
    count -= run;
  }
}

void convolve(Call &call, const Convolution &c, const Channels &channels) {
  const int64_t depth = c.inputs_of_group() * c.taps();
  const int64_t plane = c.y.input * c.x.input;
  const int64_t of_group = c.outputs_of_group();
  const bool is_pointwise = c.is_pointwise();
  const auto left = [&](int64_t i) {
    return Int8Left{c.weight + divide(i, c.groups).column * of_group * depth, depth};
  };
  const auto pack = [&](int64_t i, int64_t column, int64_t columns, int64_t width, int16_t *target) {
    const int8_t *planes = c.input + i * c.inputs_of_group() * plane;
    int8_t lines[2][kInt8Panel];
    for (int64_t k = 0; k < depth; k += 2, target += 2 * width) {
      const int8_t *line[2] = {nullptr, nullptr};
      for (int64_t half = 0; half < min_of(2, depth - k); ++half) {
        line[half] = is_pointwise ? planes + (k + half) * plane + column : lines[half];
        if (is_pointwise) continue;
        const Position of_channel = divide(k + half, c.taps());
        const Position tap = divide(of_channel.column, c.x.kernel);
        read_tap(c, planes + of_channel.row * plane, tap.row, tap.column, column, columns, lines[half]);
      }
      pack_pairs(line[0], line[1], columns, target);
    }
  };
  const auto finish = [&](int64_t i, int64_t row, int64_t rows, int64_t column, int64_t columns, const int32_t *block,
                          int64_t width) {
    int8_t line[kInt8Panel];  // requantized by whole vectors
    const Position at = divide(i, c.groups);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t channel = at.column * of_group + row + r;
      requantize_row(block + r * width, width, channels.biases[channel], channels.factor(channel), c.range, line);
      int8_t *target = c.result + (at.row * c.outputs + channel) * c.pixels() + column;
      __builtin_memcpy(target, line, static_cast<size_t>(columns));
    }
  };
  int8_gemm(call, c.batch * c.groups, c.outputs_of_group(), c.pixels(), depth, left, pack, finish);
}

// Returns the number of different remainders that multiples of `step` have when divided by `stride`.
int64_t remainders(int64_t step, int64_t stride) {
  int64_t divisor = stride;
  for (int64_t rest = step % stride; rest != 0;) {
    const int64_t next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  return stride / divisor;
}

// A convolution whose groups have one input channel, in blocks of outputs. The inputs of a block are kept as pairs:
// those of two adjacent taps of a row. Element (row, column) of plane (fy, fx) is the pair of the padded positions (y,
// x) and (y, x + dilation), where y = (top + row) * stride + fy and x = (left + column) * stride + fx for the first
// output (top, left) of the block. So the pairs that two taps read for all outputs of the block lie in one plane, in
// the order of the outputs, and the sums of a block are computed like those of one long row, with a few unused ones
// between its rows.
class Depthwise {
 public:
  explicit Depthwise(const Convolution &c)
      : c_(c),
        outputs_of_group_(c.outputs_of_group()),
        pairs_((c.x.kernel + 1) / 2),
        planes_y_(min_of(c.y.kernel, remainders(c.y.dilation, c.y.stride))),
        planes_x_(min_of(pairs_, remainders(2 * c.x.dilation, c.x.stride))),
        columns_(min_of(c.x.output, kMaxColumns)),
        pitch_(columns_ + 2 * (pairs_ - 1) * c.x.dilation / c.x.stride),
        halo_((c.y.kernel - 1) * c.y.dilation / c.y.stride),
        rows_(min_of(c.y.output, max_of(kBlock / (planes_y_ * planes_x_ * pitch_) - halo_, 2 * halo_ + 1))),
        line_(2 * (pitch_ + kSumLanes) + c.x.dilation) {}

  // Returns false if the kernel covers so many inputs that the sizes of scratch memory could overflow.
  bool fits() const {
    constexpr int64_t kLimit = int64_t{1} << 20;
    return pitch_ < kLimit && rows_ + halo_ < kLimit && taps() < kLimit / 16 &&
           planes_y_ * planes_x_ * plane() < kLimit * kLimit;
  }

  // Bytes of scratch memory that all workers share, and that each has.
  int64_t shared_scratch() const { return round_up(taps() * static_cast<int64_t>(sizeof(int64_t)), 64); }
  int64_t scratch() const {
    const int64_t words = planes_y_ * planes_x_ * plane() + 2 * kStep + kBatch + taps();
    return round_up(words * 4 + rows_ * pitch_ + kBatch + line_, 64);
  }

  // Writes where the pairs of each two taps begin.
  void find_offsets(int64_t *offsets) const {
    for (int64_t ty = 0; ty < c_.y.kernel; ++ty) {
      const int64_t y = ty * c_.y.dilation;
      for (int64_t p = 0; p < pairs_; ++p) {
        const int64_t x = 2 * p * c_.x.dilation;
        const int64_t index = ty % planes_y_ * planes_x_ + p % planes_x_;
        offsets[ty * pairs_ + p] = index * plane() + y / c_.y.stride * pitch_ + x / c_.x.stride;
      }
    }
  }

  void run(int64_t index, const Channels &channels, const int64_t *offsets, char *memory) const {
    auto *const planes = reinterpret_cast<int32_t *>(memory);
    auto *const sums = planes + planes_y_ * planes_x_ * plane() + 2 * kStep;
    auto *const weights = sums + kBatch;
    auto *const bytes = reinterpret_cast<int8_t *>(weights + taps());
    auto *const line = bytes + rows_ * pitch_ + kBatch;
    const Position at_channel = divide(index, c_.outputs);
    const int64_t channel = at_channel.column;
    const int8_t *source = c_.weight + channel * c_.taps();
    for (int64_t ty = 0; ty < c_.y.kernel; ++ty, source += c_.x.kernel) {
      for (int64_t p = 0; p < pairs_; ++p) {
        weights[ty * pairs_ + p] = pair(source[2 * p], 2 * p + 1 < c_.x.kernel ? source[2 * p + 1] : int8_t{0});
      }
    }
    const int64_t input = at_channel.row * c_.inputs + divide(channel, outputs_of_group_).row;
    for (int64_t top = 0; top < c_.y.output; top += rows_) {
      const int64_t height = min_of(rows_, c_.y.output - top);
      for (int64_t left = 0; left < c_.x.output; left += columns_) {
        read_block(c_.input + input * c_.y.input * c_.x.input, top, left, height + halo_, line, planes);
        const int64_t width = min_of(columns_, c_.x.output - left);
        const int64_t count = (height - 1) * pitch_ + width;
        for (int64_t at = 0; at < count; at += kBatch) {
          const int64_t n = min_of(kBatch, count - at);
          if (taps() == 6) {
            add_taps<6>(planes + at, offsets, weights, n, sums);
          } else {
            add_taps<0>(planes + at, offsets, weights, n, sums);
          }
          requantize_row(sums, round_up(n, kSumLanes), channels.biases[channel], channels.factor(channel), c_.range,
                         bytes + at);
        }
        int8_t *target = c_.result + index * c_.pixels() + top * c_.x.output + left;
        for (int64_t row = 0; row < height; ++row) {
          copy_run<1>(target + row * c_.x.output, bytes + row * pitch_, width);
        }
      }
    }
  }

 private:
  static constexpr int64_t kMaxColumns = 1024;               // of a block
  static constexpr int64_t kBlock = kHasCache ? 6144 : 256;  // pairs of a block, about: 24 kB, or 1 kB
  static constexpr int64_t kStep = max_of(kSumLanes, 4);     // sums that are computed together
  static constexpr int64_t kBatch = kHasCache ? 256 : 64;    // sums that are requantized together; whole steps

  static int32_t pair(int8_t first, int8_t second) {
    const int16_t both[2] = {first, second};
    return load_pair(both);
  }

  int64_t taps() const { return c_.y.kernel * pairs_; }  // pairs of them
  int64_t plane() const { return (rows_ + halo_) * pitch_; }

  // Computes n sums, and more up to a whole step. kCount is the number of pairs of taps; 0 if only taps() says it.
  template <int kCount>
  void add_taps(const int32_t *planes, const int64_t *offsets, const int32_t *weights, int64_t n, int32_t *sums) const {
    const auto count = static_cast<ptrdiff_t>(kCount > 0 ? kCount : taps());
    const auto end = static_cast<ptrdiff_t>(n);
    for (ptrdiff_t i = 0; i < end; i += kStep) {
      Sums step[kStep / kSumLanes] = {};
      for (ptrdiff_t t = 0; t < count; ++t) {
        const int32_t *pairs = planes + offsets[t] + i;
        const Sums weight = weights[t] - Sums{};
        EDGECORE_UNROLL for (int64_t j = 0; j < kStep / kSumLanes; ++j) {
          step[j] = add_products(step[j], load_vector(pairs + j * kSumLanes), weight);
        }
      }
      EDGECORE_UNROLL for (int64_t j = 0; j < kStep / kSumLanes; ++j) store_vector(sums + i + j * kSumLanes, step[j]);
    }
  }

  // Fills the first `rows` rows of all planes for the block at (top, left).
  void read_block(const int8_t *input, int64_t top, int64_t left, int64_t rows, int8_t *line, int32_t *planes) const {
    const bool has_line = c_.x.stride == 1 || (c_.x.stride == 2 && c_.x.dilation == 1);
    const int64_t start = left * c_.x.stride - c_.x.padding;  // of the padded row, as an index of the input
    const int64_t before = min_of(max_of(-start, 0), line_);
    const int64_t count = max_of(min_of(c_.x.input - max_of(start, 0), line_ - before), 0);
    const auto zero = static_cast<int8_t>(c_.zero_point);
    if (has_line) __builtin_memset(line, zero, static_cast<size_t>(line_));
    for (int64_t index = 0; index < planes_y_; ++index) {
      const int64_t phase = divide(index * c_.y.dilation, c_.y.stride).column;
      for (int64_t row = 0; row < rows; ++row) {
        int32_t *target = planes + index * planes_x_ * plane() + row * pitch_;
        const int64_t y = (top + row) * c_.y.stride + phase - c_.y.padding;
        if (y < 0 || y >= c_.y.input) {
          for (int64_t x = 0; x < planes_x_; ++x, target += plane()) {
            for (int64_t q = 0; q < pitch_; ++q) target[q] = pair(zero, zero);
          }
          continue;
        }
        const int8_t *source = input + y * c_.x.input;
        if (has_line) {
          copy_run<1>(line + before, source + max_of(start, 0), count);
          pair_up(line, target);
          continue;
        }
        const auto value = [&](int64_t x) { return x >= 0 && x < c_.x.input ? source[x] : zero; };
        for (int64_t x = 0; x < planes_x_; ++x, target += plane()) {
          const int64_t first = start + 2 * x * c_.x.dilation % c_.x.stride;
          for (int64_t q = 0; q < pitch_; ++q) {
            const int64_t at = first + q * c_.x.stride;
            target[q] = pair(value(at), value(at + c_.x.dilation));
          }
        }
      }
    }
  }

  // Writes the pairs of a padded row, and more up to whole vectors; its stride is 1, or 2 without dilation.
  void pair_up(const int8_t *line, int32_t *target) const {
    if (c_.x.stride == 1) {
      const int8_t *second = line + c_.x.dilation;
      for (int64_t q = 0; q < pitch_; q += kSumLanes) {
        store_vector(target + q, (widen(line + q) & 0xffff) | (widen(second + q) << 16));
      }
    } else {
      for (int64_t q = 0; q < pitch_; q += kSumLanes) {
        widen_block<2 * kSumLanes>(line + 2 * q, reinterpret_cast<int16_t *>(target + q));
      }
    }
  }

  const Convolution &c_;
  int64_t outputs_of_group_;
  int64_t pairs_;     // of taps in a row of the kernel
  int64_t planes_y_;  // planes of pairs with different fy
  int64_t planes_x_;  // planes of pairs with different fx
  int64_t columns_;   // outputs in a row of a block
  int64_t pitch_;     // pairs in a row of a plane
  int64_t halo_;      // rows of a plane beyond the rows of outputs
  int64_t rows_;      // rows of outputs in a block
  int64_t line_;      // elements of a padded row, with those that whole vectors read
};

void convolve_depthwise(Call &call, const Convolution &c, const Channels &channels) {
  const Depthwise depthwise(c);
  if (!call.check(depthwise.fits(), "the kernel covers too many inputs")) return;
  const int64_t part = depthwise.scratch();
  char *memory = call.scratch<char>(depthwise.shared_scratch() + part * call.worker_count());
  if (memory == nullptr) return;
  auto *const offsets = reinterpret_cast<int64_t *>(memory);
  depthwise.find_offsets(offsets);
  memory += depthwise.shared_scratch();
  const int64_t grain = 65536 / (c.pixels() * c.taps() + 1) + 1;
  call.parallel(c.batch * c.outputs, grain, [&](int64_t begin, int64_t end, int64_t worker) {
    for (int64_t i = begin; i < end; ++i) depthwise.run(i, channels, offsets, memory + worker * part);
  });
}

}  // namespace

// input [N, C, (H,) W], weight [outputs, C / groups, (y,) x]. The bias contains what the input's zero point adds.
int32_t int8_convolution_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_convolution.out");
  const Tensor input = call.tensor(0);
  const Tensor weight = call.tensor(1);
  const Ints lists[5] = {call.ints(3), call.ints(4), call.ints(5), call.ints(6), call.ints(7)};
  Convolution c = {};
  c.groups = call.integer(8);
  c.zero_point = zero_point_at(call, 9);
  c.range = range_at(call, 10);
  const Tensor out = call.tensor(13);
  if (call.failed()) return call.status();
  const int spatial = input.ndim() - 2;
  if (!call.check((spatial == 1 || spatial == 2) && weight.ndim() == input.ndim(),
                  "input and weight must have 3 or 4 dims") ||
      !call.check(out.type() == Type::kI8, "out must be int8"))
    return call.status();
  c.x = axis_at(call, spatial, spatial - 1, input, weight, lists);
  if (spatial == 2) c.y = axis_at(call, spatial, 0, input, weight, lists);
  c.batch = input.size(0);
  c.inputs = input.size(1);
  c.outputs = weight.size(0);
  if (!call.check(c.groups > 0 && c.inputs > 0 && c.inputs % c.groups == 0 && c.outputs % c.groups == 0 &&
                      weight.size(1) == c.inputs / c.groups,
                  "groups and the channels of input and weight do not match"))
    return call.status();
  const Channels channels(call, 2, c.outputs);
  Shape shape;
  shape.push(c.batch);
  shape.push(c.outputs);
  if (spatial == 2) shape.push(c.y.output);
  shape.push(c.x.output);
  if (call.failed() || !call.resize(out, shape)) return call.status();
  c.input = int8_elements(call, input);
  c.weight = int8_elements(call, weight);
  const BytesOut result(call, out);
  if (call.failed() || out.numel() == 0) return call.status();
  c.result = reinterpret_cast<int8_t *>(result.data());
  const bool is_depthwise = c.inputs_of_group() == 1 && c.x.upsampling == 1 && c.y.upsampling == 1;
  if (is_depthwise) {
    convolve_depthwise(call, c, channels);
  } else {
    convolve(call, c, channels);
  }
  result.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
