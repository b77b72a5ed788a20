// Tests edgecore/pending_run.hpp: the notification of the host at the end of a run, and the lifetime of the objects
// that a run uses.
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "edgecore/pending_run.hpp"

namespace {

using namespace edgecore::backend;
using Done = PendingRun::Done;

// The calls of the completion function.
struct Report {
  int calls = 0;
  int32_t code = -1;
  std::string text;
};

edgecore_execute_info info_for(Report &report) {
  edgecore_execute_info info = {};
  info.completion_arg = &report;
  info.completion = [](void *arg, int32_t code, edgecore_str text) {
    auto *to = static_cast<Report *>(arg);
    ++to->calls;
    to->code = code;
    to->text = to_view(text);
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

TEST(PendingRun, TheHostIsToldAfterTheResultsAreReady) {
  Report report;
  PendingRun pending;
  Done done;
  bool is_ready = false;
  const int32_t code = pending.begin(
      info_for(report), [&](Done end) { done = std::move(end); },
      [&] {
        EXPECT_EQ(report.calls, 0);
        is_ready = true;
      });
  EXPECT_EQ(code, EDGECORE_PENDING);
  EXPECT_EQ(report.calls, 0);
  done(nullptr);
  EXPECT_TRUE(is_ready);
  EXPECT_EQ(report.calls, 1);
  EXPECT_EQ(report.code, EDGECORE_OK);
}

TEST(PendingRun, ARunMayEndBeforeItReturns) {
  Report report;
  PendingRun pending;
  for (int run = 1; run <= 2; ++run) {
    EXPECT_EQ(pending.begin(
                  info_for(report), [](const Done &done) { done(nullptr); }, [] {}),
              EDGECORE_PENDING);
    EXPECT_EQ(report.calls, run);
  }
}

TEST(PendingRun, TheHostIsToldTheFirstFailure) {
  Report report;
  PendingRun pending;
  const auto failure = failure_of([] { fail(EDGECORE_NOT_SUPPORTED, "no %s", "device"); });
  pending.begin(
      info_for(report), [&](const Done &done) { done(failure); }, [] { FAIL() << "the run has no results"; });
  EXPECT_EQ(report.code, EDGECORE_NOT_SUPPORTED);
  EXPECT_EQ(report.text, "no device");
  const auto other = failure_of([] { throw std::runtime_error("broken"); });
  pending.begin(
      info_for(report), [&](const Done &done) { done(other); }, [] {});
  EXPECT_EQ(report.code, EDGECORE_INTERNAL);
  EXPECT_EQ(report.text, "broken");
  pending.begin(
      info_for(report), [](const Done &done) { done(nullptr); }, [] { fail(EDGECORE_INVALID_PROGRAM, "odd"); });
  EXPECT_EQ(report.code, EDGECORE_INVALID_PROGRAM);
  EXPECT_EQ(report.calls, 3);
}

TEST(PendingRun, ARunThatDoesNotStartIsAFailureOfExecute) {
  Report report;
  PendingRun pending;  // the destructor of `pending` must not wait
  try {
    pending.begin(
        info_for(report), [](const Done &) { fail(EDGECORE_INTERNAL, "full"); }, [] {});
    FAIL() << "it started";
  } catch (const Failure &failure) {
    EXPECT_EQ(failure.text, "full");
  }
  EXPECT_EQ(report.calls, 0);
}

TEST(PendingRun, ItsEndWaitsForTheRun) {
  Report report;
  std::thread thread;
  {
    PendingRun pending;
    pending.begin(
        info_for(report), [&](Done done) { thread = std::thread([done = std::move(done)] { done(nullptr); }); }, [] {});
  }
  EXPECT_EQ(report.calls, 1);
  thread.join();
}

}  // namespace
