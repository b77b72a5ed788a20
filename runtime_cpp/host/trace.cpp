#include "host/trace.h"

#include <algorithm>
#include <new>

#include "core/platform.h"

namespace edgecore {
namespace {

constexpr uint64_t kNoEvent = UINT64_MAX;
// bit in an event's number; set if the event is in `load_` instead of the ring
constexpr uint64_t kLoadEvent = uint64_t{1} << 63;
constexpr size_t kMaxLoadEvents = 65536;
constexpr size_t kMaxNames = 65536;  // maximum number of different event names; programs have far fewer operations

uint32_t to_u32(uint64_t value) { return static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX)); }

}  // namespace

Trace::Trace(uint64_t limit, TraceLevel level)
    : level_(level),
      max_blocks_(static_cast<size_t>(std::max<uint64_t>(1, limit / (kBlock * sizeof(TraceEvent))))),
      names_(1) {}

uint64_t Trace::begin(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id) {
  const bool is_run = kind == EventKind::kExecute;
  if (level_ == TraceLevel::kCalls && !is_run) return kNoEvent;
  const bool has_name = kind == EventKind::kBackend || kind == EventKind::kPrepare || kind == EventKind::kCopy;
  // A backend reports events (kBackend) with instruction 0: use the instruction of the enclosing event instead.
  if (kind != EventKind::kBackend) instruction_ = to_u32(instruction);
  if (is_run) {
    ++runs_;
    is_running_ = true;
    depth_ = 0;
  }
  ++depth_;
  TraceEvent event = {0, 0, debug_id, instruction_, static_cast<uint32_t>(kind) & 0xf, 0};
  if (has_name) event.name = intern(name) & 0xfffffff;
  event.begin = platform_nanoseconds();
  if (kind != EventKind::kBackend) call_begin_ = event.begin;
  const uint64_t number = push(event);
  if (is_run) run_ = number;
  return number;
}

void Trace::end(uint64_t number) {
  if (number == kNoEvent) return;
  const uint64_t now = platform_nanoseconds();
  if (number == run_) is_running_ = false;
  TraceEvent *event = find(number);
  if (event == nullptr || event->end != 0)
    return;  // the event is not recorded or is overwritten, or begin() did not return `number`
  event->end = now;
  if (event->kind != static_cast<uint32_t>(TraceKind::kBackend)) call_begin_ = now;
  if (depth_ > 0) --depth_;
}

void Trace::add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) {
  if (level_ == TraceLevel::kCalls || depth_ == 0) return;  // a depth of 0 means that no call is running
  push({call_begin_ + begin, call_begin_ + end, debug_id, instruction_,
        static_cast<uint32_t>(TraceKind::kBackend) & 0xf, intern(name) & 0xfffffff});
}

void Trace::add_thread(uint32_t thread, uint64_t begin, uint64_t end) {
  push({begin, end, thread, instruction_, static_cast<uint32_t>(TraceKind::kThread) & 0xf, 0});
}

void Trace::add_load(uint64_t begin, uint64_t end) {
  load_.insert(load_.begin(), {begin, end, -1, 0, static_cast<uint32_t>(TraceKind::kLoad) & 0xf, 0});
}

void Trace::restore(const TraceEvent &event, StringView name) {
  is_running_ = is_running_ || event.kind == static_cast<uint32_t>(TraceKind::kExecute);
  TraceEvent named = event;
  named.name = intern(name) & 0xfffffff;
  push(named);
}

void Trace::clear() {
  position_ = 0;
  wraps_ = 0;
  load_.clear();
  load_dropped_ = 0;
}

const TraceEvent &Trace::operator[](size_t index) const {
  const size_t at = wraps_ == 0 ? index : (position_ + index) % capacity();
  return blocks_[at / kBlock][at % kBlock];
}

uint64_t Trace::dropped() const {
  return load_dropped_ + (wraps_ == 0 ? 0 : uint64_t{wraps_ - 1} * capacity() + position_);
}

// Appends an event to the ring, or to `load_` if no run is recorded. Returns the event's number. For the ring, the
// number consists of the event's index and, in the upper bits, `wraps_`, so that find() detects events that were
// overwritten.
uint64_t Trace::push(const TraceEvent &event) {
  if (!is_running_) {
    if (load_.size() == kMaxLoadEvents) {
      ++load_dropped_;
      return kNoEvent;
    }
    load_.push_back(event);
    return kLoadEvent | (load_.size() - 1);
  }
  if (position_ == capacity()) {
    TraceEvent *block = wraps_ > 0 || blocks_.size() == max_blocks_ ? nullptr : new (std::nothrow) TraceEvent[kBlock];
    if (block != nullptr) {
      blocks_.emplace_back(block);
    } else if (blocks_.empty()) {
      ++load_dropped_;
      return kNoEvent;
    } else {
      position_ = 0;
      ++wraps_;
    }
  }
  blocks_[position_ / kBlock][position_ % kBlock] = event;
  return uint64_t{wraps_} << 32 | position_++;
}

TraceEvent *Trace::find(uint64_t number) {
  if ((number & kLoadEvent) != 0) {
    const uint64_t at = number & ~kLoadEvent;
    return at < load_.size() ? &load_[at] : nullptr;
  }
  const uint64_t at = number & UINT32_MAX;
  const uint64_t wraps = number >> 32;
  const bool is_kept = wraps == wraps_ ? at < position_ : wraps + 1 == wraps_ && at >= position_ && at < capacity();
  return is_kept ? &blocks_[at / kBlock][at % kBlock] : nullptr;
}

uint32_t Trace::intern(StringView text) {
  const std::string_view name(text.data(), text.size());
  if (const auto found = name_index_.find(name); found != name_index_.end()) return found->second;
  if (names_.size() == kMaxNames) return 0;
  names_.emplace_back(name);
  const auto index = static_cast<uint32_t>(names_.size() - 1);
  name_index_.emplace(names_.back(), index);
  return index;
}

}  // namespace edgecore
