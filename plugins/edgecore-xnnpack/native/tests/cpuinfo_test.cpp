// Tests our cpuinfo: the microarchitectures for their numbers, and files of Linux. test_cpuinfo.py compares the results
// on this machine with those from the original library.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "processor.h"

namespace {

namespace fs = std::filesystem;

TEST(Cpuinfo, MicroarchitecturesOfAmd) {
  EXPECT_EQ(edgecore_amd_uarch(0x17, 0x01), cpuinfo_uarch_zen);   // Naples
  EXPECT_EQ(edgecore_amd_uarch(0x17, 0x18), cpuinfo_uarch_zen);   // Picasso
  EXPECT_EQ(edgecore_amd_uarch(0x17, 0x31), cpuinfo_uarch_zen2);  // Rome
  EXPECT_EQ(edgecore_amd_uarch(0x17, 0x71), cpuinfo_uarch_zen2);  // Matisse
  EXPECT_EQ(edgecore_amd_uarch(0x18, 0x00), cpuinfo_uarch_dhyana);
  EXPECT_EQ(edgecore_amd_uarch(0x19, 0x01), cpuinfo_uarch_zen3);  // Milan
  EXPECT_EQ(edgecore_amd_uarch(0x19, 0x50), cpuinfo_uarch_zen3);  // Cezanne
  EXPECT_EQ(edgecore_amd_uarch(0x19, 0x11), cpuinfo_uarch_zen4);  // Genoa
  EXPECT_EQ(edgecore_amd_uarch(0x19, 0x61), cpuinfo_uarch_zen4);  // Raphael
  EXPECT_EQ(edgecore_amd_uarch(0x19, 0xA0), cpuinfo_uarch_zen4);  // Bergamo
  EXPECT_EQ(edgecore_amd_uarch(0x1A, 0x44), cpuinfo_uarch_zen5);  // Granite Ridge
  EXPECT_EQ(edgecore_amd_uarch(0x15, 0x02), cpuinfo_uarch_unknown);
}

TEST(Cpuinfo, MicroarchitecturesOfIntel) {
  EXPECT_EQ(edgecore_intel_uarch(6, 0x55), cpuinfo_uarch_skylake_x);  // also Cascade Lake
  EXPECT_EQ(edgecore_intel_uarch(6, 0xCF), cpuinfo_uarch_unknown);    // Emerald Rapids
}

TEST(Cpuinfo, MicroarchitecturesOfArm) {
  EXPECT_EQ(edgecore_arm_uarch(0x410FD034), cpuinfo_uarch_cortex_a53);
  EXPECT_EQ(edgecore_arm_uarch(0x410FD050), cpuinfo_uarch_cortex_a55r0);
  EXPECT_EQ(edgecore_arm_uarch(0x412FD050), cpuinfo_uarch_cortex_a55);
  EXPECT_EQ(edgecore_arm_uarch(0x410FD083), cpuinfo_uarch_cortex_a72);
  EXPECT_EQ(edgecore_arm_uarch(0x414FD0B1), cpuinfo_uarch_cortex_a76);
  EXPECT_EQ(edgecore_arm_uarch(0x413FD0C1), cpuinfo_uarch_neoverse_n1);
  EXPECT_EQ(edgecore_arm_uarch(0x51DF805E), cpuinfo_uarch_cortex_a55);  // Kryo 4xx Silver
  EXPECT_EQ(edgecore_arm_uarch(0x534F0010), cpuinfo_uarch_exynos_m2);
  EXPECT_EQ(edgecore_arm_uarch(0x531F0010), cpuinfo_uarch_exynos_m1);
  EXPECT_EQ(edgecore_arm_uarch(0x611F0221), cpuinfo_uarch_unknown);  // Apple
}

class CpuinfoFiles : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string &name, const std::string &text) {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void write_core(int core, const std::string &name, const std::string &text) {
    write("sys/devices/system/cpu/cpu" + std::to_string(core) + "/" + name, text);
  }

  const fs::path root_ = fs::path(testing::TempDir()) / "edgecore-cpuinfo";
};

TEST_F(CpuinfoFiles, TheFastestCoreHasTheLargestCapacity) {
  EXPECT_EQ(edgecore_fastest_core(root_.c_str()), 0);
  for (const int core : {0, 1, 2, 3}) write_core(core, "cpu_capacity", core < 2 ? "381\n" : "1024\n");
  EXPECT_EQ(edgecore_fastest_core(root_.c_str()), 2);
}

TEST_F(CpuinfoFiles, TheIdOfACore) {
  uint32_t midr = 0;
  EXPECT_FALSE(edgecore_read_midr(root_.c_str(), 0, &midr));
  write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 17\n");
  EXPECT_FALSE(edgecore_read_midr(root_.c_str(), 0, &midr));
  write("proc/cpuinfo",
        "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd03\n"
        "CPU revision\t: 4\n\nprocessor\t: 4\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\n"
        "CPU part\t: 0xd0b\nCPU revision\t: 2\n\nHardware\t: a board\n");
  ASSERT_TRUE(edgecore_read_midr(root_.c_str(), 0, &midr));
  EXPECT_EQ(midr, 0x410FD034u);
  ASSERT_TRUE(edgecore_read_midr(root_.c_str(), 4, &midr));
  EXPECT_EQ(midr, 0x411FD0B2u);
  EXPECT_FALSE(edgecore_read_midr(root_.c_str(), 1, &midr));
  write_core(0, "regs/identification/midr_el1", "0x00000000413fd0c1\n");
  ASSERT_TRUE(edgecore_read_midr(root_.c_str(), 0, &midr));
  EXPECT_EQ(midr, 0x413FD0C1u);
}

TEST_F(CpuinfoFiles, CachesAreThoseOfData) {
  edgecore_processor processor = {};
  edgecore_read_caches(root_.c_str(), 0, &processor);
  EXPECT_EQ(processor.l1d.size, 0u);
  const char *const rows[][4] = {{"Data", "1", "64K", "4"},
                                 {"Instruction", "1", "48K", "4"},
                                 {"Unified", "2", "1M", "8"},
                                 {"Unified", "3", "4096K", "16"}};
  for (int i = 0; i < 4; ++i) {
    const std::string folder = "cache/index" + std::to_string(i);
    write_core(0, folder + "/type", std::string(rows[i][0]) + "\n");
    write_core(0, folder + "/level", std::string(rows[i][1]) + "\n");
    write_core(0, folder + "/size", std::string(rows[i][2]) + "\n");
    write_core(0, folder + "/ways_of_associativity", std::string(rows[i][3]) + "\n");
  }
  edgecore_read_caches(root_.c_str(), 0, &processor);
  EXPECT_EQ(processor.l1d.size, 65536u);
  EXPECT_EQ(processor.l1d.associativity, 4u);
  EXPECT_EQ(processor.l2.size, 1048576u);
  EXPECT_EQ(processor.l2.associativity, 8u);
}

}  // namespace
