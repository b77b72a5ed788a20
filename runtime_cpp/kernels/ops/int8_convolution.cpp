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

// Copies the inputs of one tap and `count` outputs from pixel `pixel` on.
void read_tap(const Convolution &c, const int8_t *plane, int64_t ty, int64_t tx, int64_t pixel, int64_t count,
              int8_t *target) {
  while (count > 0) {
    const int64_t oy = pixel / c.x.output;
    const int64_t ox = pixel % c.x.output;
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
  const bool is_pointwise = c.is_pointwise();
  const auto left = [&](int64_t i) { return Int8Left{c.weight + i % c.groups * c.outputs_of_group() * depth, depth}; };
  const auto pack = [&](int64_t i, int64_t column, int64_t columns, int64_t width, int16_t *target) {
    const int8_t *planes = c.input + i * c.inputs_of_group() * plane;
    int8_t lines[2][kInt8Panel];
    for (int64_t k = 0; k < depth; k += 2, target += 2 * width) {
      const int8_t *line[2] = {nullptr, nullptr};
      for (int64_t half = 0; half < min_of(2, depth - k); ++half) {
        const int64_t channel = (k + half) / c.taps();
        const int64_t tap = (k + half) % c.taps();
        line[half] = is_pointwise ? planes + (k + half) * plane + column : lines[half];
        if (!is_pointwise) {
          read_tap(c, planes + channel * plane, tap / c.x.kernel, tap % c.x.kernel, column, columns, lines[half]);
        }
      }
      pack_pairs(line[0], line[1], columns, target);
    }
  };
  const auto finish = [&](int64_t i, int64_t row, int64_t rows, int64_t column, int64_t columns, const int32_t *block,
                          int64_t width) {
    int8_t line[kInt8Panel];  // requantized by whole vectors
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t channel = i % c.groups * c.outputs_of_group() + row + r;
      requantize_row(block + r * width, width, channels.biases[channel], channels.factor(channel), c.range, line);
      int8_t *target = c.result + (i / c.groups * c.outputs + channel) * c.pixels() + column;
      __builtin_memcpy(target, line, static_cast<size_t>(columns));
    }
  };
  int8_gemm(call, c.batch * c.groups, c.outputs_of_group(), c.pixels(), depth, left, pack, finish);
}

// A convolution whose groups have one input channel. The rows that the taps of an output row read are kept as pairs of
// the inputs of two adjacent taps, in the order of the outputs: element q of phase f of a row is the pair of the padded
// positions q * stride + f and q * stride + f + dilation.
class Depthwise {
 public:
  explicit Depthwise(const Convolution &c)
      : c_(c),
        pairs_((c.x.kernel + 1) / 2),
        phase_(round_up((c.x.output - 1) + (2 * pairs_ * c.x.dilation) / c.x.stride + 1 + kBlock, kBlock)),
        row_(c.x.stride * phase_),
        line_(c.x.stride * phase_ + c.x.dilation),
        sums_(c.x.output + kBatch) {}

  int64_t scratch() const {  // of a worker, in bytes
    return taps() * static_cast<int64_t>(sizeof(Tap)) + (c_.y.kernel * row_ + sums_) * 4 + line_ * 2;
  }

  void run(int64_t index, const Channels &channels, char *memory) const {
    auto *const taps = reinterpret_cast<Tap *>(memory);
    auto *const rows = reinterpret_cast<int32_t *>(taps + this->taps());
    int32_t *const sums = rows + c_.y.kernel * row_;
    auto *const line = reinterpret_cast<int16_t *>(sums + sums_);
    const int64_t channel = index % c_.outputs;
    const int8_t *source = c_.weight + channel * c_.taps();
    for (int64_t ty = 0; ty < c_.y.kernel; ++ty) {
      for (int64_t p = 0; p < pairs_; ++p) {
        const int16_t first = source[ty * c_.x.kernel + 2 * p];
        const int16_t second = 2 * p + 1 < c_.x.kernel ? source[ty * c_.x.kernel + 2 * p + 1] : int16_t{0};
        const int16_t both[2] = {first, second};
        const int64_t position = 2 * p * c_.x.dilation;
        Tap &tap = taps[ty * pairs_ + p];
        tap.weight = load_pair(both);
        tap.offset = position % c_.x.stride * phase_ + position / c_.x.stride;
      }
    }
    const int64_t plane = index / c_.outputs * c_.inputs + channel / c_.outputs_of_group();
    const int8_t *input = c_.input + plane * c_.y.input * c_.x.input;
    const bool slides = c_.y.dilation == 1;  // else the rows of two outputs have no simple overlap
    int64_t next = -c_.y.padding;            // the first padded row that was not read yet
    int8_t *target = c_.result + index * c_.pixels();
    int64_t filled = 0;  // sums of full rows, which are requantized together
    for (int64_t oy = 0; oy < c_.y.output; ++oy) {
      const int64_t top = oy * c_.y.stride - c_.y.padding;
      for (int64_t ty = 0; ty < c_.y.kernel; ++ty) {
        const int64_t iy = top + ty * c_.y.dilation;
        if (slides && iy < next) continue;
        next = iy + 1;
        read_row(iy >= 0 && iy < c_.y.input ? input + iy * c_.x.input : nullptr, line, slot(rows, iy, ty));
      }
      for (int64_t ty = 0; ty < c_.y.kernel; ++ty) {
        const int32_t *row = slot(rows, top + ty * c_.y.dilation, ty);
        for (Tap *tap = taps + ty * pairs_; tap != taps + (ty + 1) * pairs_; ++tap) tap->pairs = row + tap->offset;
      }
      if (this->taps() == 6) {
        add_taps<6>(taps, 6, sums + filled);
      } else {
        add_taps<0>(taps, this->taps(), sums + filled);
      }
      filled += c_.x.output;
      if (filled + c_.x.output + kBlock > sums_ || oy + 1 == c_.y.output) {
        requantize_row(sums, filled, channels.biases[channel], channels.factor(channel), c_.range, target);
        target += filled;
        filled = 0;
      }
    }
  }

 private:
  static constexpr int64_t kBatch = 256;                   // sums that are requantized together, at least
  static constexpr int64_t kBlock = max_of(kSumLanes, 4);  // sums of a row that are computed together

  struct Tap {  // two adjacent taps
    const int32_t *pairs;
    int32_t weight;
    int64_t offset;  // of the pairs of output 0 in a row
  };

  int64_t taps() const { return c_.y.kernel * pairs_; }

  // Computes a row of sums, and more up to a whole block. kCount is the number of taps; 0 if only `count` says it.
  template <int kCount>
  void add_taps(const Tap *taps, int64_t count, int32_t *sums) const {
    const int64_t n = kCount > 0 ? kCount : count;
    for (int64_t ox = 0; ox < c_.x.output; ox += kBlock) {
      Sums block[kBlock / kSumLanes] = {};
      for (const Tap *tap = taps; tap != taps + n; ++tap) {
        const Sums weight = tap->weight - Sums{};
        EDGECORE_UNROLL for (int64_t i = 0; i < kBlock / kSumLanes; ++i) {
          block[i] = add_products(block[i], load_vector(tap->pairs + ox + i * kSumLanes), weight);
        }
      }
      EDGECORE_UNROLL for (int64_t i = 0; i < kBlock / kSumLanes; ++i)
          store_vector(sums + ox + i * kSumLanes, block[i]);
    }
  }

  int32_t *slot(int32_t *rows, int64_t iy, int64_t ty) const {
    if (c_.y.dilation != 1) return rows + ty * row_;
    // Both numbers fit into 32 bits; dividing 64 bits takes long on a microcontroller.
    return rows + static_cast<uint32_t>(iy + c_.y.padding) % static_cast<uint32_t>(c_.y.kernel) * row_;
  }

  void read_row(const int8_t *source, int16_t *line, int32_t *row) const {
    for (int64_t i = 0; i < line_; ++i) line[i] = static_cast<int16_t>(c_.zero_point);
    const int64_t first = max_of(0, -c_.x.padding);  // a negative padding crops
    const int64_t count = min_of(c_.x.input, line_ - c_.x.padding) - first;
    for (int64_t i = 0; source != nullptr && i < count; ++i) line[c_.x.padding + first + i] = source[first + i];
    for (int64_t f = 0; f < c_.x.stride; ++f) {
      if (c_.x.stride == 1) {
        pair_up<1>(line, row);
      } else if (c_.x.stride == 2) {
        pair_up<2>(line + f, row + f * phase_);
      } else {
        for (int64_t q = 0; q < phase_; ++q) {
          const int16_t both[2] = {line[q * c_.x.stride + f], line[q * c_.x.stride + f + c_.x.dilation]};
          row[f * phase_ + q] = load_pair(both);
        }
      }
    }
  }

  template <int kStride>
  void pair_up(const int16_t *line, int32_t *row) const {
    const int16_t *second = line + c_.x.dilation;
    for (int64_t q = 0; q < phase_; ++q) {
      row[q] = static_cast<int32_t>(static_cast<uint16_t>(line[q * kStride]) |
                                    static_cast<uint32_t>(static_cast<uint16_t>(second[q * kStride])) << 16);
    }
  }

  const Convolution &c_;
  int64_t pairs_;  // of taps in a row of the kernel
  int64_t phase_;  // pairs in a phase of a row
  int64_t row_;    // pairs in a row
  int64_t line_;   // elements in a padded row
  int64_t sums_;   // sums of rows of the result
};

void convolve_depthwise(Call &call, const Convolution &c, const Channels &channels) {
  const Depthwise depthwise(c);
  const int64_t part = round_up(depthwise.scratch(), 64);
  char *memory = call.scratch<char>(part * call.worker_count());
  if (memory == nullptr) return;
  const int64_t grain = 65536 / (c.pixels() * c.taps() + 1) + 1;
  call.parallel(c.batch * c.outputs, grain, [&](int64_t begin, int64_t end, int64_t worker) {
    for (int64_t i = begin; i < end; ++i) depthwise.run(i, channels, memory + worker * part);
  });
}

}  // namespace

// input [N, C, (H,) W], weight [outputs, C / groups, (y,) x]. The bias contains what the input's zero point adds.
int32_t int8_convolution_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_convolution.out");
  const Tensor input = call.tensor(0);
  const Tensor weight = call.tensor(1);
  const Ints lists[5] = {call.ints(5), call.ints(6), call.ints(7), call.ints(8), call.ints(9)};
  Convolution c = {};
  c.groups = call.integer(10);
  c.zero_point = zero_point_at(call, 11);
  c.range = range_at(call, 12);
  const Tensor out = call.tensor(15);
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
