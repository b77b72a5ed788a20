// Tests the default thread count on simulated systems: files under a /proc and /sys of the test.
#include "host/cpu_count.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace edgecore {
namespace {

class CpuCount : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "edgecore-cpus-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string &path, const std::string &text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

  // Adds the processors [first, end). Groups of `threads` processors share a core.
  void cores(int first, int end, int threads, const std::string &name = "", const std::string &value = "") {
    for (int cpu = first; cpu < end; ++cpu) {
      const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
      const int core = first + (cpu - first) / threads * threads;
      write(folder + "topology/thread_siblings_list", std::to_string(core) + "-" + std::to_string(core + threads - 1));
      if (!name.empty()) write(folder + name, value);
      allowed_.push_back(cpu);
    }
  }

  uint32_t count() const { return thread_count_of(root_, allowed_); }

  std::string root_;
  std::vector<int> allowed_;
};

TEST_F(CpuCount, CountsHyperthreadsOnce) {
  cores(0, 8, 2);
  EXPECT_EQ(count(), 4u);
  allowed_ = {0, 2, 3};
  EXPECT_EQ(count(), 2u);
  allowed_ = {};
  EXPECT_EQ(count(), 1u);
}

TEST_F(CpuCount, CountsEachProcessorIfThereAreNoFiles) {
  allowed_ = {0, 1, 2};
  EXPECT_EQ(count(), 3u);
}

TEST_F(CpuCount, IsAtMostTheSizeOfTheThreadPool) {
  for (int cpu = 0; cpu < 300; ++cpu) allowed_.push_back(cpu);
  EXPECT_EQ(count(), 256u);
}

TEST_F(CpuCount, CountsPerformanceCoresOnly) {
  cores(0, 12, 2, "cpu_capacity", "1024");
  cores(12, 20, 1, "cpu_capacity", "700");
  write("/sys/devices/cpu_core/cpus", "0-7,8-11");
  write("/sys/devices/cpu_atom/cpus", "12-19");
  EXPECT_EQ(count(), 6u);
  allowed_ = {12, 13, 14};  // a process that is bound to the efficiency cores
  EXPECT_EQ(count(), 3u);
}

TEST_F(CpuCount, CountsLargeAndMiddleCoresByCapacity) {
  cores(0, 4, 1, "cpu_capacity", "325");
  cores(4, 7, 1, "cpu_capacity", "760");
  cores(7, 8, 1, "cpu_capacity", "1024");
  EXPECT_EQ(count(), 4u);
  allowed_ = {0, 1, 2, 3};
  EXPECT_EQ(count(), 4u);
}

TEST_F(CpuCount, CountsFastCoresByFrequency) {
  cores(0, 8, 2, "cpufreq/cpuinfo_max_freq", "5600000");
  cores(8, 10, 2, "cpufreq/cpuinfo_max_freq", "5800000");  // performance cores with a higher turbo frequency
  cores(10, 18, 1, "cpufreq/cpuinfo_max_freq", "3700000");
  EXPECT_EQ(count(), 5u);
}

TEST_F(CpuCount, IsLimitedByTheQuotaOfAControlGroup) {
  cores(0, 8, 1);
  write("/proc/self/cgroup", "0::/work/part");
  write("/sys/fs/cgroup/work/part/cpu.max", "max 100000");
  EXPECT_EQ(count(), 8u);
  write("/sys/fs/cgroup/work/cpu.max", "350000 100000");
  EXPECT_EQ(count(), 3u);
  write("/sys/fs/cgroup/cpu.max", "20000 100000");
  EXPECT_EQ(count(), 1u);
}

TEST_F(CpuCount, IsLimitedByTheQuotaOfAContainer) {
  cores(0, 8, 1);
  write("/proc/self/cgroup", "0::/a/path/of/the/host");
  write("/sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(count(), 2u);
}

TEST_F(CpuCount, IsLimitedByAQuotaOfControlGroupsVersion1) {
  cores(0, 8, 1);
  write("/proc/self/cgroup", "5:memory:/box\n4:cpu,cpuacct:/box\n3:cpuset:/\n0::/");
  write("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "50000");
  write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(count(), 8u);
  write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "250000");
  EXPECT_EQ(count(), 5u);
}

TEST_F(CpuCount, IgnoresNonsenseInFiles) {
  cores(0, 4, 1, "cpu_capacity", "many");
  write("/sys/devices/cpu_core/cpus", "x,3-1,-,9999999999");
  write("/proc/self/cgroup", "::\n0\n0::\n4:cpu:no/slash");
  write("/sys/fs/cgroup/cpu.max", "0 0");
  EXPECT_EQ(count(), 4u);
}

}  // namespace
}  // namespace edgecore
