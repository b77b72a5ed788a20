#include "ops/convolution.h"

#include <algorithm>

#include "ops/gemm.h"
#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

uint32_t word(int64_t value) { return static_cast<uint32_t>(value); }

constexpr size_t kBias = 2, kStride = 3, kPadding = 4, kDilation = 5, kTransposed = 6, kExtra = 7, kGroups = 8;

// A tensor with three or four dims, interpreted as images.
struct Images {
  Tensor tensor;
  Shape shape, strides;

  explicit Images(const Tensor &image_tensor)
      : tensor(image_tensor), shape(image_tensor.shape), strides(image_tensor.strides()) {
    if (shape.size() == 3) {
      shape.insert(shape.begin() + 2, 1);
      strides.insert(strides.begin() + 2, 0);
    }
  }
  // Returns true if the tensor is dense NHWC.
  bool is_channels_last() const {
    int64_t stride = 1;
    for (const size_t dim : {1, 3, 2, 0}) {
      if (shape[dim] != 1 && strides[dim] != stride) return false;
      stride *= shape[dim];
    }
    return true;
  }
};

Tensor channels_last_temporary(const Call &call, const Images &images, Dtype dtype) {
  return call.temporary(dtype, {images.shape[0], images.shape[2], images.shape[3], images.shape[1]});
}

// Reads an argument with numbers for height and width; for images of height 1 (1-d convolutions), the argument has only
// the number for the width.
void read_pair(const Call &call, size_t index, bool is_line, int64_t min, int64_t (&out)[2]) {
  const std::array<int64_t, 2> numbers = call.pair(index, min);
  if (is_line && call.integers(index).size() != 1) call.damaged("argument %zu has 2 numbers", index);
  if (!is_line) out[0] = numbers[0];
  out[1] = numbers[1];
}

Convolution read(const Call &call, const Tensor &x) {
  Shape weight = call.constant_shape(1);
  if (x.rank() != weight.size() || x.rank() < 3 || x.rank() > 4) {
    call.unsupported("its input has %zu dims, and its weights have %zu", x.rank(), weight.size());
  }
  const bool is_line = x.rank() == 3;
  if (is_line) weight.insert(weight.begin() + 2, 1);
  Convolution c;
  c.transposed = call.integer(kTransposed) != 0;
  c.groups = call.integer(kGroups);
  read_pair(call, kStride, is_line, 1, c.stride);
  read_pair(call, kPadding, is_line, 0, c.padding);
  read_pair(call, kDilation, is_line, 1, c.dilation);
  if (c.transposed) read_pair(call, kExtra, is_line, 0, c.extra);
  c.batch = x.shape[0];
  c.in_channels = x.shape[1];
  if (c.groups < 1 || weight[0] == 0 || weight[0] % c.groups != 0 || weight[1] < 0 || c.groups > INT16_MAX * 2) {
    call.damaged("its weights do not fit its groups");
  }
  c.in_group = c.transposed ? weight[0] / c.groups : weight[1];
  c.out_group = c.transposed ? weight[1] : weight[0] / c.groups;
  c.out_channels = c.out_group * c.groups;
  if (c.in_group * c.groups != c.in_channels || c.out_channels < 1 || c.out_channels > INT32_MAX) {
    call.damaged("its weights do not fit its input");
  }
  for (size_t i = 0; i < 2; ++i) {
    c.kernel[i] = weight[2 + i];
    c.in[i] = is_line && i == 0 ? 1 : x.shape[x.rank() - 2 + i];
    const int64_t window = c.dilation[i] * (c.kernel[i] - 1) + 1;
    if (c.transposed) {
      c.out[i] = (c.in[i] - 1) * c.stride[i] - 2 * c.padding[i] + window + c.extra[i];
    } else {
      c.out[i] = (c.in[i] + 2 * c.padding[i] - window) / c.stride[i] + 1;
      if (c.in[i] + 2 * c.padding[i] < window) c.out[i] = 0;
    }
    if (c.kernel[i] < 1 || c.out[i] < 1) call.damaged("its kernel does not fit its input");
  }
  return c;
}

// Returns a convolution's weights as [kernel height, kernel width, input channels of a group, output channels], with
// output channels in panels (shaders/panels.glsl).
Tensor packed_weights(const Call &call, const Convolution &c) {
  const std::string form = (c.transposed ? "transposed " : "convolution ") + std::to_string(c.groups);
  const int64_t taps = c.taps();
  return packed_panels(call, 1, form, taps * c.in_group, c.out_channels, [=](int64_t row, int64_t o) {
    const int64_t tap = row / c.in_group, i = row % c.in_group;
    const int64_t from =
        c.transposed ? (o / c.out_group * c.in_group + i) * c.out_group + o % c.out_group : o * c.in_group + i;
    return from * taps + tap;
  });
}

void record_depthwise(const Call &call, const Convolution &c, const Tensor &target, const Tensor &x, const Tensor &w,
                      const Tensor &bias, const Finish &finish) {
  const int64_t neighbours = c.neighbours(), vectors = c.out_channels / 4;
  const Access access = access_of(call, "depthwise", target, x, true, w, bias, finish, false);
  // Compute two output lines in a thread if their windows share most input lines, but not on a GPU, where the
  // additional registers cost more than the shared loads save. If the number of lines is odd, the last thread computes
  // one line too many: with seven lines or more, this costs less than a second shader for single lines.
  constexpr int64_t kMaxTaps = 25, kManyLines = 7;
  const bool shares_most = 2 * (c.kernel[0] - c.stride[0]) >= c.kernel[0];
  const bool is_pair = access.texels && shares_most && (c.out[0] % 2 == 0 || c.out[0] >= kManyLines) &&
                       c.dilation[0] == 1 && c.taps() <= kMaxTaps;
  const int64_t lines = is_pair ? 2 : 1;
  std::vector<uint32_t> push = {word(c.batch),       word(c.in[0]),      word(c.in[1]),       word(c.out[0]),
                                word(c.out[1]),      word(vectors),      word(c.kernel[0]),   word(c.stride[0]),
                                word(c.padding[0]),  word(c.padding[1]), word(c.dilation[0]), bits_of(finish.low),
                                bits_of(finish.high)};
  finish.append_to(&push);
  call.dispatch_flat(
      access.shader, {target}, access.read, std::move(push),
      c.batch * ((c.out[0] + lines - 1) / lines) * ((c.out[1] + neighbours - 1) / neighbours) * vectors,
      {word(neighbours), word(c.kernel[1]), word(c.stride[1]), word(c.dilation[1]), finish.addend.has_value(),
       word(lines), word(is_pair ? c.kernel[0] : 0), word(is_pair ? c.stride[0] : 1)},
      call.device().tuning().group_threads);
}

// Records the dispatch of a convolution of any kind. `strides` are the strides of x as images [N, C, H, W], in
// elements.
void record_general(const Call &call, const Convolution &c, const Tensor &target, const Tensor &x, Shape strides,
                    bool x_vectors, const Tensor &w, const Tensor &bias, const Finish &finish) {
  if (x_vectors) {
    for (int64_t &stride : strides) stride /= 4;
  }
  const bool mixed = c.groups != 1 && c.out_group % 4 != 0, out_vectors = c.out_channels % 4 == 0;
  const int64_t steps = x_vectors ? c.in_group / 4 : c.in_group;
  call.check_iterations(c.kernel[0] * (c.kernel[1] * (steps + 1) + 1));
  const int64_t columns = (c.out_channels + 3) / 4;
  // Let threads share their loads (shuffle) if all outputs of a panel (32 output channels) read the same input
  // channels.
  const bool shuffles = (c.groups == 1 || c.out_group % kPanel == 0) && c.out_channels > kPanel / 4;
  const Access access = access_of(call, "convolution", target, x, x_vectors, w, bias, finish, shuffles);
  // Let eight threads compute the channels of one panel for the same pixels, each thread four channels. Use four
  // threads if the last panel would leave half of eight threads idle.
  constexpr int64_t kThreads = kPanel / 4;
  const int64_t part = (columns + 3) / 4 % 2 == 1 ? 4 : kThreads;
  // If rows of pixels are long, let each thread compute twice as many pixels, which halves the reads of weights.
  const bool doubles = access.shuffles && part == kThreads && c.out[1] >= 2 * c.neighbours();
  const int64_t neighbours = c.neighbours() * (doubles ? 2 : 1);
  // Unroll the short loops of a network's first layers, which have few input channels.
  constexpr int64_t kShort = 9;
  const bool is_short = access.shuffles && !x_vectors && !c.transposed && c.kernel[1] * c.in_group <= kShort;
  int64_t threads = c.batch * c.out[0] * ((c.out[1] + neighbours - 1) / neighbours);  // per 4 output channels
  if (access.shuffles) {
    threads = (threads + kThreads / part - 1) / (kThreads / part) * ((columns + part - 1) / part) * kThreads;
  } else {
    threads *= columns;
  }
  std::vector<uint32_t> push = {word(c.batch),       word(c.in[0]),        word(c.in[1]),      word(c.out[0]),
                                word(c.out[1]),      word(c.out_channels), word(strides[0]),   word(strides[2]),
                                word(strides[3]),    word(strides[1]),     word(c.kernel[0]),  word(c.kernel[1]),
                                word(c.stride[0]),   word(c.stride[1]),    word(c.padding[0]), word(c.padding[1]),
                                word(c.dilation[0]), word(c.dilation[1]),  word(c.in_group),   word(c.out_group),
                                bits_of(finish.low), bits_of(finish.high)};
  finish.append_to(&push);
  call.dispatch_flat(access.shader, {target}, access.read, std::move(push), threads,
                     {word(neighbours), x_vectors, out_vectors, mixed, c.transposed, finish.addend.has_value(),
                      word(is_short ? c.kernel[1] : 0), word(is_short ? c.in_group : 0), word(part),
                      finish.splits(c.taps() * c.in_group)},
                     call.device().tuning().group_threads);
}

void convolve(const Call &call, Finish finish) {
  Tensor x = call.tensor_as_given(0);
  if (!is_float(x.dtype)) call.unsupported("its input has integers");
  const Convolution c = read(call, x);
  Shape shape = c.out_shape();
  if (x.rank() == 3) shape.erase(shape.begin() + 2);
  if (c.out_channels % 4 == 0) finish.addend = call.addend_of(call.last(), shape);
  if (finish.addend.has_value() && !Images(*finish.addend).is_channels_last()) finish.addend.reset();
  const Tensor out = finish.addend.has_value() ? call.output_of_sum(shape) : call.output(call.last(), shape);
  const Tensor w = packed_weights(call, c), bias = packed_bias(call, kBias, 1, c.out_channels);
  if (!is_float(out.dtype)) call.unsupported("its result has integers");
  // Convert the input to the result's dtype if needed; texel buffers convert while they are read.
  if (x.dtype != out.dtype && !(call.prefers_texels(x) && call.prefers_texels(w))) x = call.tensor(0);

  // If the shader reads vectors of channels, make a channels-last copy of the input. A shader that reads single
  // elements accepts any order.
  const Images in_images(x), out_images(out);
  const bool needs_order = c.needs_order();
  const bool copies = needs_order && !in_images.is_channels_last();
  const Tensor in = copies ? channels_last_temporary(call, in_images, out.dtype) : x;
  const Shape in_strides = needs_order ? channels_last_strides(in_images.shape) : in_images.strides;
  if (copies) call.copy_strided(x, in_images.strides, 0, in, in_strides, 0, in_images.shape);
  const bool writes = out_images.is_channels_last();
  const Tensor target = writes ? out : channels_last_temporary(call, out_images, out.dtype);
  record(call, c, target, in, in_strides, w, bias, finish);
  if (!writes)
    call.copy_strided(target, channels_last_strides(out_images.shape), 0, out, out_images.strides, 0, out_images.shape);
}

}  // namespace

void record(const Call &call, const Convolution &c, const Tensor &target, const Tensor &x, const Shape &strides,
            const Tensor &w, const Tensor &bias, const Finish &finish) {
  if (c.is_pointwise()) {
    multiply(call, target, x, w, bias, c.pixels(), c.in_group, c.out_channels, finish);
  } else if (c.is_depthwise() && !finish.splits(c.taps())) {
    record_depthwise(call, c, target, x, w, bias, finish);
  } else {
    record_general(call, c, target, x, strides, c.has_vectors(), w, bias, finish);
  }
}

void convolution(Call &call) { convolve(call, {}); }

void convolution_with_clamp(Call &call) {
  Finish finish;
  finish.low = call.number_or(9, -kNoLimit);
  finish.high = call.number_or(10, kNoLimit);
  convolve(call, finish);
}

}  // namespace edgecore::vulkan
