// The operator aten::convolution with one or two spatial dims: checks the arguments and selects a kernel by memory
// layout. 3-d convolutions go to convolution_general().
#include "ops/convolution.h"

#include "lib/convert.h"
#include "lib/iterate.h"
#include "ops/convolution_relation.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Copies depthwise weights from layout [channels, 1, taps] to [taps, channels]. A tap is a position of the kernel.
template <class C>
const C *channels_last_weight(Call &call, const Conv &conv, Tensor weight) {
  C *target = call.scratch<C>(weight.numel());
  if (target == nullptr) return nullptr;
  TensorView packed(target, storage_of(compute_for<C>()), weight.shape());
  const int64_t strides[4] = {1, 1, conv.kernel_w * conv.out_channels, conv.out_channels};
  for (int d = 0; d < 4; ++d) packed.strides[d] = strides[d];
  copy_tensor(call, packed.tensor(), weight);
  return target;
}

// Returns a tensor's elements in the order N, H, W, C: the tensor's own memory if the tensor has this order and dtype,
// otherwise a copy.
template <class C>
const C *pixels_of(Call &call, Tensor t) {
  const Type type = storage_of(compute_for<C>());
  if (t.type() == type && t.is_channels_last()) return reinterpret_cast<const C *>(t.data());
  C *target = call.scratch<C>(t.numel());
  if (target == nullptr) return nullptr;
  TensorView view(target, type, t.shape());
  view.strides[0] = t.size(1) * t.size(2) * t.size(3);
  view.strides[1] = 1;
  view.strides[2] = t.size(3) * t.size(1);
  view.strides[3] = t.size(1);
  copy_tensor(call, view.tensor(), t);
  return target;
}

template <class C>
void run(Call &call, const Conv &conv, Tensor input, Tensor weight, Tensor bias, Tensor out) {
  const C *offsets = bias.t != nullptr ? dense<C>(call, bias) : nullptr;
  const Type type = storage_of(compute_for<C>());
  if (out.is_channels_last() && out.type() == type && !conv.transposed && conv.in_channels > 0) {
    const C *source = pixels_of<C>(call, input);
    C *target = reinterpret_cast<C *>(out.data());
    if (conv.is_depthwise()) {
      const C *filters = channels_last_weight<C>(call, conv, weight);
      if (!call.failed()) depthwise_pixels(call, conv, source, filters, offsets, target);
      return;
    }
    const bool native = weight.type() == type;
    const C *filters = native ? reinterpret_cast<const C *>(weight.data()) : dense<C>(call, weight);
    int64_t strides[4] = {conv.group_in() * conv.taps(), conv.taps(), conv.kernel_w, 1};
    for (int d = 0; native && d < 4; ++d) strides[d] = weight.stride(d);
    if (!call.failed()) convolve_pixels(call, conv, source, filters, strides, offsets, target);
    return;
  }
  const C *filters = dense<C>(call, weight);
  const C *source = dense<C>(call, input);
  const DenseOut<C> result(call, out);
  if (call.failed()) return;
  if (conv.transposed) {
    convolve_transposed(call, conv, source, filters, offsets, result.data());
  } else {
    convolve_planes(call, conv, source, filters, offsets, result.data());
  }
  result.finish(call);
}

// Reads stride, padding or dilation from a list that has an entry for each spatial dim, or one entry for all dims.
bool read_spatial(Call &call, Ints list, int dims, int64_t min_value, int64_t *h, int64_t *w) {
  if (!call.check(list.count == dims || list.count == 1,
                  "stride, padding and dilation must have an entry for each spatial dim, or one entry"))
    return false;
  *w = list[list.count - 1];
  if (dims == 2) *h = list[0];
  return call.check(*h >= min_value && *w >= min_value && *h <= INT32_MAX && *w <= INT32_MAX,
                    "stride, padding or dilation is out of range");
}

}  // namespace

int32_t convolution_out(const edgecore_call *raw) {
  Call call(raw, "aten::convolution.out");
  const Tensor input = call.tensor(0);
  const Tensor weight = call.tensor(1);
  const Tensor bias = call.optional_tensor(2);
  const Tensor out = call.tensor(9);
  const int dims = weight.ndim() - 2;
  if (!call.failed() && dims == 3) return convolution_general(call);
  if (!call.check(dims == 1 || dims == 2, "a convolution has one, two or three spatial dims") ||
      !call.check(input.ndim() == weight.ndim(), "input and weight must have the same number of dims")) {
    return call.status();
  }
  Conv conv = {};
  int64_t extra_h = 0;
  int64_t extra_w = 0;
  conv.stride_h = conv.dilation_h = 1;
  conv.transposed = call.flag(6);
  conv.groups = call.integer(8);
  if (!read_spatial(call, call.ints(3), dims, 1, &conv.stride_h, &conv.stride_w) ||
      !read_spatial(call, call.ints(4), dims, 0, &conv.pad_h, &conv.pad_w) ||
      !read_spatial(call, call.ints(5), dims, 1, &conv.dilation_h, &conv.dilation_w) ||
      !read_spatial(call, call.ints(7), dims, 0, &extra_h, &extra_w) ||
      !call.check(conv.groups > 0, "groups must be positive")) {
    return call.status();
  }
  conv.batch = input.size(0);
  conv.in_channels = input.size(1);
  conv.in_h = dims == 2 ? input.size(2) : 1;
  conv.in_w = input.size(dims + 1);
  conv.kernel_h = dims == 2 ? weight.size(2) : 1;
  conv.kernel_w = weight.size(dims + 1);
  conv.out_channels = conv.transposed ? weight.size(1) * conv.groups : weight.size(0);
  const int64_t expected_in = conv.transposed ? weight.size(0) : weight.size(1) * conv.groups;
  const int64_t span_h = conv.dilation_h * (conv.kernel_h - 1) + 1;
  const int64_t span_w = conv.dilation_w * (conv.kernel_w - 1) + 1;
  if (conv.transposed) {
    conv.out_h = (conv.in_h - 1) * conv.stride_h - 2 * conv.pad_h + span_h + extra_h;
    conv.out_w = (conv.in_w - 1) * conv.stride_w - 2 * conv.pad_w + span_w + extra_w;
  } else {
    conv.out_h = (conv.in_h + 2 * conv.pad_h - span_h) / conv.stride_h + 1;
    conv.out_w = (conv.in_w + 2 * conv.pad_w - span_w) / conv.stride_w + 1;
    call.check(conv.in_h + 2 * conv.pad_h >= span_h && conv.in_w + 2 * conv.pad_w >= span_w,
               "the kernel is larger than the padded input");
  }
  if (conv.in_channels != expected_in || conv.out_channels % conv.groups != 0 || conv.in_channels % conv.groups != 0) {
    return call.fail(EDGECORE_INVALID_ARGUMENT, Message() << "input of shape " << input.shape() << ", weight of shape "
                                                          << weight.shape() << " and " << conv.groups
                                                          << " groups do not match");
  }
  // Limit the matrix that determines the size of scratch memory, because a damaged file must not overflow that size.
  // The matrix is the patch matrix (im2col) of one output row; for a transposed convolution, the columns (col2im) of
  // all images and groups.
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  const int64_t pixels = conv.transposed ? conv.batch * conv.groups * conv.in_pixels() : conv.out_w;
  const int64_t depth = (conv.transposed ? conv.group_out() : conv.group_in()) * conv.taps();
  if (!call.check(pixels <= 0 || depth <= kMaxElements / pixels, "input, weight or padding are too large")) {
    return call.status();
  }
  Shape shape;
  shape.push(conv.batch);
  shape.push(conv.out_channels);
  if (dims == 2) shape.push(conv.out_h);
  shape.push(conv.out_w);
  if (!call.check(conv.out_h >= 0 && conv.out_w >= 0, "the output would have a negative size") ||
      !call.check(bias.t == nullptr || (bias.ndim() == 1 && bias.size(0) == conv.out_channels),
                  "the bias must have an entry for each output channel") ||
      !call.check(input.type() == weight.type(), "input and weight must have the same dtype") ||
      !call.check_cast(input.type(), out) || !call.resize(out, shape)) {
    return call.status();
  }
  if (out.numel() == 0) return call.status();
  with_compute(input.type(), [&](auto c) { run<decltype(c)>(call, conv, input, weight, bias, out); });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
