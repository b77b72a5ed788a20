#include "tuning.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "commands.h"
#include "constants.h"
#include "pipeline_cache.h"
#include "recorder.h"

namespace edgecore::vulkan {

namespace {

// Builds a graph to measure: a chain of equal layers that is long enough to take more time than the start of a run.
class Layers {
 public:
  // Returns a chain of linear layers for `rows` rows, with `channels` inputs and outputs.
  static Graph linear(uint32_t rows, uint32_t channels) {
    Layers layers({rows, channels}, Layout::kRowMajor, {channels, channels});
    return layers.chain("aten.linear.default", {layers.weight_, layers.none_});
  }

  // Returns a chain of depthwise convolutions of square images with kernels of 3 x 3.
  static Graph depthwise(uint32_t channels, uint32_t size) {
    Layers layers({1, channels, size, size}, Layout::kChannelsLast, {channels, 1, 3, 3});
    const uint32_t one = layers.integers(Kind::kIntList, {1, 1}), zero = layers.integers(Kind::kIntList, {0, 0});
    return layers.chain("aten.convolution.default", {layers.weight_, layers.none_, one, one, one, layers.integer(0),
                                                     zero, layers.integer(channels)});
  }

 private:
  static constexpr size_t kLayers = 4;

  Layers(const Shape &shape, Layout layout, const Shape &weight_shape) {
    tensor_.kind = Kind::kTensor;
    tensor_.shape = shape;
    tensor_.layout = layout;
    none_ = add(Value());
    Value weight;
    weight.kind = Kind::kTensor;
    weight.shape = weight_shape;
    weight.constant = 0;
    weight_ = add(weight);
    static const std::vector<float> zeros(kMaxWeights);
    const auto *bytes = reinterpret_cast<const uint8_t *>(zeros.data());
    graph_.constants.push_back({{bytes, static_cast<uint64_t>(count(weight_shape)) * sizeof(float)}, ""});
  }

  uint32_t add(Value value) {
    graph_.values.push_back(std::move(value));
    return static_cast<uint32_t>(graph_.values.size() - 1);
  }
  uint32_t integer(int64_t number) {
    Value value;
    value.kind = Kind::kInt;
    value.integer = number;
    return add(value);
  }
  uint32_t integers(Kind kind, std::vector<int64_t> numbers) {
    Value value;
    value.kind = kind;
    value.integers = std::move(numbers);
    return add(value);
  }

  Graph chain(const char *name, const std::vector<uint32_t> &rest) {
    uint32_t last = add(tensor_);
    graph_.inputs = {last};
    for (size_t i = 0; i < kLayers; ++i) {
      OperatorCall call;
      call.name = name;
      call.args = {last};
      call.args.insert(call.args.end(), rest.begin(), rest.end());
      last = add(tensor_);
      call.args.push_back(last);
      graph_.calls.push_back(call);
    }
    graph_.outputs = {last};
    return std::move(graph_);
  }

  static constexpr size_t kMaxWeights = 256 * 256;
  Graph graph_;
  Value tensor_;
  uint32_t none_ = 0, weight_ = 0;
};

// Returns the minimum time, in seconds, of a few runs of a graph with one input and one output of the same shape.
double seconds_of(ShaderDevice &device, const Graph &graph) {
  constexpr int kMinRuns = 2, kMaxRuns = 10;
  constexpr double kEnough = 0.02;  // seconds
  constexpr uint64_t kTimeoutNs = 10'000'000'000;
  const Value &input = graph.values[graph.inputs[0]];
  Weights weights(device);
  const Recording recording =
      record(graph, device, weights, {}, {{Dtype::kFloat32, input.layout, input.shape}}, {input.layout}, {0});
  const uint64_t bytes = storage_bytes(Dtype::kFloat32, count(input.shape));
  const Buffer from = device.upload(bytes, [](uint8_t *) {}), to(device, bytes, false),
               arena(device, std::max<uint64_t>(recording.arena_bytes, 16), false);
  CommandPool pool(device);
  CommandCache cache(device, pool, false);
  const Commands &commands = cache.get(recording, arena.handle(), 1, {bytes, bytes},
                                       {{from.handle(), 0, VK_NULL_HANDLE}, {to.handle(), 0, VK_NULL_HANDLE}});
  double fastest = std::numeric_limits<double>::infinity(), sum = 0;
  for (int i = 0; i < kMinRuns || (i < kMaxRuns && sum < kEnough); ++i) {
    const auto start = std::chrono::steady_clock::now();
    device.submit(commands.handle, pool.fence());
    device.wait(pool.fence(), kTimeoutNs);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    fastest = std::min(fastest, taken.count());
    sum += taken.count();
  }
  return fastest;
}

// Returns the total time in seconds of a linear and a depthwise chain of layers, measured with a tuning.
double measure(ShaderDevice &device, const Tuning &tuning) {
  static const Graph linear = Layers::linear(256, 256), depthwise = Layers::depthwise(64, 56);
  device.set_tuning(tuning);
  return seconds_of(device, linear) + seconds_of(device, depthwise);
}

// Returns the fastest tuning; chooses one member after the other. A value replaces the default only if it is clearly
// faster, because the times of equally fast values differ by chance.
Tuning fastest_of(ShaderDevice &device) {
  constexpr double kClearly = 0.95;
  Tuning best;
  double seconds = measure(device, best);
  uint32_t Tuning::*const unused = device.prefers_texels() ? &Tuning::tiled_rows : &Tuning::gemm_rows;
  for (const Choice &choice : choices()) {
    if (choice.member == unused) continue;
    const uint32_t usual = best.*choice.member;
    for (const uint32_t value : choice.values) {
      if (value == usual) continue;
      Tuning tried = best;
      tried.*choice.member = value;
      const double taken = measure(device, tried);
      if (taken >= seconds * kClearly) continue;
      best = tried;
      seconds = taken;
    }
  }
  return best;
}

}  // namespace

const std::vector<Choice> &choices() {
  static const std::vector<Choice> all = {
      {&Tuning::group_threads, {32, 64, 128}}, {&Tuning::gemm_rows, {0, 8, 14, 16}}, {&Tuning::tiled_rows, {4, 8, 16}}};
  return all;
}

std::vector<uint8_t> to_bytes(const Tuning &tuning) {
  std::vector<uint8_t> bytes(sizeof(Tuning));
  std::memcpy(bytes.data(), &tuning, sizeof(Tuning));
  return bytes;
}

std::optional<Tuning> tuning_of(const std::vector<uint8_t> &bytes) {
  Tuning tuning;
  if (bytes.size() != sizeof(Tuning)) return std::nullopt;
  std::memcpy(&tuning, bytes.data(), sizeof(Tuning));
  for (const Choice &choice : choices()) {
    const auto &values = choice.values;
    if (std::find(values.begin(), values.end(), tuning.*choice.member) == values.end()) return std::nullopt;
  }
  return tuning;
}

void tune(ShaderDevice &device, const std::string &folder) {
  const PipelineCacheFile file(folder, device.properties(), device.prefers_texels() ? ".texel-tuning" : ".tuning");
  std::optional<Tuning> tuning = tuning_of(file.read());
  if (!tuning.has_value()) {
    tuning = fastest_of(device);
    file.write(to_bytes(*tuning));
  }
  device.set_tuning(*tuning);
}

}  // namespace edgecore::vulkan
