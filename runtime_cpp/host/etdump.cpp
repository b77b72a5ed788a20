#include "host/etdump.h"

#include <algorithm>
#include <unordered_map>

#include "core/program_tables.h"
#include "etdump_generated.h"

namespace edgecore {
namespace {

namespace etd = fb::etdump;
using Text = flatbuffers::Offset<flatbuffers::String>;
using Metadata = flatbuffers::Offset<flatbuffers::Vector<uint8_t>>;

// Returns `text` as a string of JSON.
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

class Writer {
 public:
  std::vector<uint8_t> write(const std::vector<TracedMethod> &methods) {
    for (const TracedMethod &method : methods) add(method, methods.size() > 1 ? " " + method.name : "");
    builder_.FinishSizePrefixed(etd::CreateETDump(builder_, 0, builder_.CreateVector(blocks_)),
                                etd::ETDumpIdentifier());
    return {builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize()};
  }

 private:
  struct Block {
    std::vector<flatbuffers::Offset<etd::Event>> events;
    std::unordered_map<uint64_t, uint64_t> counts;  // of names and instructions
  };

  // Adds the blocks of a method, whose names end with `suffix`.
  void add(const TracedMethod &method, const std::string &suffix) {
    const Trace &trace = *method.trace;
    Block preparation;  // loading, and what backends prepare during runs
    for (const TraceEvent &event : trace.load_events()) convert(method, event, -1, {}, preparation);
    const size_t first = first_of(trace);
    if (first > 0 || trace.dropped() > 0) {
      const std::string text = std::to_string(trace.dropped() + first) + " events were dropped";
      add_event(preparation, text, -1, {}, {}, {});
    }
    const size_t place = blocks_.size();  // of the preparation: before the runs
    Block run;
    uint64_t prepared = 0;  // end of the last preparation
    for (size_t i = first; i < trace.size(); ++i) {
      const TraceEvent &event = trace[i];
      const auto kind = static_cast<TraceKind>(event.kind);
      const Metadata metadata = i < method.metadata.size() ? json(method.metadata[i]) : Metadata();
      if (kind == TraceKind::kExecute) {
        add_block("Execute" + suffix, run);
        prepared = 0;  // the clock of a device may have wrapped since
      }
      if (kind == TraceKind::kPrepare) prepared = event.end;
      if (kind == TraceKind::kPrepare || event.begin < prepared) {
        convert(method, event, -1, metadata, preparation);
      } else {
        convert(method, event, static_cast<int32_t>(event.instruction), metadata, run);
      }
    }
    add_block("Execute" + suffix, run);
    const size_t end = blocks_.size();
    add_block("Default" + suffix, preparation);
    const auto at = [&](size_t index) { return blocks_.begin() + static_cast<std::ptrdiff_t>(index); };
    std::rotate(at(place), at(end), blocks_.end());
  }

  // Returns the first event of the first run whose begin is still recorded; of all events if there is none.
  static size_t first_of(const Trace &trace) {
    if (trace.dropped() == 0) return 0;
    for (size_t i = 0; i < trace.size(); ++i) {
      if (trace[i].kind == static_cast<uint32_t>(TraceKind::kExecute)) return i;
    }
    return 0;
  }

  // Adds a block, if it has events, and empties `block`.
  void add_block(const std::string &name, Block &block) {
    if (!block.events.empty()) {
      blocks_.push_back(etd::CreateRunData(builder_, text(name), -1, 0, builder_.CreateVector(block.events)));
    }
    block.events.clear();
    block.counts.clear();
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
    const std::string kind = name.substr(0, colon);
    const std::string id = (kind.empty() ? "" : kind + " ") + "[" + std::to_string(event.debug_id) + "]";
    if (colon != std::string::npos) metadata = json("{\"kernel\": " + quoted(name.substr(colon + 2)) + "}");
    add_event(block, {}, instruction, id, metadata, event);
  }

  // Adds an event with a name, or one of a delegate with an id.
  void add_event(Block &block, const std::string &name, int32_t instruction, const std::string &id, Metadata metadata,
                 const TraceEvent &event) {
    const Text shown = distinct(block, name.empty() ? id : name, instruction);
    const uint64_t end = event.end == 0 ? event.begin : event.end;
    const auto profile = etd::CreateProfileEvent(builder_, name.empty() ? Text() : shown, 0, instruction, -1,
                                                 name.empty() ? shown : Text(), metadata, event.begin, end);
    block.events.push_back(etd::CreateEvent(builder_, profile));
  }

  // Returns `name`, with its number if the block has it already.
  Text distinct(Block &block, const std::string &name, int32_t instruction) {
    const Text plain = text(name);
    const uint64_t count = ++block.counts[uint64_t{plain.o} << 32 | static_cast<uint32_t>(instruction)];
    return count == 1 ? plain : text(name + " (" + std::to_string(count) + ")");
  }

  // text and json write equal contents once.
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

  flatbuffers::FlatBufferBuilder builder_;
  std::vector<flatbuffers::Offset<etd::RunData>> blocks_;
  std::unordered_map<std::string, Text> texts_;  // written so far
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

std::vector<uint8_t> etdump_of(const std::vector<TracedMethod> &methods) { return Writer().write(methods); }

}  // namespace edgecore
