// Convolutions of quantized int8 and int16 values in one and two dims. A transposed convolution is computed as a
// convolution of an upsampled input, whose elements are separated by zeros (the zero point, as in the padding).
#include "ops/integer_convolution.h"

#include "lib/integer_gemm.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

constexpr int64_t kMaxStep = int64_t{1} << 24;  // limit of strides, paddings etc.: products must not overflow
constexpr int64_t kMaxSize = int64_t{1} << 31;

IntegerAxis axis_at(Call &call, int spatial, int i, Tensor input, Tensor weight, const Ints (&lists)[5]) {
  IntegerAxis axis;
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

// Copies the inputs that tap (ty, tx) reads for `count` outputs, from output pixel `pixel` on.
template <class Value>
void read_tap(const IntegerConvolution<Value> &c, const Value *plane, int64_t ty, int64_t tx, int64_t pixel,
              int64_t count, Value *target) {
  while (count > 0) {
    const Position at = divide(pixel, c.x.output);
    const int64_t oy = at.row, ox = at.column;
    const int64_t run = min_of(count, c.x.output - ox);
    const int64_t iy = c.y.source(oy, ty);
    if (iy < 0) {
      set_zero(target, c.zero_point, run);
    } else if (c.x.upsampling == 1) {
      const Value *row = plane + iy * c.x.input;
      // Use ptrdiff_t, because 64-bit indices are slow on a microcontroller.
      auto ix = static_cast<ptrdiff_t>(ox * c.x.stride - c.x.padding + tx * c.x.dilation);
      const auto step = static_cast<ptrdiff_t>(c.x.stride);
      const auto size = static_cast<size_t>(c.x.input);
      const auto zero = static_cast<Value>(c.zero_point);
      for (Value *to = target; to != target + run; ++to, ix += step) {
        *to = static_cast<size_t>(ix) < size ? row[ix] : zero;
      }
    } else {
      for (int64_t i = 0; i < run; ++i) {
        const int64_t ix = c.x.source(ox + i, tx);
        target[i] = ix < 0 ? static_cast<Value>(c.zero_point) : plane[iy * c.x.input + ix];
      }
    }
    target += run;
    pixel += run;
    count -= run;
  }
}

#if defined(EDGECORE_MVE)
// The taps [begin, end) of an output along one axis that are not in the padding, and the first tap's input index.
struct Window {
  ptrdiff_t begin, end, index;
  Window(const IntegerAxis &axis, int64_t output) {
    const auto step = static_cast<ptrdiff_t>(axis.dilation), size = static_cast<ptrdiff_t>(axis.input);
    const auto kernel = static_cast<ptrdiff_t>(axis.kernel);
    index = static_cast<ptrdiff_t>(output * axis.stride - axis.padding);
    for (begin = 0; begin < kernel && index < 0; ++begin) index += step;
    end = begin;
    for (ptrdiff_t last = index; end < kernel && last < size; ++end) last += step;
  }
};

// Copies the window of inputs, in all channels, that each of `count` outputs reads, from output pixel `pixel` on. Only
// for convolutions without upsampling.
template <class Value>
void read_windows(const IntegerConvolution<Value> &c, const Value *planes, int64_t pixel, int64_t count,
                  Value *target) {
  const auto channels = static_cast<ptrdiff_t>(c.inputs_of_group());
  const auto kernel_y = static_cast<ptrdiff_t>(c.y.kernel), kernel_x = static_cast<ptrdiff_t>(c.x.kernel);
  const auto width = static_cast<ptrdiff_t>(c.x.input), plane = static_cast<ptrdiff_t>(c.y.input) * width;
  const auto step_x = static_cast<ptrdiff_t>(c.x.dilation), step_y = static_cast<ptrdiff_t>(c.y.dilation) * width;
  const ptrdiff_t depth = channels * kernel_y * kernel_x;
  set_zero(target, c.zero_point, count * depth);
  for (int64_t i = 0; i < count; ++i, target += depth) {
    const Position at = divide(pixel + i, c.x.output);
    const Window y(c.y, at.row), x(c.x, at.column);
    const Value *source = planes + y.index * width + x.index;
    Value *to_channel = target + y.begin * kernel_x + x.begin;
    for (ptrdiff_t channel = 0; channel < channels; ++channel, source += plane, to_channel += kernel_y * kernel_x) {
      const Value *row = source;
      Value *to_row = to_channel;
      for (ptrdiff_t ty = y.begin; ty < y.end; ++ty, row += step_y, to_row += kernel_x) {
        const Value *from = row;
        Value *to = to_row;
        for (Value *const end = to + (x.end - x.begin); to < end; from += step_x) *to++ = *from;
      }
    }
  }
}
#endif

template <class Value>
void convolve(Call &call, const IntegerConvolution<Value> &c, const Channels<Value> &channels) {
  const int64_t depth = c.inputs_of_group() * c.taps();
  const int64_t plane = c.y.input * c.x.input;
  const int64_t of_group = c.outputs_of_group();
  const bool is_pointwise = c.is_pointwise();
  const auto left = [&](int64_t i) {
    return Int8Left{c.weight + divide(i, c.groups).column * of_group * depth, depth};
  };
  const auto pack = [&](int64_t i, int64_t column, int64_t columns, int64_t width, Packed<Value> *target) {
    const Value *planes = c.input + i * c.inputs_of_group() * plane;
    if (is_pointwise) return pack_rows(planes + column, plane, depth, columns, width, target);
#if defined(EDGECORE_MVE)
    if (c.x.upsampling == 1 && c.y.upsampling == 1) return read_windows(c, planes, column, columns, target);
#endif
    const auto line = [&](int64_t k, Value *memory) {
      const Position of_channel = divide(k, c.taps());
      const Position tap = divide(of_channel.column, c.x.kernel);
      read_tap(c, planes + of_channel.row * plane, tap.row, tap.column, column, columns, memory);
      return memory;
    };
    pack_lines<Value>(depth, columns, width, line, target);
  };
  const auto finish = [&](int64_t i, int64_t row, int64_t rows, int64_t column, int64_t columns,
                          const SumOf<Value> *block, int64_t width) {
    const Position at = divide(i, c.groups);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t channel = at.column * of_group + row + r;
      const auto requantize_to = [&](int64_t n, Value *out) {
        requantize_row(block + r * width, n, channels.biases[channel], channels.factor(channel), c.range, out);
      };
      Value *target = c.result + (at.row * c.outputs + channel) * c.pixels() + column;
#if defined(EDGECORE_MVE)
      requantize_to(columns, target);
#else
      Value line[kIntegerPanel];  // as long as a panel's row, because requantization writes whole vectors
      requantize_to(width, line);
      __builtin_memcpy(target, line, static_cast<size_t>(columns) * sizeof(Value));
#endif
    }
  };
  integer_gemm<Value>(call, c.batch * c.groups, c.outputs_of_group(), c.pixels(), depth, left, pack, finish);
}

// Runs a convolution with input [N, C, (H,) W] and weight [outputs, C / groups, (y,) x]. The bias includes the
// correction for the input's zero point.
template <class Value>
int32_t convolution(Call &call) {
  IntegerConvolution<Value> c = {};
  Arguments<Value> next(call, 9);
  c.zero_point = next.zero_point().zero_point;
  c.range = next.range();
  const Tensor out = next.tensor();
  const Tensor input = call.tensor(0);
  const Tensor weight = call.tensor(1);
  const Ints lists[5] = {call.ints(3), call.ints(4), call.ints(5), call.ints(6), call.ints(7)};
  c.groups = call.integer(8);
  if (call.failed()) return call.status();
  const int spatial = input.ndim() - 2;
  if (!call.check((spatial == 1 || spatial == 2) && weight.ndim() == input.ndim(),
                  "input and weight must have 3 or 4 dims") ||
      !check_result<Value>(call, out))
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
  const Channels<Value> channels(call, 2, c.outputs);
  Shape shape;
  shape.push(c.batch);
  shape.push(c.outputs);
  if (spatial == 2) shape.push(c.y.output);
  shape.push(c.x.output);
  if (call.failed() || !call.resize(out, shape)) return call.status();
  c.input = elements<Value>(call, input);
  c.weight = elements<int8_t>(call, weight);
  const BytesOut result(call, out);
  if (call.failed() || out.numel() == 0) return call.status();
  c.result = reinterpret_cast<Value *>(result.data());
  const bool is_depthwise = c.inputs_of_group() == 1 && c.x.upsampling == 1 && c.y.upsampling == 1;
  if (is_depthwise) {
    convolve_depthwise(call, c, channels);
  } else {
    convolve(call, c, channels);
  }
  result.finish(call);
  return call.status();
}

}  // namespace

int32_t int8_convolution_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int8_convolution.out");
  return convolution<int8_t>(call);
}
int32_t int16_convolution_out(const edgecore_call *raw) {
  Call call(raw, "edgecore::int16_convolution.out");
  return convolution<int16_t>(call);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
