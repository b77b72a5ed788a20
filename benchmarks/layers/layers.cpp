// Times single convolution and linear layers through XNNPACK's subgraph API, driven by run.py over stdin.
//
//   layers THREADS
//   stdin:  "DTYPE KIND SIZE IN OUT KERNEL STRIDE ACTIVATION" makes a layer: DTYPE f32 or int8, KIND conv, dwconv or
//           linear, SIZE the input's height and width; padding is KERNEL / 2. The answer is the layer's number, from 0.
//           "run LAYER COUNT" answers with COUNT times in microseconds, on one line.
// int8 is qint8 activations with one scale, qcint8 weights with a scale per output channel, and qcint32 bias.

#include <pthreadpool.h>
#include <xnnpack.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr float kInputScale = 0.02f, kWeightScale = 0.005f, kOutputScale = 0.05f;

[[noreturn]] void Fail(const std::string &message) {
  std::cerr << "layers: " << message << '\n';
  std::exit(1);
}

void Check(xnn_status status, const char *call) {
  if (status != xnn_status_success) Fail(std::string(call) + " failed with status " + std::to_string(status));
}

struct Spec {
  std::string dtype, kind;
  size_t size, in, out;
  uint32_t kernel, stride;
  std::string activation;

  bool Quantized() const { return dtype == "int8"; }
  bool Depthwise() const { return kind == "dwconv"; }
  bool Linear() const { return kind == "linear"; }
  size_t OutputSize() const { return (size + 2 * (kernel / 2) - kernel) / stride + 1; }
};

size_t Product(const std::vector<size_t> &dims) {
  size_t product = 1;
  for (size_t dim : dims) product *= dim;
  return product;
}

// A tensor's bytes; XNNPACK may read XNN_EXTRA_BYTES past the end.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes) : bytes_(bytes + XNN_EXTRA_BYTES) {}

  template <typename T, typename Draw>
  static Buffer Random(size_t count, Draw draw) {
    Buffer buffer(count * sizeof(T));
    for (size_t i = 0; i < count; ++i) reinterpret_cast<T *>(buffer.data())[i] = static_cast<T>(draw());
    return buffer;
  }

  void *data() { return bytes_.data(); }

 private:
  std::vector<char> bytes_;
};

class Layer {
 public:
  Layer(const Spec &spec, pthreadpool_t pool) : spec_(spec) {
    std::vector<size_t> input = {1, spec.size, spec.size, spec.in};
    std::vector<size_t> output = {1, spec.OutputSize(), spec.OutputSize(), spec.out};
    std::vector<size_t> filter = {spec.out, spec.kernel, spec.kernel, spec.in};
    if (spec.Depthwise()) filter = {1, spec.kernel, spec.kernel, spec.out};
    if (spec.Linear()) {
      input = {1, spec.in};
      output = {1, spec.out};
      filter = {spec.out, spec.in};
    }
    MakeData(Product(input), Product(output), Product(filter));

    xnn_subgraph_t subgraph = nullptr;
    Check(xnn_create_subgraph(2, 0, &subgraph), "xnn_create_subgraph");
    const uint32_t input_id =
        Value(subgraph, input, xnn_datatype_qint8, kInputScale, nullptr, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT);
    const uint32_t output_id =
        Value(subgraph, output, xnn_datatype_qint8, kOutputScale, nullptr, 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT);
    const uint32_t filter_id =
        Constant(subgraph, filter, xnn_datatype_qcint8, filter_scales_, spec.Depthwise() ? 3 : 0, filter_.data());
    const uint32_t bias_id = Constant(subgraph, {spec.out}, xnn_datatype_qcint32, bias_scales_, 0, bias_.data());
    Define(subgraph, input_id, filter_id, bias_id, output_id);
    Check(xnn_create_runtime_v4(subgraph, nullptr, nullptr, pool, 0, &runtime_), "xnn_create_runtime_v4");
    xnn_delete_subgraph(subgraph);
    Check(xnn_reshape_runtime(runtime_), "xnn_reshape_runtime");
    const xnn_external_value values[] = {{0, input_.data()}, {1, output_.data()}};
    Check(xnn_setup_runtime_v2(runtime_, 2, values), "xnn_setup_runtime_v2");
  }
  Layer(const Layer &) = delete;
  Layer &operator=(const Layer &) = delete;
  ~Layer() { xnn_delete_runtime(runtime_); }

  double RunMicroseconds() {
    const auto start = std::chrono::steady_clock::now();
    const xnn_status status = xnn_invoke_runtime(runtime_);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    Check(status, "xnn_invoke_runtime");
    return time.count();
  }

 private:
  void MakeData(size_t inputs, size_t outputs, size_t weights) {
    std::mt19937 engine(7);
    std::uniform_real_distribution<float> real(-0.5f, 0.5f);
    std::uniform_int_distribution<int> small(-127, 127);
    const auto draw_real = [&] { return real(engine); };
    const auto draw_int = [&] { return small(engine); };
    if (spec_.Quantized()) {
      input_ = Buffer::Random<int8_t>(inputs, draw_int);
      filter_ = Buffer::Random<int8_t>(weights, draw_int);
      bias_ = Buffer::Random<int32_t>(spec_.out, draw_int);
      output_ = Buffer(outputs);
      for (size_t i = 0; i < spec_.out; ++i) {
        filter_scales_.push_back(kWeightScale * (1.0f + 0.5f * real(engine)));
        bias_scales_.push_back(filter_scales_.back() * kInputScale);
      }
    } else {
      input_ = Buffer::Random<float>(inputs, draw_real);
      filter_ = Buffer::Random<float>(weights, draw_real);
      bias_ = Buffer::Random<float>(spec_.out, draw_real);
      output_ = Buffer(outputs * sizeof(float));
    }
  }

  uint32_t Value(xnn_subgraph_t subgraph, const std::vector<size_t> &dims, xnn_datatype quantized, float scale,
                 const void *data, uint32_t external, uint32_t flags) const {
    uint32_t id = XNN_INVALID_VALUE_ID;
    if (spec_.Quantized()) {
      Check(xnn_define_quantized_tensor_value(subgraph, quantized, 0, scale, dims.size(), dims.data(), data, external,
                                              flags, &id),
            "xnn_define_quantized_tensor_value");
    } else {
      Check(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, dims.size(), dims.data(), data, external, flags, &id),
            "xnn_define_tensor_value");
    }
    return id;
  }

  uint32_t Constant(xnn_subgraph_t subgraph, const std::vector<size_t> &dims, xnn_datatype quantized,
                    const std::vector<float> &scales, size_t channel_dim, const void *data) const {
    if (!spec_.Quantized()) return Value(subgraph, dims, quantized, 0, data, XNN_INVALID_VALUE_ID, 0);
    uint32_t id = XNN_INVALID_VALUE_ID;
    Check(xnn_define_channelwise_quantized_tensor_value(subgraph, quantized, scales.data(), dims.size(), channel_dim,
                                                        dims.data(), data, XNN_INVALID_VALUE_ID, 0, &id),
          "xnn_define_channelwise_quantized_tensor_value");
    return id;
  }

  void Define(xnn_subgraph_t subgraph, uint32_t input, uint32_t filter, uint32_t bias, uint32_t output) const {
    const float infinity = std::numeric_limits<float>::infinity();
    const float low = spec_.activation == "none" ? -infinity : 0.0f;
    const float high = spec_.activation == "relu6" ? 6.0f : infinity;
    const uint32_t k = spec_.kernel, pad = k / 2, stride = spec_.stride;
    if (spec_.Linear()) {
      Check(xnn_define_fully_connected(subgraph, low, high, input, filter, bias, output, 0),
            "xnn_define_fully_connected");
    } else if (spec_.Depthwise()) {
      Check(xnn_define_depthwise_convolution_2d(subgraph, pad, pad, pad, pad, k, k, stride, stride, 1, 1, 1, spec_.in,
                                                low, high, input, filter, bias, output, 0),
            "xnn_define_depthwise_convolution_2d");
    } else {
      Check(xnn_define_convolution_2d(subgraph, pad, pad, pad, pad, k, k, stride, stride, 1, 1, 1, spec_.in, spec_.out,
                                      low, high, input, filter, bias, output, 0),
            "xnn_define_convolution_2d");
    }
  }

  Spec spec_;
  Buffer input_, output_, filter_, bias_;
  std::vector<float> filter_scales_, bias_scales_;
  xnn_runtime_t runtime_ = nullptr;
};

}  // namespace

int main(int argc, char **argv) {
  const int threads = argc == 2 ? std::atoi(argv[1]) : 0;
  if (threads < 1) Fail("usage: layers THREADS");
  Check(xnn_initialize(nullptr), "xnn_initialize");
  pthreadpool_t pool = threads == 1 ? nullptr : pthreadpool_create(static_cast<size_t>(threads));
  std::vector<std::unique_ptr<Layer>> layers;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "run") {
      size_t layer = 0, count = 0;
      words >> layer >> count;
      if (!words || layer >= layers.size()) Fail("bad command: " + line);
      std::vector<double> times;
      for (size_t i = 0; i < count; ++i) times.push_back(layers[layer]->RunMicroseconds());
      for (double time : times) std::cout << time << ' ';
    } else {
      Spec spec;
      spec.dtype = first;
      words >> spec.kind >> spec.size >> spec.in >> spec.out >> spec.kernel >> spec.stride >> spec.activation;
      if (!words) Fail("bad layer: " + line);
      std::cout << layers.size();
      layers.push_back(std::make_unique<Layer>(spec, pool));
    }
    std::cout << std::endl;
  }
  return 0;
}
