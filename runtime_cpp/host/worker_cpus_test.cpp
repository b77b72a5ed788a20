#include "host/worker_cpus.h"

#include <gtest/gtest.h>

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "host/thread_pool.h"

namespace edgecore {
namespace {

std::vector<int> cpus_of(const cpu_set_t &mask) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> cpus_of_thread(pid_t thread) {
  cpu_set_t mask;
  EXPECT_EQ(sched_getaffinity(thread, sizeof mask, &mask), 0);
  return cpus_of(mask);
}

void bind(pid_t thread, const std::vector<int> &cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) CPU_SET(cpu, &mask);
  ASSERT_EQ(sched_setaffinity(thread, sizeof mask, &mask), 0);
}

// Restores the CPUs of the main thread, which runs the tests.
class WorkerCpusTest : public testing::Test {
 protected:
  void SetUp() override {
    if (all_.size() < 2) GTEST_SKIP() << "this process may run on one CPU only";
  }
  void TearDown() override { bind(getpid(), all_); }

  // Runs a loop of `threads` participants in a thread that may run on `cpus`, and returns the CPUs of its workers.
  std::vector<std::vector<int>> worker_cpus(uint32_t threads, const std::vector<int> &cpus) {
    std::vector<std::vector<int>> found(threads);
    std::thread caller([&] {
      bind(0, cpus);
      std::atomic<uint32_t> inside{0};
      auto body = [&](uint32_t worker) {
        found[worker] = cpus_of_thread(0);
        ++inside;
        while (inside.load() < threads) sched_yield();  // so that each participant computes one item
      };
      pool_.parallel_for(
          threads, threads, 1,
          [](void *arg, uint64_t, uint64_t, uint32_t worker) { (*static_cast<decltype(body) *>(arg))(worker); }, &body);
    });
    caller.join();
    found.erase(found.begin());
    return found;
  }

  std::vector<int> without(int cpu) const {
    std::vector<int> rest;
    for (const int other : all_) {
      if (other != cpu) rest.push_back(other);
    }
    return rest;
  }

  const std::vector<int> all_ = cpus_of_thread(0);
  ThreadPool pool_;
};

TEST_F(WorkerCpusTest, AWorkerMayNotRunOnTheCpuOfItsCaller) {
  for (int round = 0; round < 2; ++round) {
    for (const int cpu : {all_.front(), all_.back()}) EXPECT_EQ(worker_cpus(2, {cpu})[0], without(cpu));
  }
}

TEST_F(WorkerCpusTest, AnotherWorkerIsKeptOffTheCallerToo) {
  if (all_.size() < 3) GTEST_SKIP() << "this process may run on two CPUs only";
  EXPECT_EQ(worker_cpus(2, {all_[0]})[0], without(all_[0]));
  for (const std::vector<int> &cpus : worker_cpus(3, {all_[0]})) EXPECT_EQ(cpus, without(all_[0]));
}

TEST_F(WorkerCpusTest, MoreParticipantsThanCpusShareAllOfThem) {
  if (all_.size() >= kMaxThreads) GTEST_SKIP() << "a loop has fewer participants than this machine has CPUs";
  const auto threads = static_cast<uint32_t>(all_.size() + 1);
  for (const std::vector<int> &cpus : worker_cpus(threads, {all_[0]})) EXPECT_EQ(cpus, all_);
  EXPECT_EQ(worker_cpus(2, {all_[0]})[0], without(all_[0]));
}

TEST_F(WorkerCpusTest, AProcessWithOneCpuKeepsItsWorkersThere) {
  bind(getpid(), {all_[0]});
  EXPECT_EQ(worker_cpus(2, {all_[0]})[0], std::vector<int>{all_[0]});
}

TEST_F(WorkerCpusTest, AChangedMaskOfTheProcessIsFollowed) {
  ASSERT_EQ(worker_cpus(2, {all_[0]})[0], without(all_[0]));
  bind(getpid(), {all_[0]});
  // The process may run only on the caller's CPU, so no other CPU is left for the workers, and the workers keep their
  // masks.
  EXPECT_EQ(worker_cpus(2, {all_[0]})[0], without(all_[0]));
  bind(getpid(), all_);
  EXPECT_EQ(worker_cpus(2, {all_[1]})[0], without(all_[1]));
}

TEST(WorkerCpus, LooksAgainOnlyIfSomethingHasChanged) {
  const std::vector<int> all = cpus_of_thread(0);
  if (all.size() < 2) GTEST_SKIP() << "this process may run on one CPU only";
  std::thread([&] {
    bind(0, {all[0]});
    WorkerCpus cpus;
    EXPECT_TRUE(cpus.update(2, 1));
    for (int i = 0; i < 10000; ++i) ASSERT_FALSE(cpus.update(2, 1));
    EXPECT_TRUE(cpus.update(2, 2));  // a worker was added
    EXPECT_FALSE(cpus.update(2, 2));
    bind(0, {all[1]});
    EXPECT_TRUE(cpus.update(2, 2));
    EXPECT_FALSE(cpus.update(2, 2));
  }).join();
}

}  // namespace
}  // namespace edgecore
#endif
