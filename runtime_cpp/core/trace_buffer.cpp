#include "edgecore/trace_buffer.h"

#include <string.h>

#include "core/platform.h"

namespace edgecore {
namespace {

constexpr uint64_t kNoEvent = UINT64_MAX;
constexpr uint64_t kNanoseconds = 1000000000;

uint32_t to_u32(uint64_t ticks) { return ticks < kTraceOpen ? static_cast<uint32_t>(ticks) : kTraceOpen; }

// Returns the ticks from `begin` to `end`. A 32-bit clock may have wrapped around in between.
uint32_t elapsed(uint64_t begin, uint64_t end) {
  return end >= begin ? to_u32(end - begin) : static_cast<uint32_t>(end) - static_cast<uint32_t>(begin);
}

bool is_backend(const TraceKey &key) {
  return (key.kind & ~uint32_t{kTraceNamed}) == static_cast<uint32_t>(EventKind::kBackend);
}

bool same(const TraceKey &a, const TraceKey &b) { return memcmp(&a, &b, sizeof(TraceKey)) == 0; }

}  // namespace

uint32_t trace_hash(StringView name) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < name.size(); ++i) hash = (hash ^ static_cast<uint8_t>(name.data()[i])) * 16777619u;
  return hash;
}

TraceMemory::TraceMemory(MutableBytes memory, const TraceClock &clock, size_t record_bytes)
    : memory_(memory.data(), memory.size()), clock_(clock) {
  if (memory.size() >= sizeof(TraceHeader) && reinterpret_cast<uintptr_t>(memory.data()) % alignof(TraceHeader) == 0) {
    header_ = reinterpret_cast<TraceHeader *>(memory.data());
    records_ = memory.data() + sizeof(TraceHeader);
    const size_t capacity = (memory.size() - sizeof(TraceHeader)) / record_bytes;
    capacity_ = to_u32(capacity);
  }
  const TraceHeader header = {
      {'E', 'C', 'T', 'R'}, kTraceVersion, static_cast<uint16_t>(record_bytes), clock.ticks_per_second, 0, 0};
  *header_ = header;
}

uint64_t TraceMemory::now() const { return clock_.ticks == nullptr ? platform_nanoseconds() : clock_.ticks(); }

uint64_t TraceMemory::ticks_of(uint64_t nanoseconds) const {
  return nanoseconds / kNanoseconds * clock_.ticks_per_second +
         nanoseconds % kNanoseconds * clock_.ticks_per_second / kNanoseconds;
}

TraceKey TraceMemory::key_of(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id, uint64_t time) {
  TraceKey key = {0, static_cast<uint16_t>(kind), 0};
  if (kind == EventKind::kExecute) {
    run_begin_ = time;
    key.instruction = static_cast<uint16_t>(trace_hash(name));
  } else if (kind == EventKind::kBackend) {
    key.instruction = instruction_;
    key.id = debug_id < 0 ? trace_hash(name) : static_cast<uint32_t>(debug_id);
    if (debug_id < 0) key.kind |= kTraceNamed;
  } else {
    instruction_ = instruction < kTraceLater ? static_cast<uint16_t>(instruction) : kTraceLater;
    key.instruction = instruction_;
  }
  if (kind != EventKind::kBackend) call_begin_ = time;
  return key;
}

uint64_t TraceBuffer::begin(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id) {
  const uint64_t time = now();
  TraceKey key = key_of(kind, name, instruction, debug_id, time);
  if (kind == EventKind::kExecute) key.id = static_cast<uint32_t>(time >> 32);
  return push(time, key);
}

void TraceBuffer::end(uint64_t event) {
  const uint64_t time = now();
  // do nothing if a later event has overwritten this event, or if this event was not recorded
  if (event >= header_->recorded || header_->recorded - event > capacity_) return;
  TraceRecord &record = reinterpret_cast<TraceRecord *>(records_)[event % capacity_];
  const uint32_t begin = record.key.kind == static_cast<uint16_t>(EventKind::kExecute) ? 0 : record.begin;
  const uint32_t passed = elapsed(run_begin_, time);
  record.length = passed == kTraceOpen ? kTraceOpen : passed - begin;
  if (!is_backend(record.key)) call_begin_ = time;
}

void TraceBuffer::add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) {
  const uint64_t start = call_begin_ + ticks_of(begin);
  const uint64_t number = push(start, key_of(EventKind::kBackend, name, 0, debug_id, start));
  if (number == kNoEvent) return;
  reinterpret_cast<TraceRecord *>(records_)[number % capacity_].length = to_u32(ticks_of(end) - ticks_of(begin));
}

// Appends a record of an event that has begun but not ended. Returns the number of the event.
uint64_t TraceBuffer::push(uint64_t begin, const TraceKey &key) {
  const bool is_full = header_->recorded >= capacity_;
  if (is_full) ++header_->dropped;
  if (capacity_ == 0 || (is_full && full_ == TraceFull::kStop)) return kNoEvent;
  const uint64_t number = header_->recorded++;
  const bool is_run = key.kind == static_cast<uint16_t>(EventKind::kExecute);
  reinterpret_cast<TraceRecord *>(records_)[number % capacity_] = {
      is_run ? static_cast<uint32_t>(begin) : elapsed(run_begin_, begin), kTraceOpen, key};
  return number;
}

uint64_t TraceStatistics::begin(EventKind kind, StringView name, uint64_t instruction, int64_t debug_id) {
  const uint64_t time = now();
  const TraceKey key = key_of(kind, name, instruction, debug_id, time);
  if (kind == EventKind::kExecute) {
    depth_ = 0;
    method_ = trace_hash(name);
    (void)total_of(key);  // reserve an entry for the whole run before other totals fill the memory
  }
  if (depth_ < kDepth) {
    open_[depth_] = {key, time};
  } else {
    ++header_->dropped;
  }
  return depth_++;
}

void TraceStatistics::end(uint64_t event) {
  const uint64_t time = now();
  if (event >= depth_) return;  // ignore a number that begin() did not return
  depth_ = static_cast<uint32_t>(event);
  if (event >= kDepth) return;
  count(open_[event].key, elapsed(open_[event].begin, time));
  if (!is_backend(open_[event].key)) call_begin_ = time;
  if (open_[event].key.kind == static_cast<uint16_t>(EventKind::kExecute)) method_ = 0;
}

void TraceStatistics::add(StringView name, int64_t debug_id, uint64_t begin, uint64_t end) {
  count(key_of(EventKind::kBackend, name, 0, debug_id, 0), to_u32(ticks_of(end) - ticks_of(begin)));
}

// Returns the entry with the totals of events with this key; adds an entry if there is none. Returns NULL if the memory
// is full.
TraceTotal *TraceStatistics::total_of(const TraceKey &key) {
  TraceTotal *totals = reinterpret_cast<TraceTotal *>(records_);
  const uint32_t used = static_cast<uint32_t>(header_->recorded);
  uint32_t at = 0;
  for (; at < used; ++at) {
    const TraceTotal &total = totals[(next_ + at) % used];
    if (total.method == method_ && same(total.key, key)) break;
  }
  if (at == used && used == capacity_) return nullptr;
  const uint32_t place = at == used ? used : (next_ + at) % used;
  next_ = place + 1;
  if (at == used) {
    totals[place] = {key, 0, kTraceOpen, 0, method_, 0, 0};
    header_->recorded = used + 1;
  }
  return &totals[place];
}

void TraceStatistics::count(const TraceKey &key, uint64_t ticks) {
  TraceTotal *place = total_of(key);
  if (place == nullptr) {
    ++header_->dropped;
    return;
  }
  TraceTotal &total = *place;
  const uint32_t time = to_u32(ticks);
  ++total.count;
  if (time < total.min) total.min = time;
  if (time > total.max) total.max = time;
  total.sum += time;
  if (__builtin_add_overflow(total.squares, uint64_t{time} * time, &total.squares)) total.squares = UINT64_MAX;
}

}  // namespace edgecore
