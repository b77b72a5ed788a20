#include "context_model.h"

namespace edgecore::qnn {
namespace {

// IR version 10 and opset 21 of the ONNX model; ONNX 1.16 and later read them.
constexpr uint64_t kIrVersion = 10, kOpset = 21, kMicrosoftOpset = 1;
constexpr uint64_t kIntAttribute = 2, kStringAttribute = 3;  // INT and STRING of ONNX's AttributeProto.AttributeType

// A protobuf message, written field by field. At most one field contains the context binary. The function `bytes`
// copies the context binary only once, because it is large.
class Message {
 public:
  Message &add(uint32_t field, uint64_t number) {
    varint(uint64_t{field} << 3);
    varint(number);
    return *this;
  }
  Message &add(uint32_t field, std::string_view text) {
    start(field, text.size());
    end().append(text);
    return *this;
  }
  Message &add(uint32_t field, const Message &message) {
    start(field, message.size());
    end().append(message.head_);
    if (!message.context_.empty()) {
      context_ = message.context_;
      tail_ = message.tail_;
    }
    return *this;
  }
  Message &add_context(uint32_t field, std::string_view context) {
    start(field, context.size());
    context_ = context;
    return *this;
  }

  std::string bytes() const {
    std::string result;
    result.reserve(size());
    return result.append(head_).append(context_).append(tail_);
  }

 private:
  size_t size() const { return head_.size() + context_.size() + tail_.size(); }
  std::string &end() { return context_.empty() ? head_ : tail_; }
  void start(uint32_t field, size_t size) {
    varint(uint64_t{field} << 3 | 2);
    varint(size);
  }
  void varint(uint64_t number) {
    for (; number >= 0x80; number >>= 7) end().push_back(static_cast<char>(number | 0x80));
    end().push_back(static_cast<char>(number));
  }

  std::string head_, tail_;  // the bytes of the message before and after the context binary
  std::string_view context_;
};

// The functions below write messages of ONNX with field numbers from onnx.proto.

Message integer_attribute(std::string_view name, uint64_t value) {
  return Message().add(1, name).add(3, value).add(20, kIntAttribute);
}

Message text_attribute(std::string_view name, std::string_view value) {
  return Message().add(1, name).add(4, value).add(20, kStringAttribute);
}

Message context_attribute(edgecore_bytes context) {
  const std::string_view bytes(reinterpret_cast<const char *>(context.data), static_cast<size_t>(context.size));
  return Message().add(1, "ep_cache_context").add_context(4, bytes).add(20, kStringAttribute);
}

Message value_info(const Argument &argument) {
  Message shape;
  for (const int64_t size : argument.shape) shape.add(1, Message().add(1, static_cast<uint64_t>(size)));
  const Message tensor = Message().add(1, static_cast<uint64_t>(argument.type.onnx)).add(2, shape);
  return Message().add(1, argument.name).add(2, Message().add(1, tensor));
}

}  // namespace

std::string context_model(const Payload &payload) {
  Message node;
  for (const Argument &input : payload.inputs) node.add(1, input.name);
  for (const Argument &output : payload.outputs) node.add(2, output.name);
  node.add(3, payload.partition_name).add(4, "EPContext").add(7, "com.microsoft");
  node.add(5, integer_attribute("main_context", 1)).add(5, integer_attribute("embed_mode", 1));
  node.add(5, text_attribute("source", kProvider)).add(5, text_attribute("ep_sdk_version", payload.sdk_build));
  node.add(5, text_attribute("partition_name", payload.partition_name));
  node.add(5, context_attribute(payload.context));

  Message graph;
  graph.add(1, node).add(2, "edgecore");
  for (const Argument &input : payload.inputs) graph.add(11, value_info(input));
  for (const Argument &output : payload.outputs) graph.add(12, value_info(output));

  const auto opset = [](std::string_view domain, uint64_t version) { return Message().add(1, domain).add(2, version); };
  return Message()
      .add(1, kIrVersion)
      .add(7, graph)
      .add(8, opset("", kOpset))
      .add(8, opset("com.microsoft", kMicrosoftOpset))
      .bytes();
}

}  // namespace edgecore::qnn
