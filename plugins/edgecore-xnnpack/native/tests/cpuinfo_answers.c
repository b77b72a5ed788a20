/* Prints the answers by which XNNPACK chooses kernels and tiles. test_cpuinfo.py compiles this file twice: with our
 * cpuinfo, and with the library whose interface it has. */
#include <cpuinfo.h>
#include <stdio.h>

#define PRINT(feature) printf("%s %d\n", #feature, cpuinfo_has_##feature());
#define NAME(uarch)           \
  case cpuinfo_uarch_##uarch: \
    return #uarch;

/* Only the ones that XNNPACK tells apart; both headers have these names. */
static const char *name_of(enum cpuinfo_uarch uarch) {
  switch (uarch) {
    NAME(zen)
    NAME(zen4)
    NAME(dhyana)
    NAME(cortex_a7)
    NAME(cortex_a53)
    NAME(cortex_a55r0)
    NAME(cortex_a55)
    NAME(cortex_a72)
    NAME(cortex_a76)
    NAME(cortex_x1)
    NAME(neoverse_n1)
    NAME(neoverse_n2)
    NAME(neoverse_v1)
    default:
      return "other";
  }
}

static void print_cache(const char *name, const struct cpuinfo_cache *cache) {
  if (cache == NULL) {
    printf("%s unknown\n", name);
  } else {
    printf("%s %u bytes, %u ways\n", name, cache->size, cache->associativity);
  }
}

int main(void) {
  if (!cpuinfo_initialize() || cpuinfo_get_core(0) == NULL || cpuinfo_get_uarch(0) == NULL) return 1;
  printf("core %s\nuarch %s\n", name_of(cpuinfo_get_core(0)->uarch), name_of(cpuinfo_get_uarch(0)->uarch));
  print_cache("L1", cpuinfo_get_l1d_cache(0));
  print_cache("L2", cpuinfo_get_l2_cache(0));
#if defined(__x86_64__) || defined(__i386__)
  PRINT(x86_sse2)
  PRINT(x86_ssse3)
  PRINT(x86_sse4_1)
  PRINT(x86_avx)
  PRINT(x86_f16c)
  PRINT(x86_fma3)
  PRINT(x86_avx2)
  PRINT(x86_avx512f)
  PRINT(x86_avx512bw)
  PRINT(x86_avx512dq)
  PRINT(x86_avx512vl)
  PRINT(x86_avx512vbmi)
  PRINT(x86_avx512vnni)
  PRINT(x86_avx512fp16)
  PRINT(x86_gfni)
  PRINT(x86_amx_int8)
  PRINT(x86_avxvnni)
  PRINT(x86_avx_vnni_int8)
#else
  PRINT(arm_v6)
  PRINT(arm_vfpv2)
  PRINT(arm_vfpv3)
  PRINT(arm_neon)
  PRINT(arm_neon_fp16)
  PRINT(arm_neon_fma)
  PRINT(arm_neon_v8)
  PRINT(arm_fp16_arith)
  PRINT(arm_neon_fp16_arith)
  PRINT(arm_neon_bf16)
  PRINT(arm_neon_dot)
  PRINT(arm_i8mm)
  PRINT(arm_sve)
  PRINT(arm_sve2)
  PRINT(arm_sme)
  PRINT(arm_sme2)
#endif
  return 0;
}
