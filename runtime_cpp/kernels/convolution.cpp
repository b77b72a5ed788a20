// Convolution of one and two dims: pointwise as a matrix product, depthwise directly, the rest as patches times
// weights.
#include "convolution.h"

#include "convert.h"
#include "gemm.h"
#include "iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

constexpr int64_t kPatchBytes = 1 << 19;  // of one block of patches, about half of a second-level cache

template <class C>
void fill_bias(C *out, const C *bias, int64_t rows, int64_t columns, bool by_row) {
  for (int64_t r = 0; r < rows; ++r) {
    C *target = out + r * columns;
    if (bias == nullptr) {
      __builtin_memset(target, 0, static_cast<uint64_t>(columns) * sizeof(C));
    } else if (by_row) {
      const C value = bias[r];
      for (int64_t i = 0; i < columns; ++i) target[i] = value;
    } else {
      __builtin_memcpy(target, bias, static_cast<uint64_t>(columns) * sizeof(C));
    }
  }
}

// Patches of output rows [row0, row1) as a matrix [channels * taps, pixels]: each row of it is shifted image rows.
template <class C>
void patches_of_planes(const Conv &conv, const C *image, int64_t row0, int64_t row1, C *patches) {
  const int64_t pixels = (row1 - row0) * conv.out_w;
  for (int64_t c = 0; c < conv.group_in(); ++c) {
    for (int64_t kh = 0; kh < conv.kernel_h; ++kh) {
      for (int64_t kw = 0; kw < conv.kernel_w; ++kw) {
        C *target = patches + ((c * conv.kernel_h + kh) * conv.kernel_w + kw) * pixels;
        const int64_t shift = kw * conv.dilation_w - conv.pad_w;
        const Valid valid(conv.out_w, conv.stride_w, shift, conv.in_w);
        for (int64_t oh = row0; oh < row1; ++oh, target += conv.out_w) {
          const int64_t ih = oh * conv.stride_h - conv.pad_h + kh * conv.dilation_h;
          if (ih < 0 || ih >= conv.in_h) {
            __builtin_memset(target, 0, static_cast<uint64_t>(conv.out_w) * sizeof(C));
            continue;
          }
          const C *source = image + (c * conv.in_h + ih) * conv.in_w + shift;
          for (int64_t i = 0; i < valid.begin; ++i) target[i] = 0;
          if (conv.stride_w == 1) {
            __builtin_memcpy(target + valid.begin, source + valid.begin,
                             static_cast<uint64_t>(valid.end - valid.begin) * sizeof(C));
          } else {
            for (int64_t i = valid.begin; i < valid.end; ++i) target[i] = source[i * conv.stride_w];
          }
          for (int64_t i = valid.end; i < conv.out_w; ++i) target[i] = 0;
        }
      }
    }
  }
}

// Patches of output rows [row0, row1) as [pixels, taps * channels] of a channels-last image.
template <class C>
void patches_of_pixels(const Conv &conv, const C *image, int64_t row0, int64_t row1, C *patches) {
  const int64_t run = conv.group_in();
  const uint64_t bytes = static_cast<uint64_t>(run) * sizeof(C);
  for (int64_t oh = row0; oh < row1; ++oh) {
    for (int64_t ow = 0; ow < conv.out_w; ++ow) {
      for (int64_t kh = 0; kh < conv.kernel_h; ++kh) {
        const int64_t ih = oh * conv.stride_h - conv.pad_h + kh * conv.dilation_h;
        for (int64_t kw = 0; kw < conv.kernel_w; ++kw, patches += run) {
          const int64_t iw = ow * conv.stride_w - conv.pad_w + kw * conv.dilation_w;
          if (ih < 0 || ih >= conv.in_h || iw < 0 || iw >= conv.in_w) {
            __builtin_memset(patches, 0, bytes);
          } else {
            __builtin_memcpy(patches, image + (ih * conv.in_w + iw) * conv.in_channels, bytes);
          }
        }
      }
    }
  }
}

int64_t rows_per_block(const Conv &conv, int64_t patch_bytes) {
  const int64_t row = conv.out_w * patch_bytes;
  const int64_t rows = row > 0 ? kPatchBytes / row : 1;
  return rows < 1 ? 1 : rows > conv.out_h ? conv.out_h : rows;
}

template <class C>
void convolve_planes(Call &call, const Conv &conv, const C *input, const C *weight, const C *bias, C *out) {
  const int64_t k = conv.group_in() * conv.taps();
  if (conv.is_depthwise()) {
    for (int64_t n = 0; n < conv.batch; ++n) {
      fill_bias(out + n * conv.out_channels * conv.out_pixels(), bias, conv.out_channels, conv.out_pixels(), true);
    }
    return depthwise_planes(call, conv, input, weight, out);
  }
  const bool direct = conv.is_pointwise();
  // Blocks of output rows; a pointwise product reads the image itself, cut only for the threads.
  int64_t rows = rows_per_block(conv, k * static_cast<int64_t>(sizeof(C)));
  if (direct) {
    const int64_t share = (conv.out_h + call.worker_count() - 1) / call.worker_count();
    rows = conv.batch * conv.groups >= call.worker_count() ? conv.out_h : share;
  }
  const int64_t blocks = (conv.out_h + rows - 1) / rows;
  const GemmSpace<C> space(call, conv.group_out(), rows * conv.out_w, k);
  const int64_t part = direct ? 0 : k * rows * conv.out_w;
  C *patches = direct ? nullptr : call.scratch<C>(part * call.worker_count());
  if (call.failed()) return;
  const int64_t work = conv.group_out() * rows * conv.out_w * k;
  call.parallel(
      conv.batch * conv.groups * blocks, 65536 / (work + 1) + 1, [&](int64_t begin, int64_t end, int64_t worker) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t image = i / blocks;  // of one group
          const int64_t group = image % conv.groups;
          const int64_t row0 = i % blocks * rows;
          const int64_t row1 = row0 + rows < conv.out_h ? row0 + rows : conv.out_h;
          const int64_t pixels = (row1 - row0) * conv.out_w;
          const C *source = input + image * conv.group_in() * conv.in_pixels();
          Matrix<C> columns = {source + row0 * conv.out_w, conv.in_pixels(), false};
          if (!direct) {
            C *own = patches + worker * part;
            patches_of_planes(conv, source, row0, row1, own);
            columns = {own, pixels, false};
          }
          C *target = out + image * conv.group_out() * conv.out_pixels() + row0 * conv.out_w;
          for (int64_t c = 0; c < conv.group_out(); ++c) {
            const C value = bias == nullptr ? C{0} : bias[group * conv.group_out() + c];
            C *line = target + c * conv.out_pixels();
            for (int64_t p = 0; p < pixels; ++p) line[p] = value;
          }
          const Matrix<C> filters = {weight + group * conv.group_out() * k, k, false};
          gemm_serial<C>(space, worker, conv.group_out(), pixels, k, 1, filters, columns, target, conv.out_pixels());
        }
      });
}

// `weight` as [out_channels, taps, group_in], or [taps, channels] when depthwise.
template <class C>
void convolve_pixels(Call &call, const Conv &conv, const C *input, const C *weight, const C *bias, C *out) {
  const int64_t k = conv.group_in() * conv.taps();
  if (conv.is_depthwise()) {
    fill_bias(out, bias, conv.batch * conv.out_pixels(), conv.out_channels, false);
    return depthwise_pixels(call, conv, input, weight, out);
  }
  const bool direct = conv.is_pointwise();
  int64_t rows = rows_per_block(conv, k * static_cast<int64_t>(sizeof(C)));
  if (direct) {
    const int64_t share = (conv.out_h + call.worker_count() - 1) / call.worker_count();
    rows = conv.batch >= call.worker_count() ? conv.out_h : share;
  }
  const int64_t blocks = (conv.out_h + rows - 1) / rows;
  const GemmSpace<C> space(call, rows * conv.out_w, conv.group_out(), k);
  const int64_t part = direct ? 0 : k * rows * conv.out_w;
  C *patches = direct ? nullptr : call.scratch<C>(part * call.worker_count());
  if (call.failed()) return;
  const int64_t work = conv.out_channels * rows * conv.out_w * k;
  call.parallel(conv.batch * blocks, 65536 / (work + 1) + 1, [&](int64_t begin, int64_t end, int64_t worker) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row0 = i % blocks * rows;
      const int64_t row1 = row0 + rows < conv.out_h ? row0 + rows : conv.out_h;
      const int64_t pixels = (row1 - row0) * conv.out_w;
      C *target = out + (i / blocks * conv.out_pixels() + row0 * conv.out_w) * conv.out_channels;
      fill_bias(target, bias, pixels, conv.out_channels, false);
      for (int64_t group = 0; group < conv.groups; ++group) {
        const C *source = input + i / blocks * conv.in_pixels() * conv.in_channels + group * conv.group_in();
        Matrix<C> lines = {source + row0 * conv.out_w * conv.in_channels, conv.in_channels, false};
        if (!direct) {
          C *own = patches + worker * part;
          patches_of_pixels(conv, source, row0, row1, own);
          lines = {own, k, false};
        }
        const Matrix<C> filters = {weight + group * conv.group_out() * k, k, true};
        gemm_serial<C>(space, worker, pixels, conv.group_out(), k, 1, lines, filters, target + group * conv.group_out(),
                       conv.out_channels);
      }
    }
  });
}

// The gradient of a convolution: products of the weights with the image, added where each tap lands.
template <class C>
void convolve_transposed(Call &call, const Conv &conv, const C *input, const C *weight, const C *bias, C *out) {
  const int64_t k = conv.group_out() * conv.taps();
  const int64_t part = k * conv.in_pixels();
  const GemmSpace<C> space(call, k, conv.in_pixels(), conv.group_in());
  C *columns = call.scratch<C>(part * call.worker_count());
  if (call.failed()) return;
  call.parallel(conv.batch * conv.groups, 1, [&](int64_t begin, int64_t end, int64_t worker) {
    for (int64_t image = begin; image < end; ++image) {
      const int64_t group = image % conv.groups;
      C *own = columns + worker * part;
      __builtin_memset(own, 0, static_cast<uint64_t>(part) * sizeof(C));
      const Matrix<C> filters = {weight + group * conv.group_in() * k, k, true};
      const Matrix<C> source = {input + image * conv.group_in() * conv.in_pixels(), conv.in_pixels(), false};
      gemm_serial<C>(space, worker, k, conv.in_pixels(), conv.group_in(), 1, filters, source, own, conv.in_pixels());
      C *target = out + image * conv.group_out() * conv.out_pixels();
      const C *own_bias = bias == nullptr ? nullptr : bias + group * conv.group_out();
      fill_bias(target, own_bias, conv.group_out(), conv.out_pixels(), true);
      for (int64_t c = 0; c < conv.group_out(); ++c) {
        for (int64_t kh = 0; kh < conv.kernel_h; ++kh) {
          for (int64_t kw = 0; kw < conv.kernel_w; ++kw, own += conv.in_pixels()) {
            const int64_t shift = kw * conv.dilation_w - conv.pad_w;
            const Valid valid(conv.in_w, conv.stride_w, shift, conv.out_w);
            for (int64_t ih = 0; ih < conv.in_h; ++ih) {
              const int64_t oh = ih * conv.stride_h - conv.pad_h + kh * conv.dilation_h;
              if (oh < 0 || oh >= conv.out_h) continue;
              C *__restrict line = target + (c * conv.out_h + oh) * conv.out_w + shift;
              const C *__restrict from = own + ih * conv.in_w;
              for (int64_t i = valid.begin; i < valid.end; ++i) line[i * conv.stride_w] += from[i];
            }
          }
        }
      }
    }
  });
}

// Weights in the order in which pixels are read: the channel last, the tap before it. Depthwise: [taps, channels].
template <class C>
const C *weight_for_pixels(Call &call, const Conv &conv, Tensor weight) {
  C *target = call.scratch<C>(weight.numel());
  if (target == nullptr) return nullptr;
  const Type type = storage_of(compute_for<C>());
  TensorOn packed(target, type, weight.shape());
  if (conv.is_depthwise()) {
    const int64_t strides[4] = {1, 1, conv.kernel_w * conv.out_channels, conv.out_channels};
    for (int d = 0; d < 4; ++d) packed.strides[d] = strides[d];
  } else {
    const int64_t inner = conv.group_in();
    const int64_t strides[4] = {conv.taps() * inner, 1, conv.kernel_w * inner, inner};
    for (int d = 0; d < 4; ++d) packed.strides[d] = strides[d];
  }
  copy_tensor(call, packed.tensor(), weight);
  return target;
}

// Memory with the elements of a four-dimensional tensor in the order N, H, W, C.
template <class C>
const C *pixels_of(Call &call, Tensor t) {
  const Type type = storage_of(compute_for<C>());
  if (t.type() == type && t.is_channels_last()) return reinterpret_cast<const C *>(t.data());
  C *target = call.scratch<C>(t.numel());
  if (target == nullptr) return nullptr;
  TensorOn view(target, type, t.shape());
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
  if (out.is_channels_last() && out.type() == storage_of(compute_for<C>()) && !conv.transposed) {
    const C *filters = weight_for_pixels<C>(call, conv, weight);
    const C *source = pixels_of<C>(call, input);
    if (!call.failed()) convolve_pixels(call, conv, source, filters, offsets, reinterpret_cast<C *>(out.data()));
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

// One of the list's entries for each spatial dim; a single entry stands for all.
bool spatial(Call &call, Ints list, int dims, int64_t least, int64_t *h, int64_t *w) {
  if (!call.check(list.count == dims || list.count == 1, "a list must have an entry for each spatial dim"))
    return false;
  *w = list[list.count - 1];
  if (dims == 2) *h = list[0];
  return call.check(*h >= least && *w >= least && *h <= INT32_MAX && *w <= INT32_MAX,
                    "stride, dilation or padding is out of range");
}

}  // namespace

int32_t convolution_out(const edgecore_call *raw) {
  Call call(raw, "aten::convolution.out");
  const Tensor input = call.tensor(0);
  const Tensor weight = call.tensor(1);
  const Tensor bias = call.optional_tensor(2);
  const Tensor out = call.tensor(9);
  const int dims = weight.ndim() - 2;
  if (!call.check(dims == 1 || dims == 2, "only convolutions of one and two spatial dims are implemented") ||
      !call.check(input.ndim() == weight.ndim(), "input and weight must have the same number of dims")) {
    return call.status();
  }
  Conv conv = {};
  int64_t extra_h = 0;
  int64_t extra_w = 0;
  conv.stride_h = conv.dilation_h = 1;
  conv.transposed = call.flag(6);
  conv.groups = call.integer(8);
  if (!spatial(call, call.ints(3), dims, 1, &conv.stride_h, &conv.stride_w) ||
      !spatial(call, call.ints(4), dims, 0, &conv.pad_h, &conv.pad_w) ||
      !spatial(call, call.ints(5), dims, 1, &conv.dilation_h, &conv.dilation_w) ||
      !spatial(call, call.ints(7), dims, 0, &extra_h, &extra_w) ||
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
                                                          << " groups do not fit");
  }
  // Of one row of patches, or of one image's columns: its size in bytes for all workers does not overflow then.
  constexpr int64_t kMostElements = int64_t{1} << 40;
  const int64_t pixels = conv.transposed ? conv.in_pixels() : conv.out_w;
  const int64_t depth = (conv.transposed ? conv.group_out() : conv.group_in()) * conv.taps();
  if (!call.check(pixels <= 0 || depth <= kMostElements / pixels, "input, weight or padding are too large")) {
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
  const Compute compute = compute_of(input.type());
  if (compute == Compute::kFloat) run<float>(call, conv, input, weight, bias, out);
  if (compute == Compute::kDouble) run<double>(call, conv, input, weight, bias, out);
  if (compute == Compute::kInt) run<int64_t>(call, conv, input, weight, bias, out);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
