/* Arm: asks the operating system for the processor's features, because programs may not read the registers that have
 * them. */
#include "processor.h"

#if defined(__aarch64__) || defined(__arm__) || defined(_M_ARM64)

#if defined(__linux__)

#include <sys/auxv.h>

static bool has(unsigned long word, int bit) { return (word >> bit & 1) != 0; }

#if defined(__aarch64__)

/* The bits come from the kernel's asm/hwcap.h, which is incomplete on older systems. */
static void describe_features(struct edgecore_processor *p) {
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  p->arm_v6 = p->arm_vfpv2 = p->arm_vfpv3 = true;
  p->arm_neon = p->arm_neon_fp16 = p->arm_neon_fma = p->arm_neon_v8 = true;
  p->arm_fp16_arith = has(first, 9);
  p->arm_neon_fp16_arith = has(first, 9) && has(first, 10);
  p->arm_neon_dot = has(first, 20);
  p->arm_sve = has(first, 22);
  p->arm_sve2 = has(second, 1);
  p->arm_i8mm = has(second, 13);
  p->arm_neon_bf16 = has(second, 14);
  p->arm_sme = has(second, 23);
  p->arm_sme2 = has(second, 37);
}

/* Reads MIDR_EL1, the main id register, of the core on which this thread runs. Bit 11 (CPUID) of HWCAP says that the
 * kernel allows this. */
static bool read_own_midr(uint32_t *midr) {
  if (!has(getauxval(AT_HWCAP), 11)) return false;
  uint64_t value;
  __asm__("mrs %0, midr_el1" : "=r"(value));
  *midr = (uint32_t)value;
  return true;
}

#else

static void describe_features(struct edgecore_processor *p) {
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  const char *platform = (const char *)getauxval(AT_PLATFORM); /* such as "v7l" */
  const int version = platform != 0 && platform[0] == 'v' ? platform[1] - '0' : __ARM_ARCH;
  p->arm_v6 = version >= 6;
  p->arm_vfpv2 = has(first, 6);
  p->arm_vfpv3 = has(first, 13);
  p->arm_neon = has(first, 12);
  /* VFPv4 has half-precision conversions and fused multiply-adds; with VFPv4, NEON has both, too. */
  p->arm_neon_fma = p->arm_neon_fp16 = p->arm_neon && has(first, 16);
  p->arm_neon_v8 = p->arm_neon && (version >= 8 || has(second, 4)); /* bit 4: CRC32, new in Armv8 */
  p->arm_fp16_arith = has(first, 22);
  p->arm_neon_fp16_arith = has(first, 22) && has(first, 23);
  p->arm_neon_dot = has(first, 24);
  p->arm_neon_bf16 = has(first, 26);
}

static bool read_own_midr(uint32_t *midr) {
  (void)midr;
  return false;
}

#endif

void edgecore_describe_arm(struct edgecore_processor *p) {
  describe_features(p);
  const int core = edgecore_fastest_core("");
  uint32_t midr;
  /* Read the register if the files have no MIDR: under an emulator they describe the host, which may be an x86. */
  if (edgecore_read_midr("", core, &midr) || read_own_midr(&midr)) p->uarch = edgecore_arm_uarch(midr);
  edgecore_read_caches("", core, p);
}

#elif defined(__APPLE__)

#include <sys/sysctl.h>

static uint32_t read_number(const char *name) {
  int64_t value = 0;
  size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, 0, 0) == 0 ? (uint32_t)value : 0;
}

void edgecore_describe_arm(struct edgecore_processor *p) {
  p->arm_v6 = p->arm_vfpv2 = p->arm_vfpv3 = true;
  p->arm_neon = p->arm_neon_fp16 = p->arm_neon_fma = p->arm_neon_v8 = true;
  p->arm_fp16_arith = p->arm_neon_fp16_arith = read_number("hw.optional.arm.FEAT_FP16") != 0;
  p->arm_neon_dot = read_number("hw.optional.arm.FEAT_DotProd") != 0;
  p->arm_i8mm = read_number("hw.optional.arm.FEAT_I8MM") != 0;
  p->arm_neon_bf16 = read_number("hw.optional.arm.FEAT_BF16") != 0;
  p->arm_sme = read_number("hw.optional.arm.FEAT_SME") != 0;
  p->arm_sme2 = read_number("hw.optional.arm.FEAT_SME2") != 0;
  p->l1d.size = read_number("hw.perflevel0.l1dcachesize");
  p->l2.size = read_number("hw.perflevel0.l2cachesize");
}

#elif defined(_WIN32)

#include <windows.h>

#ifndef PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE
#define PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE 43
#endif

void edgecore_describe_arm(struct edgecore_processor *p) {
  p->arm_v6 = p->arm_vfpv2 = p->arm_vfpv3 = true;
  p->arm_neon = p->arm_neon_fp16 = p->arm_neon_fma = p->arm_neon_v8 = true;
  /* Windows cannot be asked for half precision, but every processor with dot products has half precision, too. */
  p->arm_neon_dot = IsProcessorFeaturePresent(PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE) != 0;
  p->arm_fp16_arith = p->arm_neon_fp16_arith = p->arm_neon_dot;
}

#endif

#endif
