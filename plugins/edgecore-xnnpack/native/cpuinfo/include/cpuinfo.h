/* The processor that this process runs on, as XNNPACK asks for it.
 *
 * XNNPACK includes a header of this name and calls its functions. This plugin implements them instead of linking the
 * library cpuinfo, but only the small part of the library's interface by which XNNPACK chooses kernels and tiles:
 * features, microarchitectures and caches. The microarchitectures have other numbers than in the library. */
#ifndef EDGECORE_XNNPACK_CPUINFO_H_
#define EDGECORE_XNNPACK_CPUINFO_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Microarchitectures that XNNPACK or this plugin tells apart; all others are unknown. */
enum cpuinfo_uarch {
  cpuinfo_uarch_unknown = 0,
  cpuinfo_uarch_skylake_x, /* and Cascade Lake */
  cpuinfo_uarch_zen,
  cpuinfo_uarch_zen2,
  cpuinfo_uarch_zen3,
  cpuinfo_uarch_zen4,
  cpuinfo_uarch_zen5,
  cpuinfo_uarch_dhyana,
  cpuinfo_uarch_cortex_a5,
  cpuinfo_uarch_cortex_a7,
  cpuinfo_uarch_cortex_a32,
  cpuinfo_uarch_cortex_a35,
  cpuinfo_uarch_cortex_a53,
  cpuinfo_uarch_cortex_a55r0, /* the first revision, which issues some pairs of instructions singly */
  cpuinfo_uarch_cortex_a55,
  cpuinfo_uarch_cortex_a57,
  cpuinfo_uarch_cortex_a72,
  cpuinfo_uarch_cortex_a73,
  cpuinfo_uarch_cortex_a75,
  cpuinfo_uarch_cortex_a76,
  cpuinfo_uarch_cortex_a77,
  cpuinfo_uarch_cortex_a78,
  cpuinfo_uarch_cortex_a510,
  cpuinfo_uarch_cortex_a710,
  cpuinfo_uarch_cortex_a715,
  cpuinfo_uarch_cortex_x1,
  cpuinfo_uarch_cortex_x2,
  cpuinfo_uarch_cortex_x3,
  cpuinfo_uarch_neoverse_n1,
  cpuinfo_uarch_neoverse_n2,
  cpuinfo_uarch_neoverse_v1,
  cpuinfo_uarch_neoverse_v2,
  cpuinfo_uarch_krait,
  cpuinfo_uarch_kryo,
  cpuinfo_uarch_exynos_m1,
  cpuinfo_uarch_exynos_m2,
  cpuinfo_uarch_exynos_m3,
  cpuinfo_uarch_exynos_m4,
  cpuinfo_uarch_exynos_m5,
};

struct cpuinfo_cache {
  uint32_t size; /* bytes */
  uint32_t associativity;
};

struct cpuinfo_core {
  enum cpuinfo_uarch uarch;
};

struct cpuinfo_uarch_info {
  enum cpuinfo_uarch uarch;
};

/* Must be called before all other functions; may be called again, by any thread. Returns true. */
bool cpuinfo_initialize(void);

/* Return NULL for an index other than 0. On Arm, the results describe the fastest cores, on which edgecore's threads
 * run. On x86, the results describe the core that runs the first call of cpuinfo_initialize. A cache of unknown size is
 * NULL. */
const struct cpuinfo_core *cpuinfo_get_core(uint32_t index);
const struct cpuinfo_uarch_info *cpuinfo_get_uarch(uint32_t index);
const struct cpuinfo_cache *cpuinfo_get_l1d_cache(uint32_t index);
const struct cpuinfo_cache *cpuinfo_get_l2_cache(uint32_t index);

/* The features that XNNPACK asks for. A feature whose registers the operating system does not save is missing. */
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
#define CPUINFO_FEATURES(FEATURE) \
  FEATURE(x86_sse2)               \
  FEATURE(x86_ssse3)              \
  FEATURE(x86_sse4_1)             \
  FEATURE(x86_avx)                \
  FEATURE(x86_f16c)               \
  FEATURE(x86_fma3)               \
  FEATURE(x86_avx2)               \
  FEATURE(x86_avx512f)            \
  FEATURE(x86_avx512bw)           \
  FEATURE(x86_avx512dq)           \
  FEATURE(x86_avx512vl)           \
  FEATURE(x86_avx512vbmi)         \
  FEATURE(x86_avx512vnni)         \
  FEATURE(x86_avx512fp16)         \
  FEATURE(x86_gfni)               \
  FEATURE(x86_amx_int8)           \
  FEATURE(x86_avxvnni)            \
  FEATURE(x86_avx_vnni_int8)
#else
#define CPUINFO_FEATURES(FEATURE) \
  FEATURE(arm_v6)                 \
  FEATURE(arm_vfpv2)              \
  FEATURE(arm_vfpv3)              \
  FEATURE(arm_neon)               \
  FEATURE(arm_neon_fp16)          \
  FEATURE(arm_neon_fma)           \
  FEATURE(arm_neon_v8)            \
  FEATURE(arm_fp16_arith)         \
  FEATURE(arm_neon_fp16_arith)    \
  FEATURE(arm_neon_bf16)          \
  FEATURE(arm_neon_dot)           \
  FEATURE(arm_i8mm)               \
  FEATURE(arm_sve)                \
  FEATURE(arm_sve2)               \
  FEATURE(arm_sme)                \
  FEATURE(arm_sme2)
#endif

#define CPUINFO_DECLARE(feature) bool cpuinfo_has_##feature(void);
CPUINFO_FEATURES(CPUINFO_DECLARE)
#undef CPUINFO_DECLARE

#ifdef __cplusplus
}
#endif

#endif /* EDGECORE_XNNPACK_CPUINFO_H_ */
