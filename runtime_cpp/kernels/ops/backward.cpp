// Gradients of convolution and max pooling, for training on the device.
#include "ops/convolution_relation.h"
#include "ops/index.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

int32_t convolution_backward_out(const edgecore_call *raw) {
  Call call(raw, "aten::convolution_backward.out");
  const Tensor grad_output = call.tensor(0);
  const Tensor input = call.tensor(1);
  const Tensor weight = call.tensor(2);
  const Ints geometry[3] = {call.ints(4), call.ints(5), call.ints(6)};
  const bool transposed = call.flag(7);
  const int64_t groups = call.integer(9);
  const uint8_t *output_mask = call.bools(10, 3);
  if (call.failed()) return call.status();
  const Tensor a = transposed ? input : grad_output;
  const Tensor b = transposed ? grad_output : input;
  const Relation relation = relation_of(call, a, b, weight, geometry, groups);
  const double *grads = dense<double>(call, grad_output);
  if (call.failed()) return call.status();
  if (output_mask[0] != 0) {
    const Tensor out = call.tensor(11);
    if (call.failed() || !call.resize(out, input.shape(), "out0")) return call.status();
    const double *w = dense<double>(call, weight);
    const DenseOut<double> result(call, out);
    if (call.failed()) return call.status();
    double *gradient = result.data();
    __builtin_memset(gradient, 0, static_cast<uint64_t>(out.numel()) * sizeof(double));
    relation.for_each([&](int64_t i, int64_t j, int64_t k) {
      if (transposed) {
        gradient[i] += grads[j] * w[k];
      } else {
        gradient[j] += grads[i] * w[k];
      }
    });
    result.finish(call);
  }
  if (output_mask[1] != 0) {
    const Tensor out = call.tensor(12);
    if (call.failed() || !call.resize(out, weight.shape(), "out1")) return call.status();
    const double *x = dense<double>(call, input);
    const DenseOut<double> result(call, out);
    if (call.failed()) return call.status();
    double *gradient = result.data();
    __builtin_memset(gradient, 0, static_cast<uint64_t>(out.numel()) * sizeof(double));
    relation.for_each(
        [&](int64_t i, int64_t j, int64_t k) { gradient[k] += transposed ? x[i] * grads[j] : grads[i] * x[j]; });
    result.finish(call);
  }
  if (output_mask[2] != 0) {
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

// Adds the gradient of each output to the gradient of the input pixel that was the max of the output's window.
int32_t max_pool2d_with_indices_backward_grad_input(const edgecore_call *raw) {
  Call call(raw, "aten::max_pool2d_with_indices_backward.grad_input");
  const Tensor grad_output = call.tensor(0);
  const Tensor self = call.tensor(1);
  const Tensor indices = call.tensor(7);
  const Tensor out = call.tensor(8);
  const int ndim = self.ndim();
  if (!call.check(!call.failed() && (ndim == 3 || ndim == 4), "the input must have 3 or 4 dims") ||
      !call.check_same_shape(grad_output.shape(), indices.shape(), "indices") ||
      !call.check(grad_output.ndim() == ndim, "the gradient and the input must have the same number of dims") ||
      !call.resize(out, self.shape(), "grad_input")) {
    return call.status();
  }
  for (int d = 0; d < ndim - 2; ++d) {
    if (!call.check(grad_output.size(d) == self.size(d),
                    "the gradient and the input must have the same batch and channels"))
      return call.status();
  }
  const int64_t pixels = self.size(ndim - 2) * self.size(ndim - 1);
  const int64_t count = grad_output.size(ndim - 2) * grad_output.size(ndim - 1);
  const int64_t *pixel_of = positions(call, indices, pixels, false);
  const double *grads = dense<double>(call, grad_output);
  const DenseOut<double> result(call, out);
  if (call.failed()) return call.status();
  __builtin_memset(result.data(), 0, static_cast<uint64_t>(out.numel()) * sizeof(double));
  for (int64_t i = 0; i < grad_output.numel(); ++i) result.data()[i / count * pixels + pixel_of[i]] += grads[i];
  result.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
