// Layer and group normalization, and batch normalization for inference.
#include "lib/convert.h"
#include "lib/math.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

// Returns the sum of x[i] - shift, or of (x[i] - shift)^2 if `squared` is true. Each chunk of 1024 elements is added to
// 16 partial sums of type C, so that the loop vectorizes; the sums of chunks are added in double, so that the rounding
// error does not grow with n.
template <class C>
double sum_of(const C *x, int64_t n, C shift, bool squared) {
  double total = 0;
  int64_t i = 0;
  while (i < n) {
    C lanes[16] = {};
    const int64_t end = n - i > 1024 ? i + 1024 : n;
    for (; i + 16 <= end; i += 16) {
      for (int l = 0; l < 16; ++l) {
        const C d = x[i + l] - shift;
        lanes[l] += squared ? d * d : d;
      }
    }
    for (int l = 0; l < 16; ++l) total += static_cast<double>(lanes[l]);
    for (; i < end; ++i) {
      const C d = x[i] - shift;
      total += static_cast<double>(squared ? d * d : d);
    }
  }
  return total;
}

// Computes mean and 1 / sqrt(variance + eps) in two passes: E[x^2] - E[x]^2 would lose precision if the mean is large.
template <class C>
void moments(const C *x, int64_t n, double eps, C *mean, C *rstd) {
  const double count = static_cast<double>(n);
  *mean = static_cast<C>(sum_of(x, n, C{0}, false) / count);
  *rstd = static_cast<C>(1.0 / __builtin_sqrt(sum_of(x, n, *mean, true) / count + eps));
}

template <class C>
const C *optional_dense(Call &call, Tensor t) {
  return t.t == nullptr ? nullptr : dense<C>(call, t);
}

// The tensors of a layer_norm or group_norm as dense arrays. `scale` (the weight) and `offset` (the bias) may be NULL.
template <class C>
struct DenseTensors {
  const C *x, *scale, *offset;
  DenseOut<C> result, means, rstds;

  DenseTensors(Call &call, Tensor input, Tensor weight, Tensor bias, const Tensor *outs)
      : x(dense<C>(call, input)),
        scale(optional_dense<C>(call, weight)),
        offset(optional_dense<C>(call, bias)),
        result(call, outs[0]),
        means(call, outs[1]),
        rstds(call, outs[2]) {}

  void finish(Call &call) const {
    result.finish(call);
    means.finish(call);
    rstds.finish(call);
  }
};

template <class C>
void layer_norm(Call &call, Tensor input, int64_t rows, int64_t n, Tensor weight, Tensor bias, double eps,
                const Tensor *outs) {
  const DenseTensors<C> t(call, input, weight, bias, outs);
  if (call.failed()) return;
  const C *scale = t.scale;
  const C *offset = t.offset;
  call.parallel(rows, 16384 / (n + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t r = begin; r < end; ++r) {
      const C *__restrict in = t.x + r * n;
      C *__restrict out = t.result.data() + r * n;
      C mean;
      C rstd;
      moments(in, n, eps, &mean, &rstd);
      t.means.data()[r] = mean;
      t.rstds.data()[r] = rstd;
      if (scale != nullptr && offset != nullptr) {
        for (int64_t i = 0; i < n; ++i) out[i] = (in[i] - mean) * rstd * scale[i] + offset[i];
        continue;
      }
      for (int64_t i = 0; i < n; ++i) out[i] = (in[i] - mean) * rstd;
      for (int64_t i = 0; scale != nullptr && i < n; ++i) out[i] *= scale[i];
      for (int64_t i = 0; offset != nullptr && i < n; ++i) out[i] += offset[i];
    }
  });
  t.finish(call);
}

template <class C>
void group_norm(Call &call, Tensor input, int64_t images, int64_t channels, int64_t pixels, int64_t groups,
                Tensor weight, Tensor bias, double eps, const Tensor *outs) {
  const DenseTensors<C> t(call, input, weight, bias, outs);
  if (call.failed()) return;
  const C *scale = t.scale;
  const C *offset = t.offset;
  const int64_t width = channels / groups;
  const int64_t n = width * pixels;
  call.parallel(images * groups, 16384 / (n + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t r = begin; r < end; ++r) {
      C mean;
      C rstd;
      moments(t.x + r * n, n, eps, &mean, &rstd);
      t.means.data()[r] = mean;
      t.rstds.data()[r] = rstd;
      for (int64_t k = 0; k < width; ++k) {
        const int64_t c = r % groups * width + k;
        const C factor = scale != nullptr ? scale[c] * rstd : rstd;
        const C shift = offset != nullptr ? offset[c] : C{0};
        const C *__restrict in = t.x + r * n + k * pixels;
        C *__restrict out = t.result.data() + r * n + k * pixels;
        // Do not compute in[i] * factor + (shift - mean * factor): if in[i] equals the mean, as in groups of one
        // element, the result must be exactly `shift`, without the rounding error of mean * factor.
        for (int64_t i = 0; i < pixels; ++i) out[i] = (in[i] - mean) * factor + shift;
      }
    }
  });
  t.finish(call);
}

// Runs batch normalization with given mean and variance. Dim 1 has the channels. Computes in the layout N, H, W, C if
// both input and output have this layout, otherwise in row-major order.
template <class C>
void batch_norm(Call &call, Tensor input, Tensor weight, Tensor bias, Tensor mean, Tensor variance, double eps,
                Tensor out) {
  const int64_t channels = input.size(1);
  const C *means = dense<C>(call, mean);
  const C *variances = dense<C>(call, variance);
  const C *scale = optional_dense<C>(call, weight);
  const C *offset = optional_dense<C>(call, bias);
  C *factors = call.scratch<C>(2 * channels);
  const Type type = storage_of(compute_for<C>());
  const bool channels_last =
      input.is_channels_last() && out.is_channels_last() && input.type() == type && out.type() == type;
  const C *x = channels_last ? reinterpret_cast<const C *>(input.data()) : dense<C>(call, input);
  if (call.failed()) return;
  C *shifts = factors + channels;
  for (int64_t c = 0; c < channels; ++c) {
    factors[c] = (scale != nullptr ? scale[c] : C{1}) / sqrt_of(variances[c] + static_cast<C>(eps));
    shifts[c] = (offset != nullptr ? offset[c] : C{0}) - means[c] * factors[c];
  }
  if (channels_last) {
    C *target = reinterpret_cast<C *>(out.data());
    call.parallel(input.numel() / channels, 16384 / (channels + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t p = begin; p < end; ++p) {
        const C *__restrict in = x + p * channels;
        C *__restrict y = target + p * channels;
        for (int64_t c = 0; c < channels; ++c) y[c] = in[c] * factors[c] + shifts[c];
      }
    });
    return;
  }
  const DenseOut<C> result(call, out);
  if (call.failed()) return;
  int64_t pixels = 1;
  for (int d = 2; d < input.ndim(); ++d) pixels *= input.size(d);
  call.parallel(input.size(0) * channels, 16384 / (pixels + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t r = begin; r < end; ++r) {
      const C factor = factors[r % channels];
      const C shift = shifts[r % channels];
      const C *__restrict in = x + r * pixels;
      C *__restrict y = result.data() + r * pixels;
      for (int64_t i = 0; i < pixels; ++i) y[i] = in[i] * factor + shift;
    }
  });
  result.finish(call);
}

bool check_vector(Call &call, Tensor t, int64_t size, const char *name) {
  if (t.t != nullptr && t.numel() != size) {
    call.fail(EDGECORE_INVALID_ARGUMENT,
              Message() << name << " has shape " << t.shape() << " but must have " << size << " elements");
  }
  return !call.failed();
}

// Resizes the outputs of a normalization: the result, the means, and the reciprocals of the deviations.
bool resize_outs(Call &call, Tensor input, const Tensor *outs, const Shape &moments_shape, const char *mean_name,
                 const char *rstd_name) {
  return call.resize(outs[0], input.shape()) && call.resize(outs[1], moments_shape, mean_name) &&
         call.resize(outs[2], moments_shape, rstd_name);
}

bool check_outs(Call &call, Tensor input, const Tensor *outs, int count) {
  call.check(is_floating(input.type()), "the input must have a floating dtype");
  for (int i = 0; i < count; ++i) call.check_cast(input.type(), outs[i]);
  return !call.failed();
}

}  // namespace

int32_t native_layer_norm_out(const edgecore_call *raw) {
  Call call(raw, "aten::native_layer_norm.out");
  const Tensor input = call.tensor(0);
  const Ints normalized = call.ints(1);
  const Tensor weight = call.optional_tensor(2);
  const Tensor bias = call.optional_tensor(3);
  const double eps = call.real(4);
  const Tensor outs[] = {call.tensor(5), call.tensor(6), call.tensor(7)};
  const int64_t axis = input.ndim() - normalized.count;
  bool fits = normalized.count > 0 && axis >= 0;
  int64_t n = 1;
  for (int64_t i = 0; fits && i < normalized.count; ++i) {
    fits = input.size(static_cast<int>(axis + i)) == normalized[i];
    n *= normalized[i];
  }
  if (!call.check(fits, "normalized_shape must be the input's last sizes") || !check_outs(call, input, outs, 3) ||
      !check_vector(call, weight, n, "weight") || !check_vector(call, bias, n, "bias")) {
    return call.status();
  }
  Shape moments_shape = input.shape();
  int64_t rows = 1;
  for (int d = 0; d < input.ndim(); ++d) {
    if (d < axis) {
      rows *= input.size(d);
    } else {
      moments_shape.sizes[d] = 1;
    }
  }
  if (!resize_outs(call, input, outs, moments_shape, "mean", "rstd")) return call.status();
  with_floating_compute(input.type(),
                        [&](auto c) { layer_norm<decltype(c)>(call, input, rows, n, weight, bias, eps, outs); });
  return call.status();
}

int32_t native_group_norm_out(const edgecore_call *raw) {
  Call call(raw, "aten::native_group_norm.out");
  const Tensor input = call.tensor(0);
  const Tensor weight = call.optional_tensor(1);
  const Tensor bias = call.optional_tensor(2);
  const int64_t images = call.integer(3);
  const int64_t channels = call.integer(4);
  const int64_t pixels = call.integer(5);
  const int64_t groups = call.integer(6);
  const double eps = call.real(7);
  const Tensor outs[] = {call.tensor(8), call.tensor(9), call.tensor(10)};
  int64_t own_pixels = 1;
  for (int d = 2; d < input.ndim(); ++d) own_pixels *= input.size(d);
  const bool fits = input.ndim() >= 2 && input.size(0) == images && input.size(1) == channels && pixels == own_pixels &&
                    groups > 0 && channels % groups == 0;
  if (!call.check(fits, "N, C, HxW and group do not match the input") || !check_outs(call, input, outs, 3) ||
      !check_vector(call, weight, channels, "weight") || !check_vector(call, bias, channels, "bias")) {
    return call.status();
  }
  Shape moments_shape;
  moments_shape.push(images);
  moments_shape.push(groups);
  if (!resize_outs(call, input, outs, moments_shape, "mean", "rstd")) return call.status();
  with_floating_compute(input.type(), [&](auto c) {
    group_norm<decltype(c)>(call, input, images, channels, pixels, groups, weight, bias, eps, outs);
  });
  return call.status();
}

int32_t native_batch_norm_legit_no_training_out(const edgecore_call *raw) {
  Call call(raw, "aten::_native_batch_norm_legit_no_training.out");
  const Tensor input = call.tensor(0);
  const Tensor weight = call.optional_tensor(1);
  const Tensor bias = call.optional_tensor(2);
  const Tensor mean = call.tensor(3);
  const Tensor variance = call.tensor(4);
  const double eps = call.real(6);
  const Tensor outs[] = {call.tensor(7), call.tensor(8), call.tensor(9)};
  if (!call.check(input.ndim() >= 2, "the input must have at least two dims") || !check_outs(call, input, outs, 1) ||
      !check_vector(call, weight, input.size(1), "weight") || !check_vector(call, bias, input.size(1), "bias") ||
      !check_vector(call, mean, input.size(1), "running_mean") ||
      !check_vector(call, variance, input.size(1), "running_var")) {
    return call.status();
  }
  Shape empty;  // inference leaves save_mean and save_rstd empty
  empty.push(0);
  if (!resize_outs(call, input, outs, empty, "save_mean", "save_rstd")) return call.status();
  if (input.numel() == 0) return call.status();
  with_floating_compute(
      input.type(), [&](auto c) { batch_norm<decltype(c)>(call, input, weight, bias, mean, variance, eps, outs[0]); });
  return call.status();
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
