// Tests the environment variable EDGECORE_XNNPACK_HARDWARE: names of processor features, and the features that each
// feature implies.
#include "hardware.h"

#include <gtest/gtest.h>

#include "edgecore/backend.hpp"

namespace edgecore::xnnpack {
namespace {

std::string canonical(const std::string &list) {
  try {
    return hardware_names(parse_hardware(list).flags);
  } catch (const backend::Failure &failure) {
    return failure.text;
  }
}

uint64_t flags(const std::string &list) { return parse_hardware(list).flags; }

#if defined(__x86_64__)

TEST(Hardware, AFlagImpliesTheFlagsOfEveryProcessorThatHasIt) {
  EXPECT_EQ(flags("avx2"), flags("ssse3,sse4_1,avx,f16c,fma3,avx2"));
  EXPECT_EQ(flags("avx2") & flags("avx512f"), flags("avx2"));
  EXPECT_EQ(flags("avx512skx"), flags("avx512f,avx256skx,avx512skx"));
  EXPECT_EQ(flags("avx512amx") & flags("avx512vnnigfni,avxvnni,avx256vnnigfni"),
            flags("avx512vnnigfni,avxvnni,avx256vnnigfni"));
}

TEST(Hardware, NamesOfImpliedFlagsAreLeftOut) {
  EXPECT_EQ(canonical("ssse3,fma3"), "fma3");
  EXPECT_EQ(canonical("avx512vnni,avxvnni"), "avxvnni,avx512vnni");
  EXPECT_EQ(canonical(""), "");
}

TEST(Hardware, TheErrorForAnUnknownNameListsTheKnownNames) {
  EXPECT_EQ(canonical("avx2,avx3").find("EDGECORE_XNNPACK_HARDWARE: 'avx3' is none of ssse3, sse4_1, "), 0u);
  EXPECT_NE(canonical("uarch=zen6").find("uarch=zen5, uarch=other"), std::string::npos);
}

TEST(Hardware, WithoutUarchTheMicroarchitectureIsTheProcessorsOwn) {
  EXPECT_EQ(parse_hardware("avx2").uarch, UINT32_MAX);
  EXPECT_EQ(parse_hardware("uarch=other,avx2").uarch, 0u);
}

TEST(Hardware, AnInvalidListChangesNothing) {
  const uint64_t before = hardware_in_force().flags;
  try {
    restrict_hardware("sse3");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const backend::Failure &failure) {
    EXPECT_EQ(failure.code, EDGECORE_INVALID_ARGUMENT);
  }
  EXPECT_EQ(hardware_in_force().flags, before);
}

#elif defined(__aarch64__) || defined(__arm__)

TEST(Hardware, AFlagImpliesTheFlagsOfEveryProcessorThatHasIt) {
  EXPECT_EQ(flags("neon_fma"), flags("vfpv3,neon,neon_fp16,neon_fma"));
  EXPECT_EQ(flags("neon_i8mm") & flags("neon_dot"), flags("neon_v8"));
  EXPECT_EQ(canonical("neon_dot,neon_fp16_arith,neon"), "neon_fp16_arith,neon_dot");
}

TEST(Hardware, KernelsOfOtherProcessorsCannotBeChosen) {
  const uint64_t before = hardware_in_force().flags;
  EXPECT_TRUE(may_use("neon", true));
  try {
    restrict_hardware("neon");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const backend::Failure &failure) {
    EXPECT_EQ(failure.code, EDGECORE_NOT_SUPPORTED);
  }
  EXPECT_EQ(hardware_in_force().flags, before);
}

#endif

}  // namespace
}  // namespace edgecore::xnnpack
