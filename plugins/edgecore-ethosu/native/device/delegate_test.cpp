// Tests the delegate for a device with the stub of Arm's driver: an output has the bytes at its place in the arena.
#include <gtest/gtest.h>

#include <cstring>

#include "edgecore_ethosu.h"
#include "session.h"

namespace edgecore::ethosu {
namespace {

using test::Bytes;
using test::Content;
using test::Session;
using test::view;

const std::vector<uint8_t> kElementSizes = {1, 2, 2, 1};

std::vector<Bytes> arguments() { return {{1, 2, 3, 4, 5, 6}, {11, 12, 13, 14, 15, 16, 17, 18}, Bytes(8), Bytes(6)}; }

std::string last_message() { return test::logged.empty() ? "" : test::logged.back(); }

void expect_text(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Delegate, InputsAndOutputsHaveTheirPlacesInTheArena) {
  const Bytes blob = test::blob_of({});
  Session session(view(blob));
  ASSERT_EQ(session.error.text, "");
  std::vector<Bytes> values = arguments();
  ASSERT_EQ(session.run(values, kElementSizes), EDGECORE_OK) << session.error.text << last_message();
  EXPECT_EQ(values[2], values[1]);
  EXPECT_EQ(values[3], values[0]);
  EXPECT_EQ(last_message(),
            "The stub of an ethos-u55-128 accepts a command stream of 2 operations; bytes: weights 64, arena 64.");
  ASSERT_EQ(session.needs.size(), 1u);
  EXPECT_EQ(session.needs[0].kind, EDGECORE_MEMORY_SCRATCH);
  EXPECT_EQ(session.needs[0].space, 0u);
  EXPECT_EQ(session.needs[0].bytes, 64u);
  EXPECT_EQ(session.needs[0].alignment, 32u);
}

TEST(Delegate, TheArenaIsWholeCacheLines) {
  Content content;
  content.arena = 65;
  const Bytes blob = test::blob_of(content);
  Session session(view(blob));
  std::vector<Bytes> values = arguments();
  ASSERT_EQ(session.run(values, kElementSizes), EDGECORE_OK) << session.error.text;
  EXPECT_EQ(session.needs[0].bytes, 96u);
}

TEST(Delegate, ARunIsAnEventOfAProfiledInstance) {
  const Bytes blob = test::blob_of({});
  Session session(view(blob));
  std::vector<Bytes> values = arguments();
  ASSERT_EQ(session.run(values, kElementSizes), EDGECORE_OK);
  EXPECT_TRUE(session.scope.events.empty());
  session.flags = EDGECORE_INSTANCE_PROFILED;
  ASSERT_EQ(session.run(values, kElementSizes), EDGECORE_OK);
  EXPECT_EQ(session.scope.events, std::vector<std::string>{"NPU ended"});
}

TEST(Delegate, ArgumentsThatTheCommandStreamDoesNotHaveAreRefused) {
  const Bytes blob = test::blob_of({});
  Session session(view(blob));
  std::vector<Bytes> values = arguments();
  values.pop_back();
  EXPECT_EQ(session.run(values, kElementSizes), EDGECORE_INVALID_ARGUMENT);
  expect_text(session.error.text, "3 arguments instead of 4");
  values = arguments();
  values[1].resize(6);
  EXPECT_EQ(session.run(values, kElementSizes), EDGECORE_INVALID_ARGUMENT);
  expect_text(session.error.text, "argument 1 has 6 bytes, and the command stream 8");
  values = arguments();
  EXPECT_EQ(session.run(values, {1, 1, 2, 1}), EDGECORE_INVALID_TYPE);
  expect_text(session.error.text, "argument 1 must have integers of 2 bytes");
  session.dtype = EDGECORE_DL_FLOAT;
  EXPECT_EQ(session.run(values, kElementSizes), EDGECORE_INVALID_TYPE);
}

TEST(Delegate, AMisalignedBlobIsRefused) {
  const Bytes blob = test::blob_of({});
  Bytes moved(blob.size() + 4);
  std::copy(blob.begin(), blob.end(), moved.begin() + 4);
  Session session({moved.data() + 4, blob.size()});
  EXPECT_EQ(session.error.code, EDGECORE_INVALID_ARGUMENT);
  expect_text(session.error.text,
              "no multiple of 16, as the NPU needs it: align the file in memory, and its segments, to 16 bytes");
}

TEST(Delegate, AnotherFormatIsRefused) {
  const Bytes blob = test::blob_of({});
  const Session session(view(blob), "ethosu-vela 2 ethos-u55-128");
  EXPECT_EQ(session.error.code, EDGECORE_DELEGATE_INVALID_COMPATIBILITY);
  expect_text(session.error.text, "'ethosu-vela 2 ethos-u55-128' is not a format that this release");
}

TEST(Delegate, EveryTruncationIsRefused) {
  const Bytes blob = test::blob_of({});
  for (size_t size = 0; size < blob.size(); ++size) {
    // Exact size, so that the address sanitizer detects each read past the end.
    const Bytes part(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(Session(view(part)).error.code, EDGECORE_DELEGATE_INVALID_COMPATIBILITY) << size;
  }
}

TEST(Delegate, AnArgumentOutsideTheArenaIsRefused) {
  for (const test::Tensor &tensor : {test::Tensor{{1, 1, 1, 1, 2, 3}, 1, 59}, test::Tensor{{1, 1, 1, 1, 2, 3}, 1, 0, 2},
                                     test::Tensor{{1, 1, 1, 1, 2, 3}, 1, -16}, test::Tensor{{1, 1, 1, 8, 8, 8}, 1, 0},
                                     test::Tensor{{1, 1, 1, 1, 0, 3}, 1, 0}, test::Tensor{{1, 1, 1, 1, 2, 3}, 3, 0}}) {
    Content content;
    content.outputs[1] = tensor;
    const Bytes blob = test::blob_of(content);
    const Session session(view(blob));
    EXPECT_EQ(session.error.code, EDGECORE_DELEGATE_INVALID_COMPATIBILITY);
    expect_text(session.error.text, "the blob is damaged: output 1 ");
  }
}

TEST(Delegate, AFailureOfTheDriverIsAnError) {
  Content content;
  content.configuration = 0x3008;
  const Bytes blob = test::blob_of(content);
  Session session(view(blob));
  std::vector<Bytes> values = arguments();
  EXPECT_EQ(session.run(values, kElementSizes), EDGECORE_ACCESS_FAILED);
  EXPECT_EQ(session.error.text, "Arm's driver has not run the command stream (it returned -1): its log says why.");
  expect_text(last_message(), "refuses a command stream: it was compiled for ethos-u55-256.");
}

TEST(Delegate, ADelegateBeyondThePoolIsRefused) {
  const Bytes blob = test::blob_of({});
  {
    const Session first(view(blob)), second(view(blob)), third(view(blob)), fourth(view(blob)), fifth(view(blob));
    EXPECT_EQ(fourth.error.text, "");
    EXPECT_EQ(fifth.error.code, EDGECORE_OUT_OF_RESOURCES);
    expect_text(fifth.error.text, "room for 4 delegates: build it with a larger EDGECORE_ETHOSU_DELEGATES");
  }
  EXPECT_EQ(Session(view(blob)).error.text, "");
}

// A command stream that uses the fast scratch, as in the memory mode Dedicated_Sram.
Content with_fast_scratch() {
  Content content;
  content.commands[0] = test::set(0x10f, 2);
  content.commands[2] = 127;
  return content;
}

class FastScratch : public testing::Test {
 protected:
  void TearDown() override { edgecore_ethosu_set_fast_scratch(nullptr, 0); }

  alignas(32) uint8_t memory_[256];
  const Bytes blob_ = test::blob_of(with_fast_scratch());
  const std::string needs_ = "ethosu-vela 1 ethos-u55-128 fast 128";
};

TEST_F(FastScratch, IsTheThirdRegionOfAModelThatNeedsIt) {
  edgecore_ethosu_set_fast_scratch(memory_, sizeof(memory_));
  Session session(view(blob_), needs_);
  std::vector<Bytes> values = arguments();
  ASSERT_EQ(session.run(values, kElementSizes), EDGECORE_OK) << session.error.text << last_message();
  expect_text(last_message(), "bytes: weights 64, arena 64, fast scratch 128.");
}

TEST_F(FastScratch, IsNoRegionOfAModelThatDoesNotNeedIt) {
  edgecore_ethosu_set_fast_scratch(memory_, sizeof(memory_));
  const Bytes blob = test::blob_of({});
  Session session(view(blob));
  std::vector<Bytes> values = arguments();
  ASSERT_EQ(session.run(values, kElementSizes), EDGECORE_OK);
  expect_text(last_message(), "bytes: weights 64, arena 64.");
}

TEST_F(FastScratch, ThatIsMissingOrTooSmallIsNamed) {
  const Session missing(view(blob_), needs_);
  EXPECT_EQ(missing.error.code, EDGECORE_DELEGATE_MEMORY_ALLOCATION_FAILED);
  expect_text(missing.error.text, "needs 128 bytes of fast scratch, and the application has given 0: call edgecore_");
  edgecore_ethosu_set_fast_scratch(memory_, 127);
  const Session small(view(blob_), needs_);
  expect_text(small.error.text, "needs 128 bytes of fast scratch, and the application has given 127");
}

TEST_F(FastScratch, ThatIsNotMadeOfCacheLinesIsRefused) {
  edgecore_ethosu_set_fast_scratch(memory_ + 16, 160);
  const Session moved(view(blob_), needs_);
  EXPECT_EQ(moved.error.code, EDGECORE_INVALID_ARGUMENT);
  expect_text(moved.error.text, ": both must be multiples of 32, the size of a cache line");
  edgecore_ethosu_set_fast_scratch(memory_, 144);
  const Session cut(view(blob_), needs_);
  expect_text(cut.error.text, "the fast scratch has 144 bytes at the address ");
}

TEST_F(FastScratch, IsKeptByAModelThatIsLoaded) {
  edgecore_ethosu_set_fast_scratch(memory_, sizeof(memory_));
  Session session(view(blob_), needs_);
  edgecore_ethosu_set_fast_scratch(nullptr, 0);
  std::vector<Bytes> values = arguments();
  ASSERT_EQ(session.run(values, kElementSizes), EDGECORE_OK) << session.error.text << last_message();
  expect_text(last_message(), "fast scratch 128.");
}

TEST_F(FastScratch, GoesWhollyToAFileOfAnotherToolchain) {
  edgecore_ethosu_set_fast_scratch(memory_, sizeof(memory_));
  Session session(view(blob_), "");
  std::vector<Bytes> values = arguments();
  ASSERT_EQ(session.run(values, kElementSizes), EDGECORE_OK) << session.error.text << last_message();
  expect_text(last_message(), "fast scratch 256.");
}

TEST_F(FastScratch, ThatWasNotDeclaredIsFoundByTheDriver) {
  edgecore_ethosu_set_fast_scratch(memory_, sizeof(memory_));
  Session session(view(blob_));
  std::vector<Bytes> values = arguments();
  EXPECT_EQ(session.run(values, kElementSizes), EDGECORE_ACCESS_FAILED);
  expect_text(last_message(), "input in the fast scratch, which the call does not have.");
}

}  // namespace
}  // namespace edgecore::ethosu
