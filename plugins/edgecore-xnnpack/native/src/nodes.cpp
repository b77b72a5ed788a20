#include "nodes.h"

#include <cmath>

namespace edgecore::xnnpack {

namespace {

constexpr size_t kKinds = 48;

struct Index {
  const NodeKind *by_id[kKinds] = {};

  Index() {
    for (KindList list :
         {UnaryKinds(), BinaryKinds(), ConvolutionKinds(), PoolingKinds(), MatrixKinds(), MovementKinds()}) {
      for (size_t i = 0; i < list.count; ++i) by_id[list.items[i].id] = &list.items[i];
    }
  }
};

}  // namespace

const NodeKind *FindNodeKind(uint8_t id) {
  static const Index index;
  return id < kKinds ? index.by_id[id] : nullptr;
}

bool Refuse(const Node &node, Failure *failure, const char *format, ...) {
  const int used = std::snprintf(failure->text, sizeof(failure->text), "node %u (%s): ", node.index, node.kind->name);
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(failure->text + used, sizeof(failure->text) - static_cast<size_t>(used), format, arguments);
  va_end(arguments);
  failure->code = EDGECORE_INVALID_PROGRAM;
  return false;
}

bool SameType(const Graph &graph, const Node &node, Failure *failure) {
  const Type type = Out(graph, node).type;
  for (uint32_t i = 0; i < node.input_count; ++i) {
    if (In(graph, node, i).type != type) {
      return Refuse(node, failure, "input %u is %s and the output %s; they must be the same", i,
                    TypeName(In(graph, node, i).type), TypeName(type));
    }
  }
  return true;
}

bool SameQuantization(const Graph &graph, const Node &node, Failure *failure) {
  const Value &output = Out(graph, node);
  if (!IsQuantized8(output.type)) return true;
  for (uint32_t i = 0; i < node.input_count; ++i) {
    const Quantization &q = In(graph, node, i).quantization;
    if (q.scale != output.quantization.scale || q.zero_point != output.quantization.zero_point) {
      return Refuse(node, failure, "scale and zero point of input %u (%g, %d) and output (%g, %d) must be the same", i,
                    static_cast<double>(q.scale), q.zero_point, static_cast<double>(output.quantization.scale),
                    output.quantization.zero_point);
    }
  }
  return true;
}

bool OutputRange(const Node &node, Failure *failure) {
  if (std::isnan(node.min) || std::isnan(node.max) || node.min > node.max) {
    return Refuse(node, failure, "output range [%g, %g] is empty or not a number", static_cast<double>(node.min),
                  static_cast<double>(node.max));
  }
  return true;
}

bool DataMovement(const Graph &graph, const Node &node, Failure *failure) {
  const Type type = Out(graph, node).type;
  if (!IsFloat(type) && !IsQuantized8(type)) return Refuse(node, failure, "does not take %s", TypeName(type));
  return SameType(graph, node, failure) && SameQuantization(graph, node, failure);
}

bool Relabel(const Graph &graph, const Node &node, Failure *failure) {
  const bool indices = Out(graph, node).type == Type::kInt32;
  return indices ? SameType(graph, node, failure) : DataMovement(graph, node, failure);
}

bool FilterScales(const Graph &graph, const Node &node, uint64_t channels, Failure *failure) {
  const Value &input = In(graph, node, 0);
  const Quantization &filter = In(graph, node, 1).quantization;
  if (In(graph, node, 1).type == Type::kQint8 && filter.zero_point != 0) {
    return Refuse(node, failure, "a qint8 filter's zero point must be 0, not %d", filter.zero_point);
  }
  if (!IsQuantized8(input.type)) return true;
  const float outer = input.quantization.scale / Out(graph, node).quantization.scale;
  for (uint64_t i = 0; i < (filter.scales == nullptr ? 1 : channels); ++i) {
    const float scale = outer * (filter.scales == nullptr ? filter.scale : filter.scales[i]);
    if (!(scale >= 0x1.0p-32f && scale < 256.0f)) {
      return Refuse(node, failure, "requantisation scale %g is outside 2^-32 .. 2^8", static_cast<double>(scale));
    }
  }
  return true;
}

bool RowParameters(const Graph &graph, const Node &node, uint32_t dims, Failure *failure) {
  const Value &input = In(graph, node, 0);
  if (input.type != Type::kQdint8 || input.quantization.nonbatch_dims == dims) return true;
  return Refuse(node, failure, "the input's quantisation parameters cover %u trailing dims instead of %u",
                input.quantization.nonbatch_dims, dims);
}

bool InferSame(const Graph &, const Node &node, Shape *shapes, Failure *) {
  shapes[node.out[0]] = shapes[node.in[0]];
  return true;
}

}  // namespace edgecore::xnnpack
