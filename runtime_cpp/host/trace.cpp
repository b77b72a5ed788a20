#include "host/trace.h"

#include "core/platform.h"
#include "etdump_generated.h"

namespace edgecore {
namespace {

namespace etd = fb::etdump;

// Returns the name of an event as ExecuTorch's tools expect it in an ETDump. For an operator that is "native_call_" and
// the operator's name without namespace.
std::string shown_name(const TraceEvent &event) {
  switch (event.kind) {
    case EventKind::kExecute:
      return "Method::execute";
    case EventKind::kKernel: {
      const size_t colons = event.name.rfind("::");
      return "native_call_" + (colons == std::string::npos ? event.name : event.name.substr(colons + 2));
    }
    case EventKind::kDelegate:
      return "DELEGATE_CALL";
    case EventKind::kPrepare:
      return "prepare " + event.name;
    case EventKind::kCopy:
      return "copy " + event.name;
    case EventKind::kBackend:
      return event.debug_id < 0 ? event.name : event.name + " #" + std::to_string(event.debug_id);
  }
  return event.name;
}

}  // namespace

uint64_t Trace::begin(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id) {
  // For an event that a backend reports itself (kBackend) `instruction` is always 0: use that of the enclosing event.
  if (kind == EventKind::kBackend && !open_.empty()) instruction = events_[open_.back()].instruction;
  events_.push_back({kind, std::string(name.data(), name.size()), instruction, debug_id, platform_nanoseconds(), 0});
  open_.push_back(events_.size() - 1);
  if (kind != EventKind::kBackend) call_begin_ = events_.back().start;
  return events_.size() - 1;
}

void Trace::end(uint64_t event) {
  if (event >= events_.size()) return;  // a plugin passed a number that begin() did not return
  events_[event].end = platform_nanoseconds();
  if (events_[event].kind != EventKind::kBackend) call_begin_ = events_[event].end;
  while (!open_.empty() && open_.back() >= event) open_.pop_back();
}

void Trace::add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) {
  if (open_.empty()) return;  // no call is running
  events_.push_back({EventKind::kBackend, std::string(name.data(), name.size()), events_[open_.back()].instruction,
                     debug_id, call_begin_ + begin, call_begin_ + end});
}

std::vector<uint8_t> etdump_of(const std::vector<const Trace *> &traces) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<etd::RunData>> runs;
  for (const Trace *trace : traces) {
    const std::vector<TraceEvent> &events = trace->events();
    size_t next = 0;
    while (next < events.size()) {
      // Events before the first execution belong to loading the method.
      const bool executes = events[next].kind == EventKind::kExecute;
      std::vector<flatbuffers::Offset<etd::Event>> run;
      const size_t first = next;
      for (; next < events.size() && (next == first || events[next].kind != EventKind::kExecute); ++next) {
        const TraceEvent &event = events[next];
        const int32_t instruction = event.kind == EventKind::kExecute ? -1 : static_cast<int32_t>(event.instruction);
        const auto name = builder.CreateString(shown_name(event));
        const uint64_t end = event.end == 0 ? event.start : event.end;  // 0: the event did not end
        // ExecuTorch's Inspector shows events within a delegate by their delegate identifier: set it to the name.
        const auto identifier = event.kind == EventKind::kBackend ? name : flatbuffers::Offset<flatbuffers::String>();
        const auto profile =
            etd::CreateProfileEvent(builder, name, 0, instruction, -1, identifier, 0, event.start, end);
        run.push_back(etd::CreateEvent(builder, profile));
      }
      runs.push_back(etd::CreateRunData(builder, builder.CreateString(executes ? "Execute" : "Load"), -1, 0,
                                        builder.CreateVector(run)));
    }
  }
  builder.FinishSizePrefixed(etd::CreateETDump(builder, 0, builder.CreateVector(runs)), etd::ETDumpIdentifier());
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace edgecore
