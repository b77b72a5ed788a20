// Batch normalization. Training normalizes with the mean and variance of the batch, and updates the running mean and
// variance. Inference normalizes with the running mean and variance.
#include "lib/convert.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {
namespace {

struct Channel {
  double mean;
  double variance;  // biased variance: the mean of the squared differences
};

// Computes mean and variance of one channel in two passes: E[x^2] - E[x]^2 would lose precision if the mean is large.
template <class C>
Channel moments(const C *x, int64_t batch, int64_t channels, int64_t channel, int64_t pixels) {
  const double count = static_cast<double>(batch * pixels);
  double sum = 0;
  double squares = 0;
  const auto for_each = [&](const auto &body) {
    for (int64_t n = 0; n < batch; ++n) {
      const C *from = x + (n * channels + channel) * pixels;
      for (int64_t i = 0; i < pixels; ++i) body(static_cast<double>(from[i]));
    }
  };
  for_each([&](double value) { sum += value; });
  const double mean = sum / count;
  for_each([&](double value) { squares += (value - mean) * (value - mean); });
  return {mean, squares / count};
}

// Updates a running mean or variance: running[channel] = (1 - momentum) * running[channel] + momentum * value.
void update(Tensor running, int64_t channel, double value, double momentum) {
  double old;
  char *address = running.data() + channel * running.stride(0) * item_size(running.type());
  load(running.type(), address, 0, 1, &old);
  old = (1 - momentum) * old + momentum * value;
  store(running.type(), address, 0, 1, &old);
}

// Returns t[i], or the default value if tensor t is absent.
double entry(Tensor t, int64_t i, double default_value) {
  if (t.t == nullptr) return default_value;
  double value;
  load(t.type(), t.data() + i * t.stride(0) * item_size(t.type()), 0, 1, &value);
  return value;
}

bool check_channels(Call &call, Tensor t, int64_t channels) {
  return call.check(t.t == nullptr || (t.ndim() == 1 && t.size(0) == channels && is_floating(t.type())),
                    "weight, bias and running statistics must be floating and have an entry for each channel");
}

// Normalizes `input`. `running` has two tensors, the running mean and variance, which training updates. If the module
// tracks no running statistics, Tensor::t of both is NULL.
template <class C>
void normalize(Call &call, Tensor input, Tensor weight, Tensor bias, const Tensor *running, bool training,
               double momentum, double eps, const Tensor *outs) {
  const int64_t batch = input.size(0);
  const int64_t channels = input.size(1);
  const int64_t pixels = batch * channels == 0 ? 0 : input.numel() / (batch * channels);
  if (!call.check(!training || batch * pixels > 0 || channels == 0, "the batch is empty")) return;
  const C *x = dense<C>(call, input);
  const DenseOut<C> result(call, outs[0]);
  const DenseOut<C> means(call, outs[1]);
  const DenseOut<C> rstds(call, outs[2]);
  if (call.failed()) return;
  call.parallel(channels, 16384 / (batch * pixels + 1) + 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t c = begin; c < end; ++c) {
      const Channel m =
          training ? moments(x, batch, channels, c, pixels) : Channel{entry(running[0], c, 0), entry(running[1], c, 1)};
      const double rstd = 1 / __builtin_sqrt(m.variance + eps);
      if (training) {
        means.data()[c] = static_cast<C>(m.mean);
        rstds.data()[c] = static_cast<C>(rstd);
      }
      const double scale = rstd * entry(weight, c, 1);
      const double offset = entry(bias, c, 0) - m.mean * scale;
      for (int64_t n = 0; n < batch; ++n) {
        const int64_t first = (n * channels + c) * pixels;
        for (int64_t i = 0; i < pixels; ++i) {
          result.data()[first + i] = static_cast<C>(static_cast<double>(x[first + i]) * scale + offset);
        }
      }
      if (!training || running[0].t == nullptr) continue;
      const double count = static_cast<double>(batch * pixels);
      update(running[0], c, m.mean, momentum);
      update(running[1], c, m.variance * count / (count - 1), momentum);
    }
  });
  result.finish(call);
  means.finish(call);
  rstds.finish(call);
}

// Checks the arguments of a call and normalizes. `running` has the running mean and variance, or two absent tensors.
// `training_index` is the index of the argument `training`, `outs_index` the index of the first output.
int32_t batch_norm(Call &call, const Tensor *running, uint64_t training_index, uint64_t outs_index) {
  const Tensor input = call.tensor(0);
  const Tensor weight = call.optional_tensor(1);
  const Tensor bias = call.optional_tensor(2);
  const double momentum = call.real(training_index + 1);
  const double eps = call.real(training_index + 2);
  const Tensor outs[3] = {call.tensor(outs_index), call.tensor(outs_index + 1), call.tensor(outs_index + 2)};
  if (!call.check(!call.failed() && input.ndim() >= 2 && is_floating(input.type()),
                  "the input must be floating and have at least two dims") ||
      !call.check(call.flag(training_index) || running[0].t != nullptr,
                  "without running statistics, training must be true") ||
      !check_channels(call, weight, input.size(1)) || !check_channels(call, bias, input.size(1)) ||
      !check_channels(call, running[0], input.size(1)) || !check_channels(call, running[1], input.size(1))) {
    return call.status();
  }
  const bool training = call.flag(training_index);
  Shape channels;
  // only training saves the mean and the inverse deviation; inference leaves them empty
  channels.push(training ? input.size(1) : 0);
  if (!call.resize(outs[0], input.shape()) || !call.resize(outs[1], channels, "save_mean") ||
      !call.resize(outs[2], channels, "save_invstd")) {
    return call.status();
  }
  for (int i = 0; i < 2; ++i) {
    if (training && running[i].t != nullptr && !call.resize(running[i], channels, "a running statistic"))
      return call.status();
  }
  with_floating_compute(input.type(), [&](auto c) {
    normalize<decltype(c)>(call, input, weight, bias, running, training, momentum, eps, outs);
  });
  return call.status();
}

}  // namespace

int32_t native_batch_norm_legit_out(const edgecore_call *raw) {
  Call call(raw, "aten::_native_batch_norm_legit.out");
  const Tensor running[2] = {call.tensor(3), call.tensor(4)};
  return batch_norm(call, running, 5, 8);
}

int32_t native_batch_norm_legit_no_stats_out(const edgecore_call *raw) {
  Call call(raw, "aten::_native_batch_norm_legit.no_stats_out");
  const Tensor running[2] = {};
  return batch_norm(call, running, 3, 6);
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
