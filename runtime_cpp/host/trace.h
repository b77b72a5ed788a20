// Records when methods, kernels and delegates begin and end, in memory of limited size.
#ifndef EDGECORE_HOST_TRACE_H_
#define EDGECORE_HOST_TRACE_H_

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "edgecore/module.h"

namespace edgecore {

// The kind of a traced event. The kinds of EventKind come first, with the same numbers.
enum class TraceKind : uint8_t { kExecute, kKernel, kDelegate, kPrepare, kCopy, kBackend, kLoad, kThread };

struct TraceEvent {
  uint64_t begin;    // begin of the event in nanoseconds on the platform's clock
  uint64_t end;      // end of the event in nanoseconds; 0: the event has not ended
  int64_t debug_id;  // kBackend: the backend's number for the operation, or -1; kThread: the thread's number
  uint32_t instruction;
  uint32_t kind : 4;   // TraceKind
  uint32_t name : 28;  // index in names_
};
static_assert(sizeof(TraceEvent) == 32);

// Records the events of one method in the order in which they begin. Used by one thread at a time, like the method. The
// events of runs are in a ring buffer of at most `limit` bytes, but at least 1024 events. When the ring is full, new
// events overwrite the oldest events. Events of loading are kept outside of the ring. The memory grows with the number
// of events.
class Trace final : public EventTracer {
 public:
  explicit Trace(uint64_t limit, TraceLevel level = TraceLevel::kOperators);

  uint64_t begin(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id) override;
  void end(uint64_t event) override;
  void add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) override;
  // Adds the time in which a thread computed its part of a parallel loop of the current instruction.
  void add_thread(uint32_t thread, uint64_t begin, uint64_t end);
  // Adds the event kLoad: the time that Method::load took.
  void add_load(uint64_t begin, uint64_t end);

  // restore adds an event that another device recorded; count_dropped adds a number of events that the device dropped.
  void restore(const TraceEvent &event, StringView name);
  void count_dropped(uint64_t events) { load_dropped_ += events; }

  TraceLevel level() const { return level_; }
  void set_level(TraceLevel level) { level_ = level; }
  bool is_running() const { return is_running_; }  // true while a run is recorded
  uint64_t runs() const { return runs_; }          // returns the number of runs that have begun
  void clear();

  const std::vector<TraceEvent> &load_events() const { return load_; }
  size_t size() const { return wraps_ == 0 ? position_ : capacity(); }
  const TraceEvent &operator[](size_t index) const;  // returns an event of the ring; index 0 is the oldest
  uint64_t dropped() const;                          // returns the number of events that newer ones have overwritten
  uint64_t bytes() const { return capacity() * sizeof(TraceEvent) + load_.capacity() * sizeof(TraceEvent); }
  const std::string &name(const TraceEvent &event) const { return names_[event.name]; }

 private:
  static constexpr size_t kBlock = 1024;  // number of events whose memory is allocated together

  size_t capacity() const { return blocks_.size() * kBlock; }
  uint64_t push(const TraceEvent &event);
  TraceEvent *find(uint64_t event);
  uint32_t intern(StringView name);

  TraceLevel level_;
  size_t max_blocks_;
  std::vector<std::unique_ptr<TraceEvent[]>> blocks_;
  size_t position_ = 0;  // where the next event is written in the ring buffer
  uint32_t wraps_ = 0;   // number of times that writing went back to position 0 because the ring was full
  std::vector<TraceEvent> load_;
  uint64_t load_dropped_ = 0;
  std::deque<std::string> names_;
  std::unordered_map<std::string_view, uint32_t> name_index_;  // for each event name: its index in names_
  bool is_running_ = false;
  uint64_t runs_ = 0;
  uint64_t run_ = 0;          // number of the event of the run that is recorded now
  uint32_t depth_ = 0;        // number of events that have begun and not ended
  uint32_t instruction_ = 0;  // instruction of the last event of the runtime itself (not of a backend)
  uint64_t call_begin_ = 0;   // times passed to add() count from here: the last begin or end of an event that the
                              // runtime itself recorded
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_TRACE_H_
