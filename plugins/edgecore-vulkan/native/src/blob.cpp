#include "blob.h"

#include <algorithm>
#include <cstring>

#include "ops/aliases.h"
#include "vulkan_generated.h"

namespace edgecore::vulkan {

using backend::damaged;
using backend::fail;

namespace {

// ExecuTorch's header of a Vulkan blob, little endian: u32 0, "VH00", u16 header length, u32 offset and u32 size of the
// flatbuffer, u32 offset and u64 size of the constants.
constexpr char kMagic[] = "VH00";
constexpr uint64_t kHeaderSize = 30;
// The value of VkBytes.offset for a constant that is named data of the .pte file.
constexpr uint64_t kNamedOffset = UINT64_MAX;
constexpr int64_t kMaxElements = int64_t{1} << 31;

struct Sections {
  edgecore_bytes flatbuffer;
  edgecore_bytes constants;
};

edgecore_bytes section(edgecore_bytes whole, const char *name, uint64_t offset, uint64_t size) {
  if (offset > whole.size || size > whole.size - offset) {
    damaged("its %s (offset %llu, %llu bytes) is not in its %llu bytes", name, static_cast<unsigned long long>(offset),
            static_cast<unsigned long long>(size), static_cast<unsigned long long>(whole.size));
  }
  return {size == 0 ? nullptr : whole.data + offset, size};
}

Sections split(edgecore_bytes blob) {
  backend::ByteReader reader(blob);
  reader.take(4);
  if (std::memcmp(reader.take(4), kMagic, 4) != 0) damaged("it does not start with the header VH00");
  if (reader.number<uint16_t>() < kHeaderSize) damaged("its VH00 header is too short");
  const uint32_t offset = reader.u32(), size = reader.u32(), constant_offset = reader.u32();
  const auto constant_size = reader.number<uint64_t>();
  return {section(blob, "flatbuffer", offset, size), section(blob, "constants", constant_offset, constant_size)};
}

DataType data_type(wire::VkDataType type, size_t index) {
  if (static_cast<int>(type) < 0 || static_cast<int>(type) > static_cast<int>(DataType::kInt64)) {
    damaged("value %zu has the data type %d", index, static_cast<int>(type));
  }
  return static_cast<DataType>(type);
}

// Returns true if a memory layout of ExecuTorch's Vulkan tensors packs elements of several channels together.
bool packs_channels(wire::VkMemoryLayout layout) {
  switch (layout) {
    case wire::VkMemoryLayout::TENSOR_CHANNELS_PACKED:
    case wire::VkMemoryLayout::PACKED_INT8_4W4C:
    case wire::VkMemoryLayout::PACKED_INT8_4C:
    case wire::VkMemoryLayout::PACKED_INT8_4C1W:
    case wire::VkMemoryLayout::PACKED_INT8_CONV2D:
      return true;
    default:
      return false;
  }
}

void read_tensor(const wire::VkTensor &table, size_t index, Value *value) {
  value->kind = Kind::kTensor;
  value->type = data_type(table.datatype(), index);
  value->staging =
      table.staging_datatype() == wire::VkDataType::UNSET ? value->type : data_type(table.staging_datatype(), index);
  value->constant = table.constant_id() < 0 ? -1 : table.constant_id();
  if (table.dims() != nullptr) value->shape.assign(table.dims()->begin(), table.dims()->end());
  if (value->shape.size() > kMaxRank) damaged("value %zu has %zu dims", index, value->shape.size());
  int64_t elements = 1;
  for (const int64_t size : value->shape) {
    if (size != 0 && elements >= kMaxElements / size) damaged("value %zu has too many elements", index);
    elements *= size;
  }
  const bool has_channels = value->shape.size() == 3 || value->shape.size() == 4;
  if (has_channels && packs_channels(table.memory_layout()) && value->constant < 0) {
    value->layout = Layout::kChannelsLast;
  }
}

template <typename List>
void copy(const List *from, std::vector<int64_t> *to) {
  if (from != nullptr) to->assign(from->begin(), from->end());
}

Value read_value(const wire::VkValue *table, size_t index) {
  Value value;
  if (table->value() == nullptr) {
    if (table->value_type() != wire::GraphTypes::NONE) damaged("value %zu is absent", index);
    return value;
  }
  switch (table->value_type()) {
    case wire::GraphTypes::NONE:
    case wire::GraphTypes::Null:
      break;
    case wire::GraphTypes::Int:
      value.kind = Kind::kInt;
      value.integer = table->value_as_Int()->int_val();
      break;
    case wire::GraphTypes::Double:
      value.kind = Kind::kDouble;
      value.number = table->value_as_Double()->double_val();
      break;
    case wire::GraphTypes::Bool:
      value.kind = Kind::kBool;
      value.integer = table->value_as_Bool()->bool_val() ? 1 : 0;
      break;
    case wire::GraphTypes::VkTensor:
      read_tensor(*table->value_as_VkTensor(), index, &value);
      break;
    case wire::GraphTypes::IntList:
      value.kind = Kind::kIntList;
      copy(table->value_as_IntList()->items(), &value.integers);
      break;
    case wire::GraphTypes::DoubleList:
      value.kind = Kind::kDoubleList;
      if (const auto *items = table->value_as_DoubleList()->items()) value.numbers.assign(items->begin(), items->end());
      break;
    case wire::GraphTypes::BoolList:
      value.kind = Kind::kBoolList;
      copy(table->value_as_BoolList()->items(), &value.integers);
      break;
    case wire::GraphTypes::ValueList:
      value.kind = Kind::kValueList;
      copy(table->value_as_ValueList()->items(), &value.integers);
      break;
    case wire::GraphTypes::String:
      value.kind = Kind::kString;
      if (const auto *text = table->value_as_String()->string_val()) value.text = text->str();
      break;
    case wire::GraphTypes::SymInt:
      value.kind = Kind::kSymInt;
      value.integer = table->value_as_SymInt()->value();
      break;
    default:
      damaged("value %zu is of kind %d, which this version does not know", index,
              static_cast<int>(table->value_type()));
  }
  return value;
}

Constant read_constant(const wire::VkBytes &table, edgecore_bytes constants, const backend::Host &host) {
  Constant constant;
  if (table.offset() == kNamedOffset) {
    if (table.named_key() != nullptr) constant.key = table.named_key()->str();
    constant.bytes = host.named_data(constant.key);
    if (constant.bytes.size != table.length()) {
      damaged("its constant '%s' has %llu bytes, and the file stores %llu", constant.key.c_str(),
              static_cast<unsigned long long>(table.length()), static_cast<unsigned long long>(constant.bytes.size));
    }
  } else {
    constant.bytes = section(constants, "constant", table.offset(), table.length());
  }
  return constant;
}

// Checks that a graph's indices of values and constants are in bounds.
void check(const Graph &graph) {
  const auto check_value = [&](int64_t number) {
    if (number < 0 || number >= static_cast<int64_t>(graph.values.size())) {
      damaged("it names value %lld, and has %zu values", static_cast<long long>(number), graph.values.size());
    }
  };
  for (const Value &value : graph.values) {
    if (value.kind == Kind::kValueList) std::for_each(value.integers.begin(), value.integers.end(), check_value);
    if (value.kind != Kind::kTensor || value.constant < 0) continue;
    if (static_cast<size_t>(value.constant) >= graph.constants.size()) {
      damaged("it names constant %d, and has %zu constants", value.constant, graph.constants.size());
    }
    const uint64_t bytes = static_cast<uint64_t>(count(value.shape)) * size_of(value.type);
    const uint64_t stored = graph.constants[static_cast<size_t>(value.constant)].bytes.size;
    if (stored < bytes) {
      damaged("constant %d has %llu bytes, and its tensor %llu", value.constant,
              static_cast<unsigned long long>(stored), static_cast<unsigned long long>(bytes));
    }
  }
  for (const OperatorCall &call : graph.calls) std::for_each(call.args.begin(), call.args.end(), check_value);
  for (const std::vector<uint32_t> *list : {&graph.inputs, &graph.outputs}) {
    for (const uint32_t number : *list) {
      check_value(number);
      const Kind kind = graph.values[number].kind;
      if (kind != Kind::kTensor && kind != Kind::kSymInt) damaged("value %u is an argument, and no tensor", number);
    }
  }
}

}  // namespace

uint64_t size_of(DataType type) {
  switch (type) {
    case DataType::kBool:
    case DataType::kUint8:
    case DataType::kInt8:
      return 1;
    case DataType::kFloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kFloat32:
      return 4;
    case DataType::kFloat64:
    case DataType::kInt64:
      return 8;
  }
  return 0;
}

Graph read_blob(edgecore_bytes blob, const backend::Host &host) {
  const Sections sections = split(blob);
  // Copy the flatbuffer: the copy is aligned, and no other code can change it after its verification.
  const edgecore_bytes flatbuffer = sections.flatbuffer;
  if (flatbuffer.size < 8 || flatbuffer.size > FLATBUFFERS_MAX_BUFFER_SIZE) {
    damaged("its flatbuffer of %llu bytes is too small or too large", static_cast<unsigned long long>(flatbuffer.size));
  }
  std::vector<uint64_t> aligned((flatbuffer.size + 7) / 8);
  std::memcpy(aligned.data(), flatbuffer.data, flatbuffer.size);
  const auto *bytes = reinterpret_cast<const uint8_t *>(aligned.data());
  if (!wire::VkGraphBufferHasIdentifier(bytes)) damaged("its flatbuffer has no identifier VK00");
  // Limit the number of tables: in a crafted blob many tables may share a vector, which makes verification slow.
  flatbuffers::Verifier verifier(bytes, flatbuffer.size, 16, 1u << 20);
  if (!wire::VerifyVkGraphBuffer(verifier)) damaged("its flatbuffer is malformed");
  const wire::VkGraph &root = *wire::GetVkGraph(bytes);

  Graph graph;
  if (const auto *values = root.values()) {
    graph.values.reserve(values->size());
    for (size_t i = 0; i < values->size(); ++i) {
      graph.values.push_back(read_value(values->Get(static_cast<flatbuffers::uoffset_t>(i)), i));
    }
  }
  if (const auto *chain = root.chain()) {
    graph.calls.reserve(chain->size());
    for (const wire::OperatorCall *table : *chain) {
      OperatorCall call;
      call.node_id = table->node_id();
      if (table->name() != nullptr) call.name = table->name()->str();
      if (table->args() != nullptr) call.args.assign(table->args()->begin(), table->args()->end());
      graph.calls.push_back(std::move(call));
    }
  }
  if (root.constants() != nullptr) {
    for (const wire::VkBytes *table : *root.constants()) {
      graph.constants.push_back(read_constant(*table, sections.constants, host));
    }
  }
  if (root.input_ids() != nullptr) graph.inputs.assign(root.input_ids()->begin(), root.input_ids()->end());
  if (root.output_ids() != nullptr) graph.outputs.assign(root.output_ids()->begin(), root.output_ids()->end());
  check(graph);
  replace_aliases(&graph);
  return graph;
}

}  // namespace edgecore::vulkan
