// Tests of runs that go on after `execute`: what the host is told, when, and that a run outlives nothing that it uses.
#include "pending.h"

#include <stdexcept>
#include <thread>

#include "test_support.h"

namespace edgecore_coreml {
namespace {

using edgecore::backend::fail;

// What the host was told.
struct Told {
  int calls = 0;
  int32_t code = -1;
  std::string text;
};

edgecore_execute_info info_for(Told &told) {
  edgecore_execute_info info = {};
  info.completion_arg = &told;
  info.completion = [](void *arg, int32_t code, edgecore_str text) {
    auto *to = static_cast<Told *>(arg);
    ++to->calls;
    to->code = code;
    to->text = edgecore::backend::to_view(text);
  };
  return info;
}

std::exception_ptr failure_of(const std::function<void()> &body) {
  try {
    body();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

TEST(Pending, TheHostIsToldAfterTheResultsAreReady) {
  Told told;
  Pending pending;
  Done done;
  bool is_ready = false;
  const int32_t code = pending.begin(
      info_for(told), [&](Done given) { done = std::move(given); },
      [&] {
        EXPECT_EQ(told.calls, 0);
        is_ready = true;
      });
  EXPECT_EQ(code, EDGECORE_PENDING);
  EXPECT_EQ(told.calls, 0);
  done(nullptr);
  EXPECT_TRUE(is_ready);
  EXPECT_EQ(told.calls, 1);
  EXPECT_EQ(told.code, EDGECORE_OK);
}

TEST(Pending, ARunMayEndBeforeItReturns) {
  Told told;
  Pending pending;
  for (int run = 1; run <= 2; ++run) {
    EXPECT_EQ(pending.begin(
                  info_for(told), [](const Done &done) { done(nullptr); }, [] {}),
              EDGECORE_PENDING);
    EXPECT_EQ(told.calls, run);
  }
}

TEST(Pending, TheHostIsToldTheFirstFailure) {
  Told told;
  Pending pending;
  const auto failure = failure_of([] { fail(EDGECORE_NOT_SUPPORTED, "no %s", "device"); });
  pending.begin(
      info_for(told), [&](const Done &done) { done(failure); }, [] { FAIL() << "the run has no results"; });
  EXPECT_EQ(told.code, EDGECORE_NOT_SUPPORTED);
  EXPECT_EQ(told.text, "no device");
  const auto other = failure_of([] { throw std::runtime_error("broken"); });
  pending.begin(
      info_for(told), [&](const Done &done) { done(other); }, [] {});
  EXPECT_EQ(told.code, EDGECORE_INTERNAL);
  EXPECT_EQ(told.text, "broken");
  pending.begin(
      info_for(told), [](const Done &done) { done(nullptr); }, [] { fail(EDGECORE_INVALID_PROGRAM, "odd"); });
  EXPECT_EQ(told.code, EDGECORE_INVALID_PROGRAM);
  EXPECT_EQ(told.calls, 3);
}

TEST(Pending, ARunThatDoesNotStartIsAFailureOfExecute) {
  Told told;
  Pending pending;  // its end must not wait
  test::expect_failure("full", [&] {
    pending.begin(
        info_for(told), [](const Done &) { fail(EDGECORE_INTERNAL, "full"); }, [] {});
  });
  EXPECT_EQ(told.calls, 0);
}

TEST(Pending, ItsEndWaitsForTheRun) {
  Told told;
  std::thread thread;
  {
    Pending pending;
    pending.begin(
        info_for(told), [&](Done done) { thread = std::thread([done = std::move(done)] { done(nullptr); }); }, [] {});
  }
  EXPECT_EQ(told.calls, 1);
  thread.join();
}

// A session that only predicts has ended its run when `start` returns.
TEST(Pending, ASessionPredictsAtOnceUnlessItCanDoOtherwise) {
  struct Doubling : Session {
    void predict(const std::vector<Array> &inputs, std::vector<Array> &outputs) override {
      *static_cast<float *>(outputs[0].data) = 2 * *static_cast<float *>(inputs[0].data);
    }
    void read_state(const std::string &, Array) override {}
    void write_state(const std::string &, Array) override {}
  } session;
  float in = 3, out = 0;
  std::vector<Array> inputs = {{Element::kFloat32, {1}, &in}}, outputs = {{Element::kFloat32, {1}, &out}};
  int ends = 0;
  session.start(inputs, outputs, [&](const std::exception_ptr &failure) { ends += failure == nullptr; });
  EXPECT_EQ(out, 6);
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace edgecore_coreml
