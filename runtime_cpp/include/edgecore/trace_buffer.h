// Traces for firmware, in memory of the caller, without a heap. A TraceBuffer is a ring of events; TraceStatistics
// holds the totals of each event over any number of runs. Operator names are not stored. The application sends bytes()
// to a computer, by a debugger or a serial line. On the computer, `edgecore-run FILE.pte --records FILE.ectr --trace
// FILE.etdp` makes an ETDump and adds the names from the .pte. The linker adds the code of a class only to an
// application that uses it.
//
//   static uint8_t memory[32 + 1000 * sizeof(edgecore::TraceRecord)] __attribute__((aligned(8)));
//   edgecore::TraceBuffer trace(memory, {cycles, 160000000});
//   config.tracer = &trace;                                       // or method.set_tracer(&trace)
#ifndef EDGECORE_TRACE_BUFFER_H_
#define EDGECORE_TRACE_BUFFER_H_

#include "edgecore/host.h"

namespace edgecore {

// The clock of a trace. Ticks may wrap at 2^32. If `ticks` is NULL, the platform's clock is used (edgecore/platform.h).
struct TraceClock {
  uint64_t (*ticks)() = nullptr;
  uint64_t ticks_per_second = 1000000000;
};

// The header at the start of a trace's memory, in the byte order of the processor, which must be little-endian. The
// records follow the header. In the ring of a TraceBuffer, record i, counted from the start of the trace, is at index i
// % capacity.
struct TraceHeader {
  char magic[4];  // "ECTR"
  uint16_t version;
  uint16_t record_bytes;  // sizeof(TraceRecord) or sizeof(TraceTotal)
  uint64_t ticks_per_second;
  uint64_t recorded;  // number of records written, overwritten ones included
  uint64_t dropped;   // number of events that were overwritten, or for which there was no memory
};
static_assert(sizeof(TraceHeader) == 32);

constexpr uint16_t kTraceVersion = 2;
constexpr uint16_t kTraceNamed = 0x100;       // bit of TraceKey::kind; set if TraceKey::id is the hash of a name
constexpr uint32_t kTraceOpen = UINT32_MAX;   // TraceRecord::length of an event that has not ended, or is too long
constexpr uint16_t kTraceLater = UINT16_MAX;  // TraceKey::instruction of an instruction with index UINT16_MAX or more

// The identity of an event. For a run, `instruction` is the lower half of the hash of the method's name. For an
// operation of a backend (kBackend), `id` is the backend's number of the operation or, with kTraceNamed, the hash of
// its name. For a run in a TraceRecord, `id` is the upper 32 bits of the clock.
struct TraceKey {
  uint16_t instruction;
  uint16_t kind;  // EventKind
  uint32_t id;
};

struct TraceRecord {
  uint32_t begin;  // ticks since the run began; for the event of a run, the clock's lower 32 bits
  uint32_t length;
  TraceKey key;
};
static_assert(sizeof(TraceRecord) == 16);

// The totals of one event. The total of a run comes before the totals of the events in the run. The count of a run's
// total is 0 until the first run has ended. A time of 2^32 ticks or more counts as 2^32 - 1.
struct TraceTotal {
  TraceKey key;
  uint32_t count;
  uint32_t min;  // ticks
  uint32_t max;
  uint32_t method;  // hash of the name of the running method; 0 while no method runs, such as during loading
  uint64_t sum;
  uint64_t squares;  // sum of the squares of the times; UINT64_MAX after an overflow
};
static_assert(sizeof(TraceTotal) == 40);

// Returns the 32-bit FNV-1a hash of a name, for TraceKey::id.
uint32_t trace_hash(StringView name);

// The base class of TraceBuffer and TraceStatistics: the memory, and the start times of the current run and call.
class TraceMemory {
 public:
  // Returns the caller's memory, with the header and the records.
  Bytes bytes() const { return memory_; }
  const TraceHeader &header() const { return *header_; }

 protected:
  TraceMemory(MutableBytes memory, const TraceClock &clock, size_t record_bytes);
  ~TraceMemory() = default;

  uint64_t now() const;
  uint64_t ticks_of(uint64_t nanoseconds) const;
  // Returns the key of an event that begins. If the event is a run or a call, also remembers the event's start time.
  TraceKey key_of(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id, uint64_t time);

  Bytes memory_;
  TraceHeader unused_ = {};  // header that is used if `memory` is too small for one
  TraceHeader *header_ = &unused_;
  uint8_t *records_ = nullptr;
  uint32_t capacity_ = 0;
  TraceClock clock_;
  uint64_t run_begin_ = 0;
  uint64_t call_begin_ = 0;
  uint16_t instruction_ = 0;  // instruction of the last event that did not come from a backend
};

enum class TraceFull : uint8_t { kDropOldest, kStop };

// Records events of one method at a time in a ring. The address of `memory` must be a multiple of 8.
class TraceBuffer final : public EventTracer, public TraceMemory {
 public:
  explicit TraceBuffer(MutableBytes memory, const TraceClock &clock = {}, TraceFull full = TraceFull::kDropOldest)
      : TraceMemory(memory, clock, sizeof(TraceRecord)), full_(full) {}

  uint64_t begin(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id) override;
  void end(uint64_t event) override;
  void add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) override;

 private:
  uint64_t push(uint64_t begin, const TraceKey &key);

  TraceFull full_;
};

// Adds up the times of each event, in memory of constant size: 40 bytes for each different event. The address of
// `memory` must be a multiple of 8.
class TraceStatistics final : public EventTracer, public TraceMemory {
 public:
  explicit TraceStatistics(MutableBytes memory, const TraceClock &clock = {})
      : TraceMemory(memory, clock, sizeof(TraceTotal)) {}

  uint64_t begin(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id) override;
  void end(uint64_t event) override;
  void add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) override;

 private:
  static constexpr uint32_t kDepth = 8;  // maximum number of nested events: run, call, copy, and events of the backend

  TraceTotal *total_of(const TraceKey &key);
  void count(const TraceKey &key, uint64_t ticks);

  struct {
    TraceKey key;
    uint64_t begin;
  } open_[kDepth] = {};  // events that have begun and not ended, outermost first
  uint32_t depth_ = 0;
  uint32_t method_ = 0;  // hash of the name of the running method
  uint32_t next_ = 0;    // index of the next event's TraceTotal, if this run has the same events as the one before
};

}  // namespace edgecore

#endif  // EDGECORE_TRACE_BUFFER_H_
