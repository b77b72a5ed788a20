#include "nodes.h"

#include <cmath>

namespace edgecore::xnnpack {

using backend::fail;

namespace {

constexpr size_t kKinds = 49;

struct Index {
  const NodeKind *by_id[kKinds] = {};

  Index() {
    for (KindList list : {unary_kinds(), binary_kinds(), convolution_kinds(), pooling_kinds(), matrix_kinds(),
                          movement_kinds(), cache_kinds()}) {
      for (size_t i = 0; i < list.count; ++i) by_id[list.items[i].id] = &list.items[i];
    }
  }
};

}  // namespace

const NodeKind *find_node_kind(uint8_t id) {
  static const Index index;
  return id < kKinds ? index.by_id[id] : nullptr;
}

void refuse(const Node &node, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = backend::format_text(format, arguments);
  va_end(arguments);
  fail(EDGECORE_INVALID_PROGRAM, "node %u (%s): %s", node.index, node.kind->name, text.c_str());
}

void check_same_type(const Graph &graph, const Node &node) {
  const Type type = output_value(graph, node).type;
  for (uint32_t i = 0; i < node.input_count; ++i) {
    if (input_value(graph, node, i).type != type) {
      refuse(node, "input %u is %s and the output %s; they must be the same", i,
             type_name(input_value(graph, node, i).type), type_name(type));
    }
  }
}

void check_same_quantization(const Graph &graph, const Node &node) {
  const Value &output = output_value(graph, node);
  if (!is_quantized8(output.type)) return;
  for (uint32_t i = 0; i < node.input_count; ++i) {
    const Quantization &q = input_value(graph, node, i).quantization;
    if (q.scale != output.quantization.scale || q.zero_point != output.quantization.zero_point) {
      refuse(node, "scale and zero point of input %u (%g, %d) and output (%g, %d) must be the same", i,
             static_cast<double>(q.scale), q.zero_point, static_cast<double>(output.quantization.scale),
             output.quantization.zero_point);
    }
  }
}

void check_output_range(const Node &node) {
  if (std::isnan(node.min) || std::isnan(node.max) || node.min > node.max) {
    refuse(node, "output range [%g, %g] is empty or not a number", static_cast<double>(node.min),
           static_cast<double>(node.max));
  }
}

void check_data_movement(const Graph &graph, const Node &node) {
  const Type type = output_value(graph, node).type;
  if (!is_float(type) && !is_quantized8(type)) refuse(node, "does not support %s", type_name(type));
  check_same_type(graph, node);
  check_same_quantization(graph, node);
}

void check_copy(const Graph &graph, const Node &node) {
  const bool indices = output_value(graph, node).type == Type::kInt32;
  if (indices) {
    check_same_type(graph, node);
  } else {
    check_data_movement(graph, node);
  }
}

void check_filter_scales(const Graph &graph, const Node &node, uint64_t channels) {
  const Value &input = input_value(graph, node, 0);
  const Quantization &filter = input_value(graph, node, 1).quantization;
  if (input_value(graph, node, 1).type == Type::kQint8 && filter.zero_point != 0) {
    refuse(node, "a qint8 filter's zero point must be 0, not %d", filter.zero_point);
  }
  if (!is_quantized8(input.type)) return;
  const float outer = input.quantization.scale / output_value(graph, node).quantization.scale;
  for (uint64_t i = 0; i < (filter.scales == nullptr ? 1 : channels); ++i) {
    const float scale = outer * (filter.scales == nullptr ? filter.scale : filter.scales[i]);
    if (!(scale >= 0x1.0p-32f && scale < 256.0f)) {
      refuse(node, "requantization scale %g is outside 2^-32 .. 2^8", static_cast<double>(scale));
    }
  }
}

void check_row_parameters(const Graph &graph, const Node &node, uint32_t dims) {
  const Value &input = input_value(graph, node, 0);
  if (input.type != Type::kQdint8 || input.quantization.nonbatch_dims == dims) return;
  refuse(node, "the input's quantization parameters cover %u trailing dims instead of %u",
         input.quantization.nonbatch_dims, dims);
}

void infer_same(const Graph &, const Node &node, Shape *shapes) { shapes[node.out[0]] = shapes[node.in[0]]; }

}  // namespace edgecore::xnnpack
