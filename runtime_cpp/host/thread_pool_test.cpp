#include "host/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "host/cpu_count.h"

namespace edgecore {
namespace {

// Runs body(begin, end, worker) as a parallel loop.
template <typename Body>
void loop(ThreadPool &pool, uint32_t threads, uint64_t n, uint64_t grain, Body body) {
  pool.parallel_for(
      threads, n, grain,
      [](void *arg, uint64_t begin, uint64_t end, uint32_t worker) { (*static_cast<Body *>(arg))(begin, end, worker); },
      &body);
}

TEST(ThreadPool, RunsEveryItemOnce) {
  ThreadPool pool;
  for (uint32_t threads : {1u, 2u, 3u, 8u}) {
    for (uint64_t n : {0u, 1u, 2u, 7u, 64u, 1000u, 100003u}) {
      for (uint64_t grain : {0u, 1u, 5u, 1000u}) {
        std::vector<uint8_t> seen(n);  // not atomic, so that the thread sanitizer detects races
        loop(pool, threads, n, grain, [&](uint64_t begin, uint64_t end, uint32_t worker) {
          EXPECT_LT(worker, threads);
          EXPECT_TRUE(end - begin >= grain || end == n);
          for (uint64_t i = begin; i < end; ++i) ++seen[i];
        });
        for (uint64_t i = 0; i < n; ++i) ASSERT_EQ(seen[i], 1) << threads << " threads, item " << i << " of " << n;
      }
    }
  }
}

TEST(ThreadPool, ResultsOfOneLoopAreVisibleToTheNext) {
  ThreadPool pool;
  std::vector<uint64_t> values(257);
  constexpr int kLoops = 3000;
  for (int i = 0; i < kLoops; ++i) {
    // Every item reads the next element of the previous result, which another participant may have written.
    std::vector<uint64_t> next(values.size());
    loop(pool, 4, values.size(), 1, [&](uint64_t begin, uint64_t end, uint32_t) {
      for (uint64_t j = begin; j < end; ++j) next[j] = values[(j + 1) % values.size()] + 1;
    });
    values.swap(next);
  }
  for (uint64_t value : values) ASSERT_EQ(value, kLoops);
}

TEST(ThreadPool, WorkerNumbersAreNotShared) {
  ThreadPool pool;
  std::atomic<int> inside[8] = {};
  for (int i = 0; i < 500; ++i) {
    loop(pool, 8, 64, 1, [&](uint64_t, uint64_t, uint32_t worker) {
      EXPECT_EQ(worker, ThreadPool::worker_index());
      EXPECT_TRUE(ThreadPool::in_loop());
      EXPECT_EQ(inside[worker].fetch_add(1), 0);
      inside[worker].fetch_sub(1);
    });
  }
  EXPECT_FALSE(ThreadPool::in_loop());
  EXPECT_EQ(ThreadPool::worker_index(), 0u);
}

TEST(ThreadPool, NestedLoopsRunInlineUnderTheSameNumber) {
  ThreadPool pool;
  std::atomic<uint64_t> items{0};
  loop(pool, 4, 40, 1, [&](uint64_t begin, uint64_t end, uint32_t outer) {
    for (uint64_t i = begin; i < end; ++i) {
      loop(pool, 4, 10, 1, [&](uint64_t inner_begin, uint64_t inner_end, uint32_t inner) {
        EXPECT_EQ(inner, outer);
        items += inner_end - inner_begin;
      });
    }
  });
  EXPECT_EQ(items.load(), 400u);
}

TEST(ThreadPool, ManyCallersShareThePool) {
  ThreadPool pool;
  std::vector<std::thread> callers;
  std::atomic<uint64_t> total{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 400; ++i) {
        std::vector<uint32_t> seen(97);
        loop(pool, 3, seen.size(), 1, [&](uint64_t begin, uint64_t end, uint32_t) {
          for (uint64_t j = begin; j < end; ++j) ++seen[j];
        });
        for (uint32_t count : seen) total += count;
      }
    });
  }
  for (std::thread &caller : callers) caller.join();
  EXPECT_EQ(total.load(), 4u * 400 * 97);
}

TEST(ThreadPool, SleepingWorkersWakeAndStop) {
  for (int i = 0; i < 20; ++i) {
    ThreadPool pool;
    for (int pause : {0, 300}) {
      usleep(static_cast<useconds_t>(pause));
      std::atomic<uint64_t> items{0};
      loop(pool, 3, 30, 1, [&](uint64_t begin, uint64_t end, uint32_t) { items += end - begin; });
      ASSERT_EQ(items.load(), 30u);
    }
  }
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN  // the thread sanitizer does not support threads in a forked child
#endif
#endif
#if !defined(UNDER_TSAN) && !defined(__SANITIZE_THREAD__)
TEST(ThreadPool, WorksInTheChildOfAFork) {
  const auto count = [] {
    std::atomic<uint64_t> items{0};
    loop(ThreadPool::process(), 3, 3000, 1, [&](uint64_t begin, uint64_t end, uint32_t) { items += end - begin; });
    return items.load();
  };
  ASSERT_EQ(count(), 3000u);
  const pid_t child = fork();
  if (child == 0) _exit(count() == 3000 && count() == 3000 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(count(), 3000u);
}
#endif

TEST(ThreadPool, DefaultThreadCountIsAtMostTheProcessorsOfTheProcess) {
  EXPECT_GE(default_thread_count(), 1u);
  EXPECT_LE(default_thread_count(), static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace
}  // namespace edgecore
