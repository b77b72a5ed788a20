// Records when methods, kernels and delegates begin and end, and writes these events as an ETDump, ExecuTorch's format
// for profiles.
#ifndef EDGECORE_HOST_TRACE_H_
#define EDGECORE_HOST_TRACE_H_

#include <string>
#include <vector>

#include "edgecore/host.h"

namespace edgecore {

struct TraceEvent {
  EventKind kind;
  std::string name;
  uint64_t instruction;
  int64_t debug_id;
  uint64_t start;  // nanoseconds of a steady clock
  uint64_t end;
};

// Records the events of one method, in the order in which they began. Used by one thread at a time, like the method.
class Trace final : public EventTracer {
 public:
  uint64_t begin(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id) override;
  void end(uint64_t event) override;
  void add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) override;
  const std::vector<TraceEvent> &events() const { return events_; }

 private:
  std::vector<TraceEvent> events_;
  std::vector<uint64_t> open_;  // events that have begun, outermost first
  // Start of the current call of a kernel or backend; the times passed to add() are relative to it. It is the time at
  // which the last event that the runtime itself records (any kind but kBackend) began or ended.
  uint64_t call_begin_ = 0;
};

// Converts the events of several methods to the bytes of an ETDump file, with one RunData table for each execution of a
// method. Format: src/edgecore/format/schema/etdump.fbs.
std::vector<uint8_t> etdump_of(const std::vector<const Trace *> &traces);

}  // namespace edgecore

#endif  // EDGECORE_HOST_TRACE_H_
