#include "edgecore/trace_buffer.h"

#include <gtest/gtest.h>

#include <vector>

namespace edgecore {
namespace {

uint64_t now = 0;
uint64_t ticks() { return now; }
constexpr TraceClock kClock = {ticks, 1000000};  // a tick is a microsecond

// Memory for some records, aligned to 8 bytes.
template <typename Record>
class Memory {
 public:
  explicit Memory(size_t records) : words_((sizeof(TraceHeader) + records * sizeof(Record)) / 8) {}
  MutableBytes bytes() { return {reinterpret_cast<uint8_t *>(words_.data()), words_.size() * 8}; }
  const TraceHeader &header() const { return *reinterpret_cast<const TraceHeader *>(words_.data()); }
  const Record &operator[](size_t i) const {
    return reinterpret_cast<const Record *>(reinterpret_cast<const uint8_t *>(words_.data()) + sizeof(TraceHeader))[i];
  }

 private:
  std::vector<uint64_t> words_;
};

// Traces a run that begins at `begin`: a kernel of 10 ticks, then a delegate of 30 ticks that reports an event of 5
// ticks (begin and end) and adds an event of 7 ticks (add).
void run(EventTracer &trace, uint64_t begin) {
  now = begin;
  const uint64_t execution = trace.begin(EventKind::kExecute, "forward", 0, -1);
  const uint64_t kernel = trace.begin(EventKind::kKernel, "aten::relu", 0, -1);
  now += 10;
  trace.end(kernel);
  const uint64_t delegate = trace.begin(EventKind::kDelegate, "AcmeBackend", 1, -1);
  now += 3;
  const uint64_t inner = trace.begin(EventKind::kBackend, "conv", 0, 42);
  now += 5;
  trace.end(inner);
  trace.add("pool", -1, 9000, 16000);
  now += 22;
  trace.end(delegate);
  now += 1;
  trace.end(execution);
}

TEST(TraceBuffer, RecordsTheTimesOfARun) {
  Memory<TraceRecord> memory(8);
  TraceBuffer trace(memory.bytes(), kClock);
  run(trace, (uint64_t{7} << 32) + 100);
  EXPECT_EQ(trace.bytes().size(), sizeof(TraceHeader) + 8 * 16);
  EXPECT_EQ(memory.header().recorded, 5u);
  EXPECT_EQ(memory.header().dropped, 0u);
  EXPECT_EQ(memory.header().ticks_per_second, 1000000u);
  EXPECT_EQ(memory[0].begin, 100u);
  EXPECT_EQ(memory[0].key.id, 7u);
  EXPECT_EQ(memory[0].key.instruction, trace_hash("forward") & 0xffff);
  EXPECT_EQ(memory[0].length, 41u);
  EXPECT_EQ(memory[1].begin, 0u);
  EXPECT_EQ(memory[1].length, 10u);
  EXPECT_EQ(memory[2].begin, 10u);
  EXPECT_EQ(memory[2].length, 30u);
  EXPECT_EQ(memory[2].key.instruction, 1u);
  EXPECT_EQ(memory[3].begin, 13u);
  EXPECT_EQ(memory[3].length, 5u);
  EXPECT_EQ(memory[3].key.id, 42u);
  EXPECT_EQ(memory[3].key.instruction, 1u);
  EXPECT_EQ(memory[4].begin, 19u);
  EXPECT_EQ(memory[4].length, 7u);
  EXPECT_EQ(memory[4].key.id, trace_hash("pool"));
  EXPECT_EQ(memory[4].key.kind, kTraceNamed | 5);
}

TEST(TraceBuffer, DropsTheOldest) {
  Memory<TraceRecord> memory(8);
  TraceBuffer trace(memory.bytes(), kClock);
  for (uint64_t i = 0; i < 3; ++i) run(trace, i * 1000);
  EXPECT_EQ(memory.header().recorded, 15u);
  EXPECT_EQ(memory.header().dropped, 7u);
  EXPECT_EQ(memory[10 % 8].begin, 2000u);  // the last run
  EXPECT_EQ(memory[10 % 8].length, 41u);
}

TEST(TraceBuffer, Stops) {
  Memory<TraceRecord> memory(8);
  TraceBuffer trace(memory.bytes(), kClock, TraceFull::kStop);
  for (uint64_t i = 0; i < 3; ++i) run(trace, i * 1000);
  EXPECT_EQ(memory.header().recorded, 8u);
  EXPECT_EQ(memory.header().dropped, 7u);
  EXPECT_EQ(memory[0].begin, 0u);
  EXPECT_EQ(memory[0].length, 41u);
}

TEST(TraceBuffer, SurvivesAClockThatWraps) {
  Memory<TraceRecord> memory(8);
  TraceBuffer trace(memory.bytes(), kClock);
  now = 0xfffffff0;
  const uint64_t execution = trace.begin(EventKind::kExecute, "forward", 0, -1);
  now = 0x10;
  trace.end(execution);
  EXPECT_EQ(memory[0].length, 32u);
}

TEST(TraceBuffer, MarksEventsThatDidNotEndOrTookTooLong) {
  Memory<TraceRecord> memory(8);
  TraceBuffer trace(memory.bytes(), kClock);
  now = 0;
  const uint64_t execution = trace.begin(EventKind::kExecute, "forward", 0, -1);
  trace.begin(EventKind::kKernel, "aten::relu", 70000, -1);
  now = uint64_t{1} << 33;
  trace.end(execution);
  EXPECT_EQ(memory[0].length, kTraceOpen);
  EXPECT_EQ(memory[1].length, kTraceOpen);
  EXPECT_EQ(memory[1].key.instruction, kTraceLater);
}

TEST(TraceBuffer, WithoutMemoryOnlyCounts) {
  TraceBuffer trace({}, kClock);
  run(trace, 0);
  EXPECT_EQ(trace.header().recorded, 0u);
  EXPECT_EQ(trace.header().dropped, 5u);
  Memory<TraceRecord> memory(0);
  TraceBuffer only_header(memory.bytes(), kClock);
  run(only_header, 0);
  EXPECT_EQ(memory.header().dropped, 5u);
}

TEST(TraceStatistics, AddsUpTheTimesOfEachEvent) {
  Memory<TraceTotal> memory(6);
  TraceStatistics trace(memory.bytes(), kClock);
  for (uint64_t i = 0; i < 100; ++i) run(trace, i * 1000);
  now = 0;
  const uint64_t execution = trace.begin(EventKind::kExecute, "forward", 0, -1);
  const uint64_t kernel = trace.begin(EventKind::kKernel, "aten::relu", 0, -1);
  now = 50;
  trace.end(kernel);
  trace.end(execution);
  EXPECT_EQ(memory.header().recorded, 5u);
  EXPECT_EQ(memory.header().dropped, 0u);
  EXPECT_EQ(memory[0].key.kind, 0u);  // the run
  EXPECT_EQ(memory[0].count, 101u);
  EXPECT_EQ(memory[0].sum, 4150u);
  EXPECT_EQ(memory[1].key.kind, 1u);  // the kernel, which ends first
  EXPECT_EQ(memory[1].count, 101u);
  EXPECT_EQ(memory[1].min, 10u);
  EXPECT_EQ(memory[1].max, 50u);
  EXPECT_EQ(memory[1].sum, 1050u);
  EXPECT_EQ(memory[1].squares, 100u * 100 + 50 * 50);
  EXPECT_EQ(memory[1].method, trace_hash("forward"));
}

TEST(TraceStatistics, KeepsMethodsAndLoadingApart) {
  Memory<TraceTotal> memory(6);
  TraceStatistics trace(memory.bytes(), kClock);
  trace.end(trace.begin(EventKind::kPrepare, "AcmeBackend", 1, -1));
  for (const StringView name : {"prefill", "decode", "prefill"}) {
    const uint64_t execution = trace.begin(EventKind::kExecute, name, 0, -1);
    trace.end(trace.begin(EventKind::kKernel, "aten::relu", 0, -1));
    trace.end(execution);
  }
  EXPECT_EQ(memory.header().recorded, 5u);
  const uint32_t prefill = trace_hash("prefill"), decode = trace_hash("decode");
  const uint32_t methods[] = {0, prefill, prefill, decode, decode}, counts[] = {1, 2, 2, 1, 1};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(memory[i].method, methods[i]);
    EXPECT_EQ(memory[i].count, counts[i]);
  }
}

TEST(TraceStatistics, CountsTheEventsThatFindNoPlace) {
  Memory<TraceTotal> memory(2);
  TraceStatistics trace(memory.bytes(), kClock);
  run(trace, 0);
  EXPECT_EQ(memory.header().recorded, 2u);
  EXPECT_EQ(memory.header().dropped, 3u);
  EXPECT_EQ(memory[0].key.kind, 0u);  // the run, which ends last
  EXPECT_EQ(memory[0].count, 1u);
}

TEST(TraceStatistics, IgnoresEventsThatAreNestedTooDeeply) {
  Memory<TraceTotal> memory(20);
  TraceStatistics trace(memory.bytes(), kClock);
  std::vector<uint64_t> open;
  for (int i = 0; i < 12; ++i) open.push_back(trace.begin(EventKind::kBackend, "op", 0, i));
  for (; !open.empty(); open.pop_back()) trace.end(open.back());
  trace.end(3);
  EXPECT_EQ(memory.header().recorded, 8u);
  EXPECT_EQ(memory.header().dropped, 4u);
}

}  // namespace
}  // namespace edgecore
