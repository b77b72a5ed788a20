#include "host/trace.h"

#include <gtest/gtest.h>

#include "etdump_generated.h"
#include "host/etdump.h"
#include "host/platform.h"

namespace edgecore {
namespace {

namespace etd = fb::etdump;

constexpr uint64_t kOneBlock = 1024 * sizeof(TraceEvent);

// Reads the ETDump of one traced method, whose instructions 0 and 1 are a kernel and a delegate.
class Dump {
 public:
  explicit Dump(const Trace &trace) : bytes_(etdump_of({{"forward", {"relu.out", ""}, &trace}})) {
    flatbuffers::Verifier verifier(bytes_.data(), bytes_.size());
    EXPECT_TRUE(verifier.VerifySizePrefixedBuffer<etd::ETDump>(etd::ETDumpIdentifier()));
    root_ = flatbuffers::GetSizePrefixedRoot<etd::ETDump>(bytes_.data());
  }

  size_t size() const { return bytes_.size(); }
  uint32_t block_count() const { return root_->run_data()->size(); }
  std::string block(uint32_t i) const { return root_->run_data()->Get(i)->name()->str(); }
  uint32_t event_count(uint32_t block) const { return root_->run_data()->Get(block)->events()->size(); }
  const etd::ProfileEvent &event(uint32_t block, uint32_t i) const {
    return *root_->run_data()->Get(block)->events()->Get(i)->profile_event();
  }
  // Returns "NAME or ID @instruction" of all events of a block.
  std::vector<std::string> events(uint32_t block) const {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < event_count(block); ++i) {
      const etd::ProfileEvent &found = event(block, i);
      EXPECT_NE(found.name() == nullptr, found.delegate_debug_id_str() == nullptr);
      names.push_back((found.name() != nullptr ? found.name() : found.delegate_debug_id_str())->str() + " @" +
                      std::to_string(found.instruction_id()));
    }
    return names;
  }

 private:
  std::vector<uint8_t> bytes_;
  const etd::ETDump *root_;
};

using Names = std::vector<std::string>;

// Records a run of a kernel and a delegate with two operations. Returns the number of recorded events.
uint64_t run(Trace &trace, bool prepares = false) {
  use_host_platform();  // sets the clock
  const uint64_t execution = trace.begin(EventKind::kExecute, "forward", 0, -1);
  trace.end(trace.begin(EventKind::kKernel, "aten::relu", 0, -1));
  const uint64_t delegate = trace.begin(EventKind::kDelegate, "XnnpackBackend", 1, -1);
  if (prepares) {
    const uint64_t prepare = trace.begin(EventKind::kPrepare, "XnnpackBackend", 1, -1);
    trace.end(trace.begin(EventKind::kBackend, "compile", 0, -1));
    trace.end(prepare);
  }
  trace.end(trace.begin(EventKind::kBackend, "Conv2d: Convolution (NHWC, F32) \"IGEMM\"", 0, 42));
  trace.add("sigmoid", -1, 2000, 5000);
  trace.end(delegate);
  trace.end(execution);
  return 5;
}

const Names kRun = {"Method::execute @-1", "native_call_relu.out @0", "DELEGATE_CALL @1", "Conv2d [42] @1",
                    "sigmoid @1"};

TEST(Trace, HasABlockForLoadingAndOneForEachRun) {
  Trace trace(kTraceLimit);
  trace.end(trace.begin(EventKind::kPrepare, "XnnpackBackend", 1, -1));
  trace.end(trace.begin(EventKind::kPrepare, "XnnpackBackend", 3, -1));
  trace.add_load(1, 2);
  for (int i = 0; i < 2; ++i) run(trace);
  const Dump dump(trace);
  ASSERT_EQ(dump.block_count(), 3u);
  EXPECT_EQ(dump.block(0), "Default");
  EXPECT_EQ(dump.events(0),
            Names({"Program::load_method @-1", "prepare XnnpackBackend @-1", "prepare XnnpackBackend (2) @-1"}));
  for (uint32_t i = 1; i < 3; ++i) {
    EXPECT_EQ(dump.block(i), "Execute");
    EXPECT_EQ(dump.events(i), kRun);
  }
}

TEST(Trace, KeepsWhatADelegatePreparesOutOfTheRun) {
  Trace trace(kTraceLimit);
  run(trace, true);
  run(trace);
  const Dump dump(trace);
  ASSERT_EQ(dump.block_count(), 3u);
  EXPECT_EQ(dump.block(0), "Default");
  EXPECT_EQ(dump.events(0), Names({"prepare XnnpackBackend @-1", "compile @-1"}));
  EXPECT_EQ(dump.events(1), kRun);
  EXPECT_EQ(dump.events(2), kRun);
}

TEST(Trace, ARunAfterAClockHasWrappedIsNoPreparation) {
  Trace trace(kTraceLimit);
  const auto add = [&](TraceKind kind, uint64_t begin, uint64_t end) {
    trace.restore({begin, end, -1, 0, static_cast<uint32_t>(kind) & 0xf, 0}, "");
  };
  add(TraceKind::kExecute, 1000, 1100);
  add(TraceKind::kPrepare, 1010, 1050);
  add(TraceKind::kExecute, 100, 200);
  add(TraceKind::kKernel, 110, 120);
  const Dump dump(trace);
  ASSERT_EQ(dump.block_count(), 3u);
  EXPECT_EQ(dump.events(2), Names({"Method::execute @-1", "native_call_relu.out @0"}));
}

TEST(Trace, GivesTheKernelOfAnOperationAsMetadata) {
  Trace trace(kTraceLimit);
  run(trace);
  const Dump dump(trace);
  const auto *metadata = dump.event(0, 3).delegate_debug_metadata();
  ASSERT_NE(metadata, nullptr);
  EXPECT_EQ(std::string(metadata->begin(), metadata->end()), "{\"kernel\": \"Convolution (NHWC, F32) \\\"IGEMM\\\"\"}");
  EXPECT_EQ(dump.event(0, 4).delegate_debug_metadata(), nullptr);
  EXPECT_EQ(dump.event(0, 3).delegate_debug_id_int(), -1);
}

TEST(Trace, TimesOfAddedEventsAreRelativeToTheCall) {
  Trace trace(kTraceLimit);
  run(trace);
  const Dump dump(trace);
  const uint64_t call = dump.event(0, 2).start_time();
  EXPECT_EQ(dump.event(0, 4).start_time(), call + 2000);
  EXPECT_EQ(dump.event(0, 4).end_time(), call + 5000);
  EXPECT_GE(dump.event(0, 3).start_time(), call);
  EXPECT_LE(dump.event(0, 3).end_time(), dump.event(0, 2).end_time());
  EXPECT_LE(dump.event(0, 2).end_time(), dump.event(0, 0).end_time());
}

TEST(Trace, NumbersTheExecutionsOfAnInstructionInALoop) {
  Trace trace(kTraceLimit);
  const uint64_t execution = trace.begin(EventKind::kExecute, "forward", 0, -1);
  for (int i = 0; i < 3; ++i) trace.end(trace.begin(EventKind::kKernel, "aten::relu", 0, -1));
  trace.end(execution);
  EXPECT_EQ(Dump(trace).events(0), Names({"Method::execute @-1", "native_call_relu.out @0",
                                          "native_call_relu.out (2) @0", "native_call_relu.out (3) @0"}));
}

TEST(Trace, NamesTheMethodsOfAProgramWithSeveral) {
  Trace first(kTraceLimit), second(kTraceLimit);
  run(first);
  run(second);
  const std::vector<uint8_t> bytes = etdump_of({{"prefill", {}, &first}, {"decode", {}, &second}});
  const auto &runs = *flatbuffers::GetSizePrefixedRoot<etd::ETDump>(bytes.data())->run_data();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]->name()->str(), "Execute prefill");
  EXPECT_EQ(runs[1]->name()->str(), "Execute decode");
}

TEST(Trace, DropsTheOldestEventsAndWholeRunsOfThem) {
  Trace trace(kOneBlock);
  trace.add_load(1, 2);
  uint64_t recorded = 0;
  for (int i = 0; i < 1000; ++i) recorded += run(trace);
  EXPECT_EQ(trace.size(), 1024u);
  EXPECT_EQ(trace.dropped(), recorded - 1024);
  EXPECT_LE(trace.bytes(), kOneBlock + 1024);
  const Dump dump(trace);
  ASSERT_EQ(dump.block_count(), 1u + 1024 / 5);
  EXPECT_EQ(dump.events(0),
            Names({"Program::load_method @-1", std::to_string(recorded - 1024 / 5 * 5) + " events were dropped @-1"}));
  for (uint32_t i = 1; i < dump.block_count(); ++i) EXPECT_EQ(dump.events(i), kRun);
}

TEST(Trace, WritesTheRestOfARunThatIsLongerThanTheLimit) {
  Trace trace(kOneBlock);
  const uint64_t execution = trace.begin(EventKind::kExecute, "forward", 0, -1);
  for (int i = 0; i < 5000; ++i) trace.end(trace.begin(EventKind::kKernel, "aten::relu", 0, -1));
  trace.end(execution);
  const Dump dump(trace);
  ASSERT_EQ(dump.block_count(), 2u);
  EXPECT_EQ(dump.events(0), Names({"3977 events were dropped @-1"}));
  EXPECT_EQ(dump.event_count(1), 1024u);
}

TEST(Trace, AnEventOfAFileTakesAtMost48Bytes) {
  Trace trace(kTraceLimit);
  uint64_t recorded = 0;
  for (int i = 0; i < 1000; ++i) recorded += run(trace);
  EXPECT_LE(Dump(trace).size(), recorded * 48 + 1000 * 40);  // 48 bytes for each event and 40 for each run
}

TEST(Trace, TheLevelOfCallsHasRunsOnly) {
  Trace trace(kTraceLimit, TraceLevel::kCalls);
  run(trace);
  EXPECT_EQ(Dump(trace).events(0), Names({"Method::execute @-1"}));
}

TEST(Trace, HasTheTimesOfThreads) {
  Trace trace(kTraceLimit, TraceLevel::kThreads);
  const uint64_t execution = trace.begin(EventKind::kExecute, "forward", 0, -1);
  const uint64_t kernel = trace.begin(EventKind::kKernel, "aten::relu", 0, -1);
  trace.add_thread(0, 10, 20);
  trace.add_thread(1, 12, 21);
  trace.end(kernel);
  trace.end(execution);
  const Dump dump(trace);
  EXPECT_EQ(dump.events(0), Names({"Method::execute @-1", "native_call_relu.out @0", "thread 0 of instruction 0 @-1",
                                   "thread 1 of instruction 0 @-1"}));
  EXPECT_EQ(dump.event(0, 3).start_time(), 12u);
}

TEST(Trace, ClearForgetsAllEvents) {
  Trace trace(kOneBlock);
  for (int i = 0; i < 1000; ++i) run(trace);
  trace.clear();
  EXPECT_EQ(trace.size(), 0u);
  EXPECT_EQ(trace.dropped(), 0u);
  run(trace);
  EXPECT_EQ(Dump(trace).events(0), kRun);
}

TEST(Trace, IgnoresTheEndOfAnEventThatNeverBegan) {
  Trace trace(kTraceLimit);
  trace.end(5);
  trace.end(UINT64_MAX);
  trace.add("late", -1, 0, 1);
  EXPECT_EQ(trace.size(), 0u);
  EXPECT_TRUE(trace.load_events().empty());
}

}  // namespace
}  // namespace edgecore
