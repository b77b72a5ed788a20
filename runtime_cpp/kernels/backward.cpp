// Gradients of convolution and max pooling, for programs that train.
#include "index.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// A convolution relates positions a of one tensor (the output, or the input of a transposed one) and b of the other by
// b = a * stride - padding + k * dilation, with a weight [channels of a, channels of b in a group, kernel].
struct Relation {
  int dims = 0;
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t a_channels = 0;  // of a group
  int64_t b_channels = 0;
  int64_t a_size[3] = {1, 1, 1};
  int64_t b_size[3] = {1, 1, 1};
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t padding[3] = {};
  int64_t dilation[3] = {1, 1, 1};

  int64_t a_pixels() const { return a_size[0] * a_size[1] * a_size[2]; }
  int64_t b_pixels() const { return b_size[0] * b_size[1] * b_size[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }

  // Calls body(a, b, weight) with the index of each element that takes part.
  template <class Body>
  void for_each(const Body &body) const {
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t c = 0; c < groups * a_channels; ++c) {
        for (int64_t j = 0; j < b_channels; ++j) {
          const int64_t a_plane = (n * groups * a_channels + c) * a_pixels();
          const int64_t b_plane = ((n * groups + c / a_channels) * b_channels + j) * b_pixels();
          const int64_t w_plane = (c * b_channels + j) * taps();
          for (int64_t k = 0; k < taps(); ++k) pixels(k, a_plane, b_plane, w_plane + k, body);
        }
      }
    }
  }

 private:
  template <class Body>
  void pixels(int64_t k, int64_t a_plane, int64_t b_plane, int64_t weight, const Body &body) const {
    const int64_t tap[3] = {k / (kernel[1] * kernel[2]), k / kernel[2] % kernel[1], k % kernel[2]};
    int64_t a[3];
    int64_t b[3];
    const auto inside = [&](int d) {
      b[d] = a[d] * stride[d] - padding[d] + tap[d] * dilation[d];
      return b[d] >= 0 && b[d] < b_size[d];
    };
    for (a[0] = 0; a[0] < a_size[0]; ++a[0]) {
      if (!inside(0)) continue;
      for (a[1] = 0; a[1] < a_size[1]; ++a[1]) {
        if (!inside(1)) continue;
        for (a[2] = 0; a[2] < a_size[2]; ++a[2]) {
          if (!inside(2)) continue;
          body(a_plane + (a[0] * a_size[1] + a[1]) * a_size[2] + a[2],
               b_plane + (b[0] * b_size[1] + b[1]) * b_size[2] + b[2], weight);
        }
      }
    }
  }
};

bool small(int64_t value) { return value >= 0 && value < int64_t{1} << 31; }

// The relation of a call's tensors, checked: no product of its numbers overflows, every index lies in its tensor.
Relation relation_of(Call &call, Tensor a, Tensor b, Tensor weight, const Ints *numbers, int64_t groups) {
  Relation r;
  r.dims = weight.ndim() - 2;
  if (!call.check(r.dims >= 1 && r.dims <= 3 && a.ndim() == weight.ndim() && b.ndim() == weight.ndim(),
                  "the tensors must have 1, 2 or 3 spatial dims, all as many") ||
      !call.check(groups > 0 && a.size(0) == b.size(0) && a.size(1) == weight.size(0) && a.size(1) % groups == 0 &&
                      small(groups) && b.size(1) == weight.size(1) * groups,
                  "batch, channels and groups do not fit")) {
    return r;
  }
  r.batch = a.size(0);
  r.groups = groups;
  r.a_channels = a.size(1) / groups;
  r.b_channels = weight.size(1);
  for (int d = 0; d < r.dims; ++d) {
    const int at = 3 - r.dims + d;
    const auto number = [&](const Ints &list) { return list[list.count == 1 ? 0 : d]; };
    for (int i = 0; i < 3; ++i) {
      const bool whole = numbers[i].count == 1 || numbers[i].count == r.dims;
      if (!call.check(whole && small(number(numbers[i])), "stride, padding or dilation is out of range")) return r;
    }
    r.stride[at] = number(numbers[0]);
    r.padding[at] = number(numbers[1]);
    r.dilation[at] = number(numbers[2]);
    r.a_size[at] = a.size(2 + d);
    r.b_size[at] = b.size(2 + d);
    r.kernel[at] = weight.size(2 + d);
    if (!call.check(r.stride[at] > 0 && r.dilation[at] > 0, "stride and dilation must be positive") ||
        !call.check(small(r.a_size[at]) && small(r.b_size[at]) && small(r.kernel[at]), "a size is out of range")) {
      return r;
    }
  }
  return r;
}

}  // namespace

int32_t convolution_backward_out(const edgecore_call *raw) {
  Call call(raw, "aten::convolution_backward.out");
  const Tensor grad_output = call.tensor(0);
  const Tensor input = call.tensor(1);
  const Tensor weight = call.tensor(2);
  const Ints numbers[3] = {call.ints(4), call.ints(5), call.ints(6)};
  const bool transposed = call.flag(7);
  const int64_t groups = call.integer(9);
  const uint8_t *wanted = call.bools(10, 3);
  if (call.failed()) return call.status();
  const Tensor a = transposed ? input : grad_output;
  const Tensor b = transposed ? grad_output : input;
  const Relation relation = relation_of(call, a, b, weight, numbers, groups);
  const double *grads = dense<double>(call, grad_output);
  if (call.failed()) return call.status();
  if (wanted[0] != 0) {
    const Tensor out = call.tensor(11);
    if (call.failed() || !call.resize(out, input.shape(), "out0")) return call.status();
    const double *w = dense<double>(call, weight);
    const DenseOut<double> result(call, out);
    if (call.failed()) return call.status();
    double *to = result.data();
    __builtin_memset(to, 0, static_cast<uint64_t>(out.numel()) * sizeof(double));
    relation.for_each([&](int64_t i, int64_t j, int64_t k) {
      if (transposed) {
        to[i] += grads[j] * w[k];
      } else {
        to[j] += grads[i] * w[k];
      }
    });
    result.finish(call);
  }
  if (wanted[1] != 0) {
    const Tensor out = call.tensor(12);
    if (call.failed() || !call.resize(out, weight.shape(), "out1")) return call.status();
    const double *x = dense<double>(call, input);
    const DenseOut<double> result(call, out);
    if (call.failed()) return call.status();
    double *to = result.data();
    __builtin_memset(to, 0, static_cast<uint64_t>(out.numel()) * sizeof(double));
    relation.for_each(
        [&](int64_t i, int64_t j, int64_t k) { to[k] += transposed ? x[i] * grads[j] : grads[i] * x[j]; });
    result.finish(call);
  }
  if (wanted[2] != 0) {
    const Tensor out = call.tensor(13);
    Shape shape;
    const int64_t channels = grad_output.size(1);
    shape.push(channels);
    if (call.failed() || !call.resize(out, shape, "out2")) return call.status();
    const DenseOut<double> result(call, out);
    if (call.failed()) return call.status();
    const int64_t pixels = transposed ? relation.b_pixels() : relation.a_pixels();
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t n = 0; n < relation.batch; ++n) {
        for (int64_t i = 0; i < pixels; ++i) sum += grads[(n * channels + c) * pixels + i];
      }
      result.data()[c] = sum;
    }
    result.finish(call);
  }
  return call.status();
}

// Each gradient goes to the pixel that was its window's greatest.
int32_t max_pool2d_with_indices_backward_grad_input(const edgecore_call *raw) {
  Call call(raw, "aten::max_pool2d_with_indices_backward.grad_input");
  const Tensor grad_output = call.tensor(0);
  const Tensor self = call.tensor(1);
  const Tensor indices = call.tensor(7);
  const Tensor out = call.tensor(8);
  const int ndim = self.ndim();
  if (!call.check(!call.failed() && (ndim == 3 || ndim == 4), "the input must have 3 or 4 dims") ||
      !call.check_same_shape(grad_output.shape(), indices.shape(), "indices") ||
      !call.check(grad_output.ndim() == ndim, "the gradient must have the input's number of dims") ||
      !call.resize(out, self.shape(), "grad_input")) {
    return call.status();
  }
  for (int d = 0; d < ndim - 2; ++d) {
    if (!call.check(grad_output.size(d) == self.size(d), "batch and channels do not fit")) return call.status();
  }
  const int64_t pixels = self.size(ndim - 2) * self.size(ndim - 1);
  const int64_t count = grad_output.size(ndim - 2) * grad_output.size(ndim - 1);
  const int64_t *where = positions(call, indices, pixels, false);
  const double *grads = dense<double>(call, grad_output);
  const DenseOut<double> result(call, out);
  if (call.failed()) return call.status();
  __builtin_memset(result.data(), 0, static_cast<uint64_t>(out.numel()) * sizeof(double));
  for (int64_t i = 0; i < grad_output.numel(); ++i) result.data()[i / count * pixels + where[i]] += grads[i];
  result.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
