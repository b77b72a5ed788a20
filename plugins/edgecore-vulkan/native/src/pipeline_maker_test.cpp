// Tests the threads that compile shaders: they run concurrently, compile each shader once, and pass errors to the
// waiting threads.
#include "pipeline_maker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>

#include "edgecore/backend.hpp"

namespace edgecore::vulkan {
namespace {

// Returns a handle that no driver has created.
VkPipeline handle(uintptr_t number) { return reinterpret_cast<VkPipeline>(number); }

TEST(PipelineMaker, EachResultIsThatOfItsOwnFunction) {
  constexpr uintptr_t kShaders = 200;
  for (const size_t threads : {0, 1, 4}) {
    PipelineMaker maker(threads);
    std::vector<std::shared_future<VkPipeline>> results;
    for (uintptr_t i = 1; i <= kShaders; ++i) {
      results.push_back(maker.make([i] { return handle(i); }));
    }
    for (uintptr_t i = 1; i <= kShaders; ++i) EXPECT_EQ(results[i - 1].get(), handle(i));
  }
}

TEST(PipelineMaker, ThreadsCompileAtTheSameTimeAndTheCallerGoesOn) {
  constexpr int kThreads = 3;
  std::atomic<int> running{0};
  PipelineMaker maker(kThreads);
  std::vector<std::shared_future<VkPipeline>> results;
  for (int i = 0; i < kThreads; ++i) {
    results.push_back(maker.make([&] {
      ++running;
      while (running < kThreads) std::this_thread::yield();
      return handle(1);
    }));
  }
  for (auto &result : results) EXPECT_EQ(result.get(), handle(1));  // ends only if all run at the same time
}

TEST(PipelineMaker, WithoutThreadsTheCallerCompiles) {
  PipelineMaker maker(0);
  std::thread::id thread;
  auto result = maker.make([&] { return thread = std::this_thread::get_id(), handle(1); });
  EXPECT_EQ(result.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST(PipelineMaker, ThereAreNoMoreThreadsThanAllowed) {
  constexpr size_t kThreads = 2;
  std::mutex mutex;
  std::set<std::thread::id> seen;
  {
    PipelineMaker maker(kThreads);
    for (int i = 0; i < 100; ++i) {
      maker.make([&] {
        const std::lock_guard<std::mutex> lock(mutex);
        seen.insert(std::this_thread::get_id());
        return handle(1);
      });
    }
  }
  EXPECT_GE(seen.size(), 1u);
  EXPECT_LE(seen.size(), kThreads);
  EXPECT_EQ(seen.count(std::this_thread::get_id()), 0u);
}

TEST(PipelineMaker, AFailureReachesEveryoneWhoWaits) {
  for (const size_t threads : {0, 2}) {
    PipelineMaker maker(threads);
    auto failed = maker.make([]() -> VkPipeline { backend::fail(EDGECORE_OUT_OF_RESOURCES, "no memory"); });
    auto made = maker.make([] { return handle(1); });
    for (int i = 0; i < 2; ++i) {
      try {
        failed.get();
        ADD_FAILURE() << "nothing failed";
      } catch (const backend::Failure &failure) {
        EXPECT_EQ(failure.code, EDGECORE_OUT_OF_RESOURCES);
      }
    }
    EXPECT_EQ(made.get(), handle(1));
  }
}

TEST(PipelineMaker, TheEndWaitsForWhatWasAskedFor) {
  std::atomic<int> made{0};
  const auto held = std::make_shared<int>(7);
  {
    PipelineMaker maker(2);
    for (int i = 0; i < 50; ++i) {
      maker.make([&made, held] {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        ++made;
        return handle(1);
      });
    }
  }
  EXPECT_EQ(made, 50);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace edgecore::vulkan
