#include "host/trace.h"

#include <gtest/gtest.h>

#include "etdump_generated.h"

namespace edgecore {
namespace {

namespace etd = fb::etdump;

TEST(Trace, WritesOneRunForEachExecution) {
  Trace trace;
  trace.end(trace.begin(EventKind::kPrepare, "XnnpackBackend", 1, -1));
  for (int run = 0; run < 2; ++run) {
    const uint64_t execution = trace.begin(EventKind::kExecute, "forward", 0, -1);
    trace.end(trace.begin(EventKind::kKernel, "aten::relu", 0, -1));
    const uint64_t delegate = trace.begin(EventKind::kDelegate, "XnnpackBackend", 1, -1);
    trace.end(trace.begin(EventKind::kPrepare, "XnnpackBackend", 1, -1));
    trace.end(trace.begin(EventKind::kBackend, "convolution", 0, 42));
    trace.add("sigmoid", 43, 2000, 5000);
    trace.end(delegate);
    trace.end(execution);
  }
  const std::vector<uint8_t> bytes = etdump_of({&trace});
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  ASSERT_TRUE(etd::VerifySizePrefixedETDumpBuffer(verifier));
  const etd::ETDump &dump = *etd::GetSizePrefixedETDump(bytes.data());
  ASSERT_EQ(dump.run_data()->size(), 3u);
  EXPECT_EQ(dump.run_data()->Get(0)->name()->str(), "Load");
  const etd::RunData &run = *dump.run_data()->Get(2);
  EXPECT_EQ(run.name()->str(), "Execute");
  ASSERT_EQ(run.events()->size(), 6u);
  const auto event = [&](uint32_t i) { return run.events()->Get(i)->profile_event(); };
  EXPECT_EQ(event(0)->name()->str(), "Method::execute");
  EXPECT_EQ(event(0)->instruction_id(), -1);
  EXPECT_EQ(event(1)->name()->str(), "native_call_relu");
  EXPECT_EQ(event(2)->instruction_id(), 1);
  EXPECT_EQ(event(4)->instruction_id(), 1);  // the instruction of the enclosing event
  EXPECT_EQ(event(4)->delegate_debug_id_str()->str(), "convolution #42");
  EXPECT_EQ(event(4)->delegate_debug_id_int(), -1);
  EXPECT_EQ(event(5)->instruction_id(), 1);
  EXPECT_EQ(event(5)->name()->str(), "sigmoid #43");
  EXPECT_EQ(event(5)->start_time(), event(3)->end_time() + 2000);
  EXPECT_EQ(event(5)->end_time(), event(3)->end_time() + 5000);
  EXPECT_LE(event(0)->start_time(), event(4)->start_time());
  EXPECT_GE(event(0)->end_time(), event(4)->end_time());
}

TEST(Trace, IgnoresTheEndOfAnEventThatNeverBegan) {
  Trace trace;
  trace.end(5);
  trace.add("late", -1, 0, 1);
  EXPECT_TRUE(trace.events().empty());
}

}  // namespace
}  // namespace edgecore
