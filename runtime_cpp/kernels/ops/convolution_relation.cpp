#include "ops/convolution_relation.h"

#include "lib/convert.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Returns true for numbers in [0, 2^31): a sum of two products of such numbers fits into an int64.
bool is_small(int64_t value) { return value >= 0 && value < int64_t{1} << 31; }

}  // namespace

Relation relation_of(Call &call, Tensor a, Tensor b, Tensor weight, const Ints *geometry, int64_t groups) {
  Relation r;
  r.dims = weight.ndim() - 2;
  if (!call.check(r.dims >= 1 && r.dims <= 3 && a.ndim() == weight.ndim() && b.ndim() == weight.ndim(),
                  "all tensors must have the same number of spatial dims, 1 to 3") ||
      !call.check(groups > 0 && a.size(0) == b.size(0) && a.size(1) == weight.size(0) && a.size(1) % groups == 0 &&
                      is_small(groups) && b.size(1) == weight.size(1) * groups,
                  "the batches, channels and groups of the tensors do not match")) {
    return r;
  }
  r.batch = a.size(0);
  r.groups = groups;
  r.a_channels = a.size(1) / groups;
  r.b_channels = weight.size(1);
  for (int d = 0; d < r.dims; ++d) {
    const int axis = 3 - r.dims + d;
    const auto number = [&](const Ints &list) { return list[list.count == 1 ? 0 : d]; };
    for (int i = 0; i < 3; ++i) {
      const bool complete = geometry[i].count == 1 || geometry[i].count == r.dims;
      if (!call.check(complete && is_small(number(geometry[i])), "stride, padding or dilation is out of range"))
        return r;
    }
    r.stride[axis] = number(geometry[0]);
    r.padding[axis] = number(geometry[1]);
    r.dilation[axis] = number(geometry[2]);
    r.a_size[axis] = a.size(2 + d);
    r.b_size[axis] = b.size(2 + d);
    r.kernel[axis] = weight.size(2 + d);
    if (!call.check(r.stride[axis] > 0 && r.dilation[axis] > 0, "stride and dilation must be positive") ||
        !call.check(is_small(r.a_size[axis]) && is_small(r.b_size[axis]) && is_small(r.kernel[axis]),
                    "a size is out of range")) {
      return r;
    }
  }
  return r;
}

int32_t convolution_general(Call &call) {
  const Tensor input = call.tensor(0);
  const Tensor weight = call.tensor(1);
  const Tensor bias = call.optional_tensor(2);
  const Ints geometry[3] = {call.ints(3), call.ints(4), call.ints(5)};
  const bool transposed = call.flag(6);
  const Ints extra = call.ints(7);
  const int64_t groups = call.integer(8);
  const Tensor out = call.tensor(9);
  const int dims = weight.ndim() - 2;
  if (call.failed() || !call.check(dims == 3 && input.ndim() == 5, "input and weight must have five dims") ||
      !call.check(input.type() == weight.type() && weight.type() == out.type(),
                  "all tensors must have the same dtype") ||
      !call.check(groups > 0 && is_small(groups), "groups must be positive") ||
      !call.check(!transposed || extra.count == 1 || extra.count == dims,
                  "output_padding must have one or three entries")) {
    return call.status();
  }
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  call.check(bias.t == nullptr || (bias.ndim() == 1 && bias.size(0) == channels),
             "the bias must have an entry for each output channel");
  Shape shape;
  shape.push(input.size(0));
  shape.push(channels);
  for (int d = 0; d < dims; ++d) {
    int64_t number[3];
    for (int i = 0; i < 3; ++i) {
      if (!call.check(geometry[i].count == 1 || geometry[i].count == dims,
                      "stride, padding and dilation must have one or three entries")) {
        return call.status();
      }
      number[i] = geometry[i][geometry[i].count == 1 ? 0 : d];
      call.check(is_small(number[i]) && (i == 1 || number[i] > 0), "stride, padding or dilation is out of range");
    }
    const int64_t extra_size = transposed ? extra[extra.count == 1 ? 0 : d] : 0;
    const int64_t size = input.size(2 + d);
    const int64_t kernel = weight.size(2 + d);
    if (!call.check(is_small(extra_size) && is_small(size) && is_small(kernel) && kernel > 0,
                    "a size is out of range")) {
      return call.status();
    }
    const int64_t span = number[2] * (kernel - 1) + 1;
    const int64_t padded = size + 2 * number[1];
    call.check(transposed || padded >= span, "the kernel is larger than the padded input");
    if (call.failed()) return call.status();
    shape.push(transposed ? (size - 1) * number[0] - 2 * number[1] + span + extra_size
                          : (padded - span) / number[0] + 1);
    if (!call.check(shape.sizes[2 + d] >= 0, "the output would have a negative size")) return call.status();
  }
  if (!call.resize(out, shape)) return call.status();
  const Relation relation = transposed ? relation_of(call, input, out, weight, geometry, groups)
                                       : relation_of(call, out, input, weight, geometry, groups);
  const double *x = dense<double>(call, input);
  const double *w = dense<double>(call, weight);
  const double *offsets = bias.t == nullptr ? nullptr : dense<double>(call, bias);
  const DenseOut<double> result(call, out);
  if (call.failed() || out.numel() == 0) return call.status();
  double *y = result.data();
  const int64_t pixels = out.numel() / (shape.sizes[0] * channels);
  for (int64_t i = 0; i < out.numel(); ++i) y[i] = offsets == nullptr ? 0 : offsets[i / pixels % channels];
  relation.for_each([&](int64_t a, int64_t b, int64_t k) {
    if (transposed) {
      y[b] += x[a] * w[k];
    } else {
      y[a] += x[b] * w[k];
    }
  });
  result.finish(call);
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
