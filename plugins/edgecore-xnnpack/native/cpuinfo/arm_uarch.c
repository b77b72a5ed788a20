/* Arm: maps implementer and part number, as the technical reference manuals list them, to a microarchitecture. */
#include <stddef.h>

#include "processor.h"

enum { kArm = 0x41, kQualcomm = 0x51, kSamsung = 0x53 };

static const struct {
  uint16_t implementer, part;
  enum cpuinfo_uarch uarch;
} kParts[] = {
    {kArm, 0xC05, cpuinfo_uarch_cortex_a5},
    {kArm, 0xC07, cpuinfo_uarch_cortex_a7},
    {kArm, 0xD01, cpuinfo_uarch_cortex_a32},
    {kArm, 0xD04, cpuinfo_uarch_cortex_a35},
    {kArm, 0xD03, cpuinfo_uarch_cortex_a53},
    {kArm, 0xD05, cpuinfo_uarch_cortex_a55},
    {kArm, 0xD07, cpuinfo_uarch_cortex_a57},
    {kArm, 0xD08, cpuinfo_uarch_cortex_a72},
    {kArm, 0xD09, cpuinfo_uarch_cortex_a73},
    {kArm, 0xD0A, cpuinfo_uarch_cortex_a75},
    {kArm, 0xD0B, cpuinfo_uarch_cortex_a76},
    {kArm, 0xD0E, cpuinfo_uarch_cortex_a76}, /* A76AE */
    {kArm, 0xD0D, cpuinfo_uarch_cortex_a77},
    {kArm, 0xD41, cpuinfo_uarch_cortex_a78},
    {kArm, 0xD4B, cpuinfo_uarch_cortex_a78}, /* A78C */
    {kArm, 0xD46, cpuinfo_uarch_cortex_a510},
    {kArm, 0xD47, cpuinfo_uarch_cortex_a710},
    {kArm, 0xD4D, cpuinfo_uarch_cortex_a715},
    {kArm, 0xD44, cpuinfo_uarch_cortex_x1},
    {kArm, 0xD4C, cpuinfo_uarch_cortex_x1}, /* X1C */
    {kArm, 0xD48, cpuinfo_uarch_cortex_x2},
    {kArm, 0xD4E, cpuinfo_uarch_cortex_x3},
    {kArm, 0xD0C, cpuinfo_uarch_neoverse_n1},
    {kArm, 0xD49, cpuinfo_uarch_neoverse_n2},
    {kArm, 0xD40, cpuinfo_uarch_neoverse_v1},
    {kArm, 0xD4F, cpuinfo_uarch_neoverse_v2},
    {kQualcomm, 0x04D, cpuinfo_uarch_krait},
    {kQualcomm, 0x06F, cpuinfo_uarch_krait},
    {kQualcomm, 0x201, cpuinfo_uarch_kryo},
    {kQualcomm, 0x205, cpuinfo_uarch_kryo},
    {kQualcomm, 0x211, cpuinfo_uarch_kryo},
    /* The next cores (Kryo 2xx to 4xx) are Arm's designs, but have Qualcomm's part numbers. */
    {kQualcomm, 0x800, cpuinfo_uarch_cortex_a73},
    {kQualcomm, 0x801, cpuinfo_uarch_cortex_a53},
    {kQualcomm, 0x802, cpuinfo_uarch_cortex_a75},
    {kQualcomm, 0x803, cpuinfo_uarch_cortex_a55r0},
    {kQualcomm, 0x804, cpuinfo_uarch_cortex_a76},
    {kQualcomm, 0x805, cpuinfo_uarch_cortex_a55},
    {kSamsung, 0x002, cpuinfo_uarch_exynos_m3},
    {kSamsung, 0x003, cpuinfo_uarch_exynos_m4},
    {kSamsung, 0x004, cpuinfo_uarch_exynos_m5},
};

enum cpuinfo_uarch edgecore_arm_uarch(uint32_t midr) {
  const uint32_t implementer = midr >> 24, variant = midr >> 20 & 15, part = midr >> 4 & 0xFFF;
  if (implementer == kSamsung && part == 0x001) {
    return variant == 4 ? cpuinfo_uarch_exynos_m2 : cpuinfo_uarch_exynos_m1;
  }
  for (size_t i = 0; i < sizeof kParts / sizeof kParts[0]; ++i) {
    if (kParts[i].implementer != implementer || kParts[i].part != part) continue;
    const enum cpuinfo_uarch uarch = kParts[i].uarch;
    return uarch == cpuinfo_uarch_cortex_a55 && implementer == kArm && variant == 0 ? cpuinfo_uarch_cortex_a55r0
                                                                                    : uarch;
  }
  return cpuinfo_uarch_unknown;
}
