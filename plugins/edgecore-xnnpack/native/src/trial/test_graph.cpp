#include "trial/test_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "memory.h"

namespace edgecore::xnnpack::trial {

namespace {

constexpr uint32_t kMaxExternals = 8;
constexpr size_t kConstantPadding = 64;  // number of readable bytes after a constant, as in the delegate (kOverread)

size_t element_size(xnn_datatype type) {
  switch (type) {
    case xnn_datatype_fp32:
    case xnn_datatype_int32:
    case xnn_datatype_qint32:
    case xnn_datatype_qcint32:
      return 4;
    case xnn_datatype_fp16:
      return 2;
    default:
      return 1;
  }
}

float fp16_to_float(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const float fraction = static_cast<float>(bits & 1023);
  float magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  if (exponent == 31) magnitude = fraction == 0 ? INFINITY : NAN;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// Rounds to the nearest fp16, ties to even. Magnitudes from 65520 on, half a step above the maximum, become infinite.
uint16_t to_fp16(double number) {
  const uint16_t sign = std::signbit(number) ? 0x8000 : 0;
  const double magnitude = std::fabs(number);
  if (std::isnan(number)) return 0x7E00;
  if (magnitude >= 65520) return static_cast<uint16_t>(sign | 0x7C00);
  int exponent = 0;
  std::frexp(magnitude, &exponent);        // magnitude < 2^exponent
  exponent = std::max(exponent - 1, -14);  // exponent of the leading bit; -14 for denormals
  const double unit = std::ldexp(1.0, exponent - 10);
  // Add the exponent field: `steps` includes the leading bit 2^10 of a normal number, so exponent + 15 - 1 is added. If
  // rounding carries to 2^11, the addition increments the exponent field, which is correct.
  const auto steps = static_cast<uint32_t>(std::nearbyint(magnitude / unit));
  const uint32_t bits = steps + (static_cast<uint32_t>(exponent + 14) << 10);
  return static_cast<uint16_t>(sign | (magnitude == 0 ? 0 : bits));
}

template <typename T>
T load(const std::vector<uint8_t> &bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::vector<uint8_t> *bytes, size_t i, T value) {
  std::memcpy(bytes->data() + i * sizeof(T), &value, sizeof(T));
}

}  // namespace

size_t element_count(const Dims &dims) {
  size_t count = 1;
  for (size_t dim : dims) count *= dim;
  return count;
}

std::string shape_text(const Dims &dims) {
  std::string text = "[";
  for (size_t dim : dims) text += (text.size() > 1 ? "," : "") + std::to_string(dim);
  return text + "]";
}

double round_to_fp16(double number) { return static_cast<double>(fp16_to_float(to_fp16(number))); }

std::vector<double> Tensor::numbers() const {
  std::vector<double> numbers(element_count(dims));
  for (size_t i = 0; i < numbers.size(); ++i) {
    switch (type) {
      case xnn_datatype_fp32:
        numbers[i] = static_cast<double>(load<float>(bytes, i));
        break;
      case xnn_datatype_fp16:
        numbers[i] = static_cast<double>(fp16_to_float(load<uint16_t>(bytes, i)));
        break;
      case xnn_datatype_int32:
        numbers[i] = load<int32_t>(bytes, i);
        break;
      case xnn_datatype_qint8:
        numbers[i] = static_cast<double>(scale) * (load<int8_t>(bytes, i) - zero);
        break;
      default:
        numbers[i] = static_cast<double>(scale) * (bytes[i] - zero);
        break;
    }
  }
  return numbers;
}

void Tensor::set(const std::vector<double> &numbers) {
  bytes.resize(numbers.size() * element_size(type));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double steps = std::nearbyint(numbers[i] / static_cast<double>(scale)) + zero;
    switch (type) {
      case xnn_datatype_fp32:
        store(&bytes, i, static_cast<float>(numbers[i]));
        break;
      case xnn_datatype_fp16:
        store(&bytes, i, to_fp16(numbers[i]));
        break;
      case xnn_datatype_qint8:
        store(&bytes, i, static_cast<int8_t>(std::clamp(steps, -128.0, 127.0)));
        break;
      case xnn_datatype_quint8:
        store(&bytes, i, static_cast<uint8_t>(std::clamp(steps, 0.0, 255.0)));
        break;
      default:
        store(&bytes, i, static_cast<int32_t>(numbers[i]));
        break;
    }
  }
}

Tensor fp32_tensor(Dims dims) {
  Tensor tensor;
  tensor.dims = std::move(dims);
  return tensor;
}

Tensor fp16_tensor(Dims dims) {
  Tensor tensor = fp32_tensor(std::move(dims));
  tensor.type = xnn_datatype_fp16;
  return tensor;
}

Tensor quantized_tensor(xnn_datatype type, Dims dims, float scale, int32_t zero) {
  Tensor tensor = fp32_tensor(std::move(dims));
  tensor.type = type;
  tensor.scale = scale;
  tensor.zero = zero;
  return tensor;
}

TestGraph::TestGraph() { note(xnn_create_subgraph(kMaxExternals, 0, &subgraph_)); }

TestGraph::~TestGraph() {
  xnn_delete_runtime(runtime_);
  xnn_delete_subgraph(subgraph_);
}

void TestGraph::note(xnn_status status) {
  if (status_ == xnn_status_success) status_ = status;
}

uint32_t TestGraph::define(const Tensor &tensor, const void *data, uint32_t external, uint32_t flags) {
  uint32_t id = XNN_INVALID_VALUE_ID;
  if (status_ != xnn_status_success) return id;
  const size_t rank = tensor.dims.size();
  const size_t *dims = tensor.dims.data();
  switch (tensor.type) {
    case xnn_datatype_qint8:
    case xnn_datatype_quint8:
    case xnn_datatype_qint32:
      note(xnn_define_quantized_tensor_value(subgraph_, tensor.type, tensor.zero, tensor.scale, rank, dims, data,
                                             external, flags, &id));
      break;
    case xnn_datatype_qcint8:
    case xnn_datatype_qcint32:
    case xnn_datatype_qcint4:
      note(xnn_define_channelwise_quantized_tensor_value_v2(subgraph_, tensor.type, tensor.zero, tensor.scales.data(),
                                                            rank, tensor.channel_dim, dims, data, external, flags,
                                                            &id));
      break;
    case xnn_datatype_qbint4:
      note(xnn_define_blockwise_quantized_tensor_value(subgraph_, tensor.type, tensor.zero, tensor.block_scales.data(),
                                                       rank, tensor.channel_dim, tensor.block, dims, data, external,
                                                       flags, &id));
      break;
    case xnn_datatype_qdint8:
      note(xnn_define_dynamically_quantized_tensor_value(subgraph_, tensor.type, rank, tensor.nonbatch_dims, dims,
                                                         external, flags, &id));
      break;
    default:
      note(xnn_define_tensor_value(subgraph_, tensor.type, rank, dims, data, external, flags, &id));
      break;
  }
  return id;
}

uint32_t TestGraph::external(const Tensor &tensor, uint32_t flag, bool is_padded) {
  const auto external = static_cast<uint32_t>(arguments_.size());
  arguments_.push_back({flag == XNN_VALUE_FLAG_EXTERNAL_INPUT, is_padded, std::make_unique<GuardedMemory>()});
  return define(tensor, nullptr, external, flag);
}

uint32_t TestGraph::constant(const Tensor &tensor) {
  constants_.push_back(std::make_unique<GuardedMemory>());
  uint8_t *data = constants_.back()->allocate(tensor.bytes.size(), kConstantPadding, 4, false);
  if (data == nullptr) {
    note(xnn_status_out_of_memory);
    return XNN_INVALID_VALUE_ID;
  }
  std::memcpy(data, tensor.bytes.data(), tensor.bytes.size());
  return define(tensor, data, XNN_INVALID_VALUE_ID, 0);
}

bool TestGraph::build() {
  if (status_ == xnn_status_success) {
    const FillsNewMemory fills;
    note(xnn_create_runtime_v4(subgraph_, nullptr, nullptr, nullptr, 0, &runtime_));
  }
  return status_ == xnn_status_success;
}

bool TestGraph::run(const std::vector<const Tensor *> &inputs, const std::vector<Tensor *> &outputs) {
  const FillsNewMemory fills;
  at_start_ = !at_start_;
  std::vector<xnn_external_value> externals(arguments_.size());
  const auto set_address = [&](uint32_t i, size_t bytes, size_t alignment) {
    const size_t padding = arguments_[i].is_padded ? XNN_EXTRA_BYTES : 0;
    uint8_t *data = arguments_[i].memory->allocate(bytes, padding, alignment, at_start_);
    if (data == nullptr) note(xnn_status_out_of_memory);
    externals[i] = {i, data};
    return data;
  };
  size_t next = 0;
  for (uint32_t i = 0; i < arguments_.size(); ++i) {
    if (!arguments_[i].is_input) continue;
    const Tensor &tensor = *inputs[next++];
    note(xnn_reshape_external_value(runtime_, i, tensor.dims.size(), tensor.dims.data()));
    uint8_t *data = set_address(i, tensor.bytes.size(), element_size(tensor.type));
    if (data != nullptr) std::memcpy(data, tensor.bytes.data(), tensor.bytes.size());
  }
  if (status_ == xnn_status_success) note(xnn_reshape_runtime(runtime_));
  next = 0;
  for (uint32_t i = 0; i < arguments_.size() && status_ == xnn_status_success; ++i) {
    if (arguments_[i].is_input) continue;
    Tensor &tensor = *outputs[next++];
    size_t rank = 0, dims[XNN_MAX_TENSOR_DIMS];
    note(xnn_get_external_value_shape(runtime_, i, &rank, dims));
    tensor.dims.assign(dims, dims + rank);
    tensor.bytes.resize(element_count(tensor.dims) * element_size(tensor.type));
    set_address(i, tensor.bytes.size(), element_size(tensor.type));
  }
  if (status_ == xnn_status_success) {
    note(xnn_setup_runtime_v2(runtime_, externals.size(), externals.data()));
  }
  if (status_ == xnn_status_success) note(xnn_invoke_runtime(runtime_));
  next = 0;
  for (uint32_t i = 0; i < arguments_.size() && status_ == xnn_status_success; ++i) {
    if (arguments_[i].is_input) continue;
    Tensor &tensor = *outputs[next++];
    std::memcpy(tensor.bytes.data(), externals[i].data, tensor.bytes.size());
  }
  return status_ == xnn_status_success;
}

}  // namespace edgecore::xnnpack::trial
