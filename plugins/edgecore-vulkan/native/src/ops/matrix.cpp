#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint32_t bits_of(double value) {
  const auto number = static_cast<float>(std::clamp(value, -kInfinity, kInfinity));
  uint32_t bits = 0;
  std::memcpy(&bits, &number, 4);
  return bits;
}

int64_t rounded_up(int64_t size) { return (size + 3) / 4 * 4; }

// The bias of `channels` results, padded to whole vectors; zeros if the argument is absent.
Tensor bias_of(const Call &call, size_t index, size_t weight, int64_t channels) {
  const bool none = call.is_none(index);
  if (!none && call.constant_shape(index) != Shape{channels}) call.damaged("its bias does not fit its weights");
  return call.packed(none ? weight : index, none ? "no bias" : "bias", rounded_up(channels),
                     [=](const float *source, float *packed) {
                       if (!none) std::copy(source, source + channels, packed);
                     });
}

void multiply_rows(const Call &call, const Tensor &out, const Tensor &x, const Tensor &w, const Tensor &bias, int64_t m,
                   int64_t k, int64_t n, double low, double high) {
  call.dispatch_flat(std::string("gemm_") + name_of(out.dtype), {out}, {x, w, bias},
                     {static_cast<uint32_t>(m), static_cast<uint32_t>(k), static_cast<uint32_t>(n), bits_of(low),
                      bits_of(high)},
                     (m + 3) / 4 * ((n + 3) / 4));
}

// Reads the numbers for both dims of an argument that has one or two.
void pair(const Call &call, size_t index, int64_t min, int32_t (&out)[2]) {
  const std::vector<int64_t> given = call.integers(index);
  if (given.empty() || given.size() > 2) call.damaged("argument %zu has %zu numbers", index, given.size());
  for (size_t i = 0; i < 2; ++i) {
    const int64_t one = given[given.size() == 1 ? 0 : i];
    if (one < min || one > INT16_MAX) call.damaged("argument %zu is out of range", index);
    out[i] = static_cast<int32_t>(one);
  }
}

void convolve(const Call &call, double low, double high) {
  const Tensor x = call.tensor(0);
  const Shape weight = call.constant_shape(1);
  if (call.integer(6) != 0) call.unsupported("it is transposed");
  if (x.rank() != 4 || weight.size() != 4) call.unsupported("it has %zu dims", x.rank());
  if (!is_float(x.dtype)) call.unsupported("its input has integers");
  int32_t stride[2], padding[2], dilation[2];
  pair(call, 3, 1, stride);
  pair(call, 4, 0, padding);
  pair(call, 5, 1, dilation);
  const int64_t groups = call.integer(8), out_channels = weight[0], in_group = weight[1];
  if (groups < 1 || out_channels == 0 || out_channels % groups != 0 || in_group * groups != x.shape[1]) {
    call.damaged("its weights do not fit its input");
  }
  Shape shape = {x.shape[0], out_channels, 0, 0};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t window = dilation[i] * (weight[2 + i] - 1) + 1;
    const int64_t room = x.shape[2 + i] + 2 * int64_t{padding[i]} - window;
    if (weight[2 + i] < 1 || room < 0) call.damaged("its kernel is larger than its input");
    shape[2 + i] = room / stride[i] + 1;
  }
  const Tensor out = call.output(call.last(), shape);
  Tensor in = x;
  if (in.layout != Layout::kChannelsLast) {
    in = call.temporary(x.dtype, {x.shape[0], x.shape[2], x.shape[3], x.shape[1]});
    const Shape own = in.strides();
    call.copy_strided(x, x.strides(), 0, in, {own[0], own[3], own[1], own[2]}, 0, x.shape);
  }
  Tensor target = out;
  if (out.layout != Layout::kChannelsLast) target = call.temporary(out.dtype, {shape[0], shape[2], shape[3], shape[1]});
  const int64_t columns = rounded_up(out_channels), taps = weight[2] * weight[3];
  const Tensor w = call.packed(1, "convolution", taps * in_group * columns, [=](const float *source, float *packed) {
    for (int64_t o = 0; o < out_channels; ++o) {
      for (int64_t c = 0; c < in_group; ++c) {
        for (int64_t t = 0; t < taps; ++t) packed[(t * in_group + c) * columns + o] = source[(o * in_group + c) * taps + t];
      }
    }
  });
  const Tensor bias = bias_of(call, 2, 1, out_channels);
  const bool pointwise = taps == 1 && groups == 1 && stride[0] == 1 && stride[1] == 1 && padding[0] == 0 && padding[1] == 0;
  const int64_t pixels = shape[0] * shape[2] * shape[3];
  if (pointwise) {
    multiply_rows(call, target, in, w, bias, pixels, in_group, out_channels, low, high);
  } else {
    const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
    call.dispatch_flat(std::string("convolution_") + name_of(out.dtype) + (groups == 1 ? "_one" : "_many"), {target},
                       {in, w, bias},
                       {number(shape[0]), number(x.shape[2]), number(x.shape[3]), number(x.shape[1]), number(shape[2]),
                        number(shape[3]), number(out_channels), number(weight[2]), number(weight[3]),
                        number(stride[0]), number(stride[1]), number(padding[0]), number(padding[1]),
                        number(dilation[0]), number(dilation[1]), number(in_group), number(out_channels / groups),
                        bits_of(low), bits_of(high)},
                       pixels * ((out_channels + 3) / 4));
  }
  if (out.layout != Layout::kChannelsLast) {
    const Shape own = target.strides();
    call.copy_strided(target, {own[0], own[3], own[1], own[2]}, 0, out, out.strides(), 0, shape);
  }
}

double limit(const Call &call, size_t index, double without) {
  return call.is_none(index) ? without : call.number(index);
}

}  // namespace

void convolution(Call &call) { convolve(call, -kInfinity, kInfinity); }

void convolution_with_clamp(Call &call) {
  convolve(call, limit(call, 9, -kInfinity), limit(call, 10, kInfinity));
}

void linear(Call &call) {
  const Tensor x = call.tensor(0);
  const Shape weight = call.constant_shape(1);
  if (weight.size() != 2 || x.rank() < 1 || x.shape.back() != weight[1]) call.damaged("its weights do not fit its input");
  if (x.layout != Layout::kRowMajor || !is_float(x.dtype)) call.unsupported("its input is not row-major or has integers");
  const int64_t n = weight[0], k = weight[1];
  Shape shape = x.shape;
  shape.back() = n;
  const Tensor out = call.output(call.last(), shape);
  if (out.layout != Layout::kRowMajor) call.unsupported("its result is not row-major");
  const int64_t columns = rounded_up(n);
  const Tensor w = call.packed(1, "linear", k * columns, [=](const float *source, float *packed) {
    for (int64_t o = 0; o < n; ++o) {
      for (int64_t i = 0; i < k; ++i) packed[i * columns + o] = source[o * k + i];
    }
  });
  const int64_t m = k == 0 ? 0 : x.count() / k;
  multiply_rows(call, out, x, w, bias_of(call, 2, 1, n), m, k, n, -kInfinity, kInfinity);
}

void mean(Call &call) {
  const Tensor x = call.tensor(0);
  if (call.integer(2) == 0) call.unsupported("it drops the dims");
  if (!is_float(x.dtype) || x.rank() > kMaxRank) call.unsupported("its input has integers");
  std::vector<bool> is_summed(x.rank());
  for (const int64_t dim : call.integers(1)) {
    const int64_t own = dim < 0 ? dim + static_cast<int64_t>(x.rank()) : dim;
    if (own < 0 || own >= static_cast<int64_t>(x.rank())) call.damaged("it reduces a dim that its input lacks");
    is_summed[static_cast<size_t>(own)] = true;
  }
  Shape shape = x.shape;
  int64_t terms = 1;
  for (size_t i = 0; i < x.rank(); ++i) {
    if (is_summed[i]) {
      terms *= shape[i];
      shape[i] = 1;
    }
  }
  const Tensor out = call.output(call.last(), shape);
  std::vector<uint32_t> push(4 * kMaxRank + 3);
  std::fill(push.begin(), push.begin() + kMaxRank, 1);
  std::fill(push.begin() + 2 * kMaxRank, push.begin() + 3 * kMaxRank, 1);
  const Shape strides = x.strides();
  const std::vector<uint32_t> order = dims_in_memory(x.rank(), out.layout);
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t place = kMaxRank - order.size() + i, base = is_summed[order[i]] ? 2 * kMaxRank : 0;
    push[base + place] = static_cast<uint32_t>(x.shape[order[i]]);
    push[base + kMaxRank + place] = static_cast<uint32_t>(strides[order[i]]);
  }
  push[4 * kMaxRank] = static_cast<uint32_t>(out.count());
  push[4 * kMaxRank + 1] = static_cast<uint32_t>(terms);
  push[4 * kMaxRank + 2] = bits_of(call.name() == "aten.mean.dim" ? 1.0 / static_cast<double>(terms) : 1.0);
  call.dispatch_flat(std::string("mean_") + name_of(out.dtype), {out}, {x}, std::move(push), out.count());
}

}  // namespace edgecore::vulkan
