#include "watch.h"

#include "nodes.h"
#include "scalar_types.h"

namespace edgecore::xnnpack {

namespace {

template <typename Integer>
std::vector<float> dequantize(const Value &value, const void *data, size_t count) {
  const auto *integers = static_cast<const Integer *>(data);
  const Quantization &q = value.quantization;
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(integers[i] - q.zero_point) * q.scale;
  return numbers;
}

bool is_reportable(Type type) { return is_float(type) || is_quantized8(type) || type == Type::kInt32; }

}  // namespace

std::vector<uint32_t> watched_values(const Graph &graph) {
  std::vector<uint32_t> watched;
  for (const Node &node : graph.nodes) {
    for (uint32_t value : node.out) {
      if (value == kNone || graph.values[value].role != Role::kInternal) continue;
      if (is_reportable(graph.values[value].type)) watched.push_back(value);
    }
  }
  return watched;
}

void report_value(const backend::Host &host, const Node &node, const Value &value, const Shape &shape,
                  const void *data) {
  const std::vector<int64_t> sizes = sizes_of(shape);
  const auto count = static_cast<size_t>(element_count(shape));
  const auto add = [&](int32_t scalar_type, uint8_t code, uint8_t bits, const void *numbers) {
    host.add_value(node.kind->name, node.debug_id, scalar_type, code, bits, sizes, numbers);
  };
  switch (value.type) {
    case Type::kFp32:
      return add(kFloat, EDGECORE_DL_FLOAT, 32, data);
    case Type::kFp16:
      return add(kHalf, EDGECORE_DL_FLOAT, 16, data);
    case Type::kInt32:
      return add(kInt, EDGECORE_DL_INT, 32, data);
    case Type::kQint8:
      return add(kFloat, EDGECORE_DL_FLOAT, 32, dequantize<int8_t>(value, data, count).data());
    case Type::kQuint8:
      return add(kFloat, EDGECORE_DL_FLOAT, 32, dequantize<uint8_t>(value, data, count).data());
    default:
      return;
  }
}

}  // namespace edgecore::xnnpack
