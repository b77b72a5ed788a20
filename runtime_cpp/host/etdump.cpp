#include "host/etdump.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "core/program_tables.h"
#include "etdump_generated.h"

namespace edgecore {
namespace {

namespace etd = fb::etdump;
using Text = flatbuffers::Offset<flatbuffers::String>;
using ValueTable = flatbuffers::Offset<etd::Value>;
using Metadata = flatbuffers::Offset<flatbuffers::Vector<uint8_t>>;

// Returns `text` as a JSON string, with quotes and escapes.
std::string quoted(const std::string &text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (byte < 0x20) {
      json += {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      json += c;
    }
  }
  return json + '"';
}

// Returns true if a dim order in the metadata lists each dim once. A vendor's compiler wrote the order, so it is
// checked.
bool is_permutation(const flatbuffers::Vector<uint8_t> *order) {
  uint64_t seen = 0;
  for (uint32_t i = 0; i < size_of(order); ++i) {
    if (order->Get(i) >= size_of(order) || order->Get(i) >= 64) return false;
    seen |= uint64_t{1} << order->Get(i);
  }
  return size_of(order) > 0 && size_of(order) <= 16 && seen + 1 == uint64_t{1} << size_of(order);
}

// Returns the key of an operation in Block::operations: debug events look up the operation's profile events by this
// key.
std::string key_of(int32_t instruction, const std::string &operation, int64_t id) {
  return std::to_string(instruction) + (id < 0 ? " " + operation : "[" + std::to_string(id) + "]");
}

// Returns the name of an operation in an ETDump: "Conv2d [5]" for operation "Conv2d: KERNEL" with number 5.
std::string shown_id(const std::string &operation, int64_t id) {
  if (id < 0) return operation;
  const std::string kind = operation.substr(0, operation.find(": "));
  return (kind.empty() ? "" : kind + " ") + "[" + std::to_string(id) + "]";
}

// Copies the elements of `from`, each of `item` bytes, to `to` in row-major order. `order` lists the dims of `from`
// from outermost to innermost in memory.
void copy_in_order(const Tensor &from, const std::vector<uint8_t> &order, size_t item, uint8_t *to) {
  std::vector<size_t> strides(order.size());  // stride in bytes, in `to`, of each dim of `from`
  for (size_t i = 0; i < order.size(); ++i) {
    strides[i] = item;
    for (size_t j = 0; j < order.size(); ++j) {
      if (order[j] > order[i]) strides[i] *= static_cast<size_t>(from.shape()[j]);
    }
  }
  std::vector<int64_t> index(order.size());
  const auto *data = static_cast<const uint8_t *>(from.data());
  for (size_t i = 0; i < from.count(); ++i) {
    size_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += static_cast<size_t>(index[d]) * strides[d];
    std::memcpy(to + offset, data + i * item, item);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == from.shape()[d];) index[d] = 0;
  }
}

class Writer {
 public:
  explicit Writer(std::vector<uint8_t> *buffer) : buffer_(buffer) {}

  std::vector<uint8_t> write(const std::vector<TracedMethod> &methods) {
    for (const TracedMethod &method : methods) add(method, methods.size() > 1 ? " " + method.name : "");
    builder_.FinishSizePrefixed(etd::CreateETDump(builder_, 0, builder_.CreateVector(blocks_)),
                                etd::ETDumpIdentifier());
    return {builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize()};
  }

 private:
  struct Block {
    std::vector<flatbuffers::Offset<etd::Event>> events = {};
    std::unordered_map<uint64_t, uint64_t> counts = {};  // number of events by name and instruction, for `distinct`
    std::unordered_map<std::string, std::vector<Text>> operations = {};  // event ids by operation (key_of)
    int32_t input_index = -1;
  };

  // Converts the trace of a method to blocks of the ETDump, and appends `suffix` to the names of the blocks.
  void add(const TracedMethod &method, const std::string &suffix) {
    const Trace &trace = *method.trace;
    Block preparation;  // block of the events of loading, and of backends' prepare calls during runs
    for (const TraceEvent &event : trace.load_events()) convert(method, event, -1, {}, preparation);
    const size_t first = first_of(trace);
    if (first > 0 || trace.dropped() > 0) {
      const std::string text = std::to_string(trace.dropped() + first) + " events were dropped";
      add_event(preparation, text, -1, {}, {}, {});
    }
    if (method.values != nullptr && method.values->missing() > 0) {
      const std::string text = std::to_string(method.values->missing()) + " values were not recorded";
      add_event(preparation, text, -1, {}, {}, {});
    }
    const size_t place = blocks_.size();  // index in blocks_ where `preparation` goes, before the runs
    Block run;
    // number of the run to which the next event belongs, counted from 1 as by ValueRecorder
    uint64_t number = trace.runs();
    for (size_t i = first; i < trace.size(); ++i) number -= trace[i].kind == static_cast<uint32_t>(TraceKind::kExecute);
    uint64_t prepared = 0;  // end time of the run's last prepare event
    for (size_t i = first; i < trace.size(); ++i) {
      const TraceEvent &event = trace[i];
      const auto kind = static_cast<TraceKind>(event.kind);
      const Metadata metadata = i < method.metadata.size() ? json(method.metadata[i]) : Metadata();
      if (kind == TraceKind::kExecute) {
        add_values(method, number++, run);
        add_block("Execute" + suffix, run);
        prepared = 0;  // forget the end time of the last prepare: a device's 32-bit clock may have wrapped around
      }
      if (kind == TraceKind::kPrepare) prepared = event.end;
      if (kind == TraceKind::kPrepare || event.begin < prepared) {
        convert(method, event, -1, metadata, preparation);
      } else {
        convert(method, event, static_cast<int32_t>(event.instruction), metadata, run);
      }
    }
    add_values(method, number, run);
    add_block("Execute" + suffix, run);
    const size_t end = blocks_.size();
    tables_.clear();
    add_block("Default" + suffix, preparation);
    const auto at = [&](size_t index) { return blocks_.begin() + static_cast<std::ptrdiff_t>(index); };
    std::rotate(at(place), at(end), blocks_.end());
  }

  // Returns the index of the first run whose start is recorded (older events may be dropped); 0 if there is none.
  static size_t first_of(const Trace &trace) {
    if (trace.dropped() == 0) return 0;
    for (size_t i = 0; i < trace.size(); ++i) {
      if (trace[i].kind == static_cast<uint32_t>(TraceKind::kExecute)) return i;
    }
    return 0;
  }

  // Adds a block to the ETDump if it has events, and clears `block`.
  void add_block(const std::string &name, Block &block) {
    if (!block.events.empty()) {
      blocks_.push_back(
          etd::CreateRunData(builder_, text(name), block.input_index, 0, builder_.CreateVector(block.events)));
    }
    block = {};
  }

  void convert(const TracedMethod &method, const TraceEvent &event, int32_t instruction, Metadata metadata,
               Block &block) {
    const std::string &name = method.trace->name(event);
    switch (static_cast<TraceKind>(event.kind)) {
      case TraceKind::kExecute:
        return add_event(block, "Method::execute", -1, {}, metadata, event);
      case TraceKind::kLoad:
        return add_event(block, "Program::load_method", -1, {}, metadata, event);
      case TraceKind::kKernel: {
        const bool known = event.instruction < method.operators.size();
        return add_event(block, "native_call_" + (known ? method.operators[event.instruction] : std::string()),
                         instruction, {}, metadata, event);
      }
      case TraceKind::kDelegate:
        return add_event(block, "DELEGATE_CALL", instruction, {}, metadata, event);
      case TraceKind::kPrepare:
        return add_event(block, "prepare " + name, -1, {}, metadata, event);
      case TraceKind::kCopy:
        return add_event(block, "copy " + name, -1, {}, metadata, event);
      case TraceKind::kThread:
        return add_event(
            block, "thread " + std::to_string(event.debug_id) + " of instruction " + std::to_string(event.instruction),
            -1, {}, metadata, event);
      case TraceKind::kBackend:
        break;
    }
    if (event.debug_id < 0) return add_event(block, {}, instruction, name, metadata, event);
    const size_t colon = name.find(": ");
    const std::string id = shown_id(name, event.debug_id);
    if (colon != std::string::npos) metadata = json("{\"kernel\": " + quoted(name.substr(colon + 2)) + "}");
    add_event(block, {}, instruction, id, metadata, event);
  }

  // Adds a profile event. An operation of a delegate has the id `id`, any other event the name `name`.
  void add_event(Block &block, const std::string &name, int32_t instruction, const std::string &id, Metadata metadata,
                 const TraceEvent &event) {
    const Text shown = distinct(block, name.empty() ? id : name, instruction);
    const uint64_t end = event.end == 0 ? event.begin : event.end;
    const auto profile = etd::CreateProfileEvent(builder_, name.empty() ? Text() : shown, 0, instruction, -1,
                                                 name.empty() ? shown : Text(), metadata, event.begin, end);
    block.events.push_back(etd::CreateEvent(builder_, profile));
    if (name.empty()) {
      const int64_t number = static_cast<TraceKind>(event.kind) == TraceKind::kBackend ? event.debug_id : -1;
      block.operations[key_of(instruction, id, number)].push_back(shown);
    }
  }

  // Adds a run's recorded values as debug events. An operation with several profile events gets as many debug events.
  void add_values(const TracedMethod &method, uint64_t number, Block &block) {
    if (method.values == nullptr || block.events.empty()) return;
    const std::vector<DebugRun> &runs = method.values->runs();
    const auto run = std::find_if(runs.begin(), runs.end(), [=](const DebugRun &entry) { return entry.run == number; });
    if (run == runs.end()) return;
    const bool are_equal =
        std::all_of(runs.begin(), runs.end(), [](const DebugRun &entry) { return entry.same_as == 0; });
    if (!are_equal) {
      block.input_index = static_cast<int32_t>(std::count_if(
          runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(run->same_as),
          [&](const DebugRun &entry) { return entry.same_as == static_cast<size_t>(&entry - runs.data()); }));
    }
    const std::vector<DebugValue> &values = runs[run->same_as].values;
    std::vector<ValueTable> &tables = tables_[run->same_as];
    for (size_t i = 0; i < values.size(); ++i) {
      if (i == tables.size()) tables.push_back(table_of(method, values[i]));
      if (tables[i].IsNull()) continue;
      const DebugValue &value = values[i];
      if (value.source == DebugValue::Source::kOutput) {
        add_debug_event(block, UINT64_MAX, 0, tables[i], {});
      } else if (value.source == DebugValue::Source::kInstruction) {
        add_debug_event(block, 0, static_cast<int32_t>(value.index), tables[i], {});
      } else if (value.index < method.delegates.size()) {
        const int32_t instruction = method.delegates[value.index].instruction;
        std::vector<Text> ids = block.operations[key_of(instruction, value.operation, value.id)];
        if (ids.empty()) ids.push_back(text(shown_id(value.operation, value.id)));
        for (const Text id : ids) add_debug_event(block, 0, instruction, tables[i], id);
      }
    }
  }

  void add_debug_event(Block &block, uint64_t chain, int32_t instruction, ValueTable value, Text id) {
    const auto debug = etd::CreateDebugEvent(builder_, chain, instruction, value, -1, id);
    block.events.push_back(etd::CreateEvent(builder_, 0, 0, debug));
  }

  // Writes a value as a flatbuffer table. Returns a null offset if the memory limit left out one of its tensors.
  ValueTable table_of(const TracedMethod &method, const DebugValue &value) {
    static const std::vector<uint8_t> in_order;
    const std::vector<uint8_t> *order = &in_order;
    if (value.source == DebugValue::Source::kOperation && value.index < method.delegates.size()) {
      const auto &orders = method.delegates[value.index].dim_orders;
      const auto found = orders.find(value.id < 0 ? value.operation : "[" + std::to_string(value.id) + "]");
      if (found != orders.end()) order = &found->second;
    }
    std::vector<flatbuffers::Offset<etd::Tensor>> tensors;
    for (const Tensor &tensor : value.tensors) {
      if (tensor.empty()) return {};
      tensors.push_back(tensor_of(tensor, *order));
    }
    const bool is_output = value.source == DebugValue::Source::kOutput;
    const auto output = is_output ? etd::CreateBool(builder_, true) : flatbuffers::Offset<etd::Bool>();
    switch (value.tag) {
      case EDGECORE_TAG_TENSOR:
        return etd::CreateValue(builder_, etd::ValueType::Tensor, tensors[0], 0, 0, 0, 0, 0, output);
      case EDGECORE_TAG_TENSOR_LIST: {
        const auto list = etd::CreateTensorList(builder_, builder_.CreateVector(tensors));
        return etd::CreateValue(builder_, etd::ValueType::TensorList, 0, list, 0, 0, 0, 0, output);
      }
      case EDGECORE_TAG_INT: {
        const auto number = etd::CreateInt(builder_, value.number.i);
        return etd::CreateValue(builder_, etd::ValueType::Int, 0, 0, number, 0, 0, 0, output);
      }
      case EDGECORE_TAG_DOUBLE: {
        const auto number = etd::CreateDouble(builder_, value.number.d);
        return etd::CreateValue(builder_, etd::ValueType::Double, 0, 0, 0, 0, number, 0, output);
      }
      default: {
        const auto flag = etd::CreateBool(builder_, value.number.i != 0);
        return etd::CreateValue(builder_, etd::ValueType::Bool, 0, 0, 0, 0, 0, flag, output);
      }
    }
  }

  // Writes a tensor; its elements go to the debug buffer. bfloat16 is written as float, because the Inspector cannot
  // read bfloat16.
  flatbuffers::Offset<etd::Tensor> tensor_of(const Tensor &tensor, const std::vector<uint8_t> &order) {
    const bool widens = tensor.scalar_type() == kBfloat16;
    const size_t rank = tensor.shape().size();
    std::vector<uint8_t> dims = order;
    if (order.size() != rank) {
      dims.resize(rank);
      std::iota(dims.begin(), dims.end(), uint8_t{0});
    }
    std::vector<int64_t> sizes(rank), strides(rank);
    for (size_t i = 0; i < rank; ++i) sizes[dims[i]] = tensor.shape()[i];
    int64_t count = 1;
    for (size_t d = rank; d-- > 0; count *= sizes[d]) strides[d] = count;
    int64_t offset = 0;
    if (buffer_ != nullptr && tensor.count() > 0) {
      const size_t item = tensor.bytes() / tensor.count();
      buffer_->resize((buffer_->size() + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment);
      offset = static_cast<int64_t>(buffer_->size());
      std::vector<uint8_t> elements(tensor.bytes());
      copy_in_order(tensor, dims, item, elements.data());
      if (widens) elements = widened(elements);
      buffer_->insert(buffer_->end(), elements.begin(), elements.end());
    }
    const auto type = static_cast<int8_t>(widens ? kFloat : tensor.scalar_type());
    return etd::CreateTensor(builder_, type, builder_.CreateVector(sizes), builder_.CreateVector(strides), offset);
  }

  // Converts bfloat16 elements to float. A bfloat16 number is the upper half of a float.
  static std::vector<uint8_t> widened(const std::vector<uint8_t> &elements) {
    std::vector<uint8_t> wide(elements.size() * 2);
    for (size_t i = 0; i < elements.size(); ++i) wide[i / 2 * 4 + 2 + i % 2] = elements[i];
    return wide;
  }

  // Returns `name`, and appends a number if the block already has an event with this name and instruction.
  Text distinct(Block &block, const std::string &name, int32_t instruction) {
    const Text plain = text(name);
    const uint64_t count = ++block.counts[uint64_t{plain.o} << 32 | static_cast<uint32_t>(instruction)];
    return count == 1 ? plain : text(name + " (" + std::to_string(count) + ")");
  }

  // `text` writes a string to the file, and `json` a JSON text. Equal contents are written only once.
  Text text(const std::string &content) {
    const auto [entry, is_new] = texts_.try_emplace(content);
    if (is_new) entry->second = builder_.CreateString(content);
    return entry->second;
  }
  Metadata json(const std::string &content) {
    const auto [entry, is_new] = metadata_.try_emplace(content);
    if (is_new) {
      entry->second = builder_.CreateVector(reinterpret_cast<const uint8_t *>(content.data()), content.size());
    }
    return entry->second;
  }

  static constexpr size_t kBufferAlignment = 64;
  static constexpr int32_t kFloat = 6, kBfloat16 = 15;

  std::vector<uint8_t> *buffer_;
  std::unordered_map<size_t, std::vector<ValueTable>> tables_;  // written values of each run; key: index of the run
  flatbuffers::FlatBufferBuilder builder_;
  std::vector<flatbuffers::Offset<etd::RunData>> blocks_;
  std::unordered_map<std::string, Text> texts_;  // strings that are already in the flatbuffer
  std::unordered_map<std::string, Metadata> metadata_;
};

}  // namespace

std::vector<std::string> operators_of(const Program &program, size_t method) {
  std::vector<std::string> operators;
  const fb::ExecutionPlan &plan = *program.tables().root->execution_plan()->Get(static_cast<uint32_t>(method));
  for (uint32_t chain = 0; chain < plan.chains()->size(); ++chain) {
    const auto *instructions = plan.chains()->Get(chain)->instructions();
    for (uint32_t i = 0; i < size_of(instructions); ++i) {
      operators.emplace_back();
      const fb::KernelCall *call = instructions->Get(i)->instr_args_as_KernelCall();
      if (call == nullptr) continue;
      const OperatorName op = program.method(method).operator_name(static_cast<size_t>(call->op_index()));
      const std::string name(op.name.data(), op.name.size());
      const size_t colons = name.rfind("::");
      operators.back() = colons == std::string::npos ? name : name.substr(colons + 2);
      if (!op.overload.empty()) operators.back() += "." + std::string(op.overload.data(), op.overload.size());
    }
  }
  return operators;
}

std::vector<TracedDelegate> delegates_of(const Program &program, size_t method) {
  const fb::ExecutionPlan &plan = *program.tables().root->execution_plan()->Get(static_cast<uint32_t>(method));
  std::vector<TracedDelegate> delegates(size_of(plan.delegates()));
  const auto *instructions = plan.chains()->Get(0)->instructions();
  for (auto i = static_cast<uint32_t>(size_of(instructions)); i-- > 0;) {
    const fb::DelegateCall *call = instructions->Get(i)->instr_args_as_DelegateCall();
    if (call != nullptr) delegates[static_cast<size_t>(call->delegate_index())].instruction = static_cast<int32_t>(i);
  }
  const fb::meta::Method *meta = method_meta(program.tables(), method);
  for (uint32_t i = 0; meta != nullptr && i < size_of(meta->delegates()) && i < delegates.size(); ++i) {
    const auto *operations = meta->delegates()->Get(i)->operations();
    for (uint32_t j = 0; j < size_of(operations); ++j) {
      const auto *order = operations->Get(j)->dim_order();
      const StringView name = view_of(operations->Get(j)->name());
      const std::string key =
          name.empty() ? "[" + std::to_string(operations->Get(j)->id()) + "]" : std::string(name.data(), name.size());
      if (is_permutation(order)) delegates[i].dim_orders[key] = {order->begin(), order->end()};
    }
  }
  return delegates;
}

std::vector<uint8_t> etdump_of(const std::vector<TracedMethod> &methods, std::vector<uint8_t> *buffer) {
  return Writer(buffer).write(methods);
}

}  // namespace edgecore
