// EDGECORE_XNNPACK_HARDWARE: its names, and what they bring with them.
#include "hardware.h"

#include <gtest/gtest.h>

namespace edgecore::xnnpack {
namespace {

std::string Whole(const std::string &list) {
  Hardware hardware;
  Failure failure;
  return ParseHardware(list, &hardware, &failure) ? HardwareNames(hardware.flags) : failure.text;
}

uint64_t Flags(const std::string &list) {
  Hardware hardware = {};
  Failure failure;
  EXPECT_TRUE(ParseHardware(list, &hardware, &failure)) << failure.text;
  return hardware.flags;
}

TEST(Hardware, AFlagBringsThoseThatEveryProcessorWithItHas) {
  EXPECT_EQ(Flags("avx2"), Flags("ssse3,sse4_1,avx,f16c,fma3,avx2"));
  EXPECT_EQ(Flags("avx2") & Flags("avx512f"), Flags("avx2"));
  EXPECT_EQ(Flags("avx512skx"), Flags("avx512f,avx256skx,avx512skx"));
  EXPECT_EQ(Flags("avx512amx") & Flags("avx512vnnigfni,avxvnni,avx256vnnigfni"),
            Flags("avx512vnnigfni,avxvnni,avx256vnnigfni"));
}

TEST(Hardware, NamesLeaveOutWhatAnotherOneImplies) {
  EXPECT_EQ(Whole("ssse3,fma3"), "fma3");
  EXPECT_EQ(Whole("avx512vnni,avxvnni"), "avxvnni,avx512vnni");
  EXPECT_EQ(Whole(""), "");
}

TEST(Hardware, AnUnknownNameIsNamedBesideThoseThatThereAre) {
  EXPECT_EQ(Whole("avx2,avx3").find("EDGECORE_XNNPACK_HARDWARE: 'avx3' is none of ssse3, sse4_1, "), 0u);
  EXPECT_NE(Whole("uarch=zen6").find("uarch=zen5, uarch=other"), std::string::npos);
}

TEST(Hardware, TheMicroarchitectureIsTheProcessorsOwnUnlessNamed) {
  Hardware hardware;
  Failure failure;
  ASSERT_TRUE(ParseHardware("avx2", &hardware, &failure));
  EXPECT_EQ(hardware.uarch, UINT32_MAX);
  ASSERT_TRUE(ParseHardware("uarch=other,avx2", &hardware, &failure));
  EXPECT_EQ(hardware.uarch, 0u);
}

TEST(Hardware, NothingIsTakenAwayByAListThatIsRefused) {
  const uint64_t before = HardwareInForce().flags;
  Failure failure;
  EXPECT_FALSE(RestrictHardware("sse3", &failure));
  EXPECT_EQ(failure.code, EDGECORE_INVALID_ARGUMENT);
  EXPECT_EQ(HardwareInForce().flags, before);
}

}  // namespace
}  // namespace edgecore::xnnpack
