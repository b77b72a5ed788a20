// Tests the thread that waits for runs.
#include "waiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace edgecore::vulkan {
namespace {

TEST(Waiter, TasksOfManyThreadsRunOneAtATimeInTheirOrder) {
  constexpr int kThreads = 4, kTasks = 500;
  std::vector<std::pair<int, int>> order;  // written by the waiter's thread alone
  std::atomic<int> running{0};
  bool overlapped = false;
  {
    std::promise<void> begin;
    Waiter waiter;
    waiter.add([&] { begin.get_future().wait(); });
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kTasks; ++i) {
          waiter.add([&, thread, i] {
            overlapped = overlapped || running.fetch_add(1) != 0;
            order.emplace_back(thread, i);
            --running;
          });
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    begin.set_value();
  }  // the destructor waits for the last task
  EXPECT_FALSE(overlapped);
  ASSERT_EQ(order.size(), size_t{kThreads * kTasks});
  int next[kThreads] = {};
  for (const auto &[thread, number] : order) EXPECT_EQ(number, next[thread]++);
}

TEST(Waiter, ATaskMayAddAnother) {
  std::promise<int> result;
  Waiter waiter;
  waiter.add([&] { waiter.add([&] { result.set_value(7); }); });
  EXPECT_EQ(result.get_future().get(), 7);
}

TEST(Waiter, ATaskIsDestroyedAfterItHasRun) {
  const auto held = std::make_shared<int>(7);
  {
    Waiter waiter;
    waiter.add([held] {});
  }
  EXPECT_EQ(held.use_count(), 1);
  const Waiter unused;
}

}  // namespace
}  // namespace edgecore::vulkan
