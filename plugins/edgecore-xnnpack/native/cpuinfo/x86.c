/* x86: reads features by the instruction CPUID, and by XGETBV which registers the operating system saves. */
#include "processor.h"

enum cpuinfo_uarch edgecore_amd_uarch(uint32_t family, uint32_t model) {
  switch (family) {
    case 0x17:
      return model < 0x30 ? cpuinfo_uarch_zen : cpuinfo_uarch_zen2;
    case 0x18: /* Hygon */
      return cpuinfo_uarch_dhyana;
    case 0x19: /* models of Zen 4: 0x10 to 0x1f (servers), 0x60 to 0x7f (clients), 0xa0 to 0xaf (dense servers) */
      return (model >> 4) == 0x1 || (model >> 4) == 0x6 || (model >> 4) == 0x7 || (model >> 4) == 0xa
                 ? cpuinfo_uarch_zen4
                 : cpuinfo_uarch_zen3;
    case 0x1a:
      return cpuinfo_uarch_zen5;
    default:
      return cpuinfo_uarch_unknown;
  }
}

enum cpuinfo_uarch edgecore_intel_uarch(uint32_t family, uint32_t model) {
  return family == 6 && model == 0x55 ? cpuinfo_uarch_skylake_x : cpuinfo_uarch_unknown;
}

#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)

#include <string.h>

#ifdef _MSC_VER
#include <intrin.h>
#else
#include <cpuid.h>
#endif

struct registers {
  uint32_t eax, ebx, ecx, edx;
};

/* Runs the instruction CPUID. Returns zeros for a leaf that the processor lacks. */
static struct registers cpuid(uint32_t leaf, uint32_t subleaf) {
  struct registers r = {0, 0, 0, 0};
#ifdef _MSC_VER
  int words[4];
  __cpuid(words, (int)(leaf & 0x80000000u));
  if ((uint32_t)words[0] < leaf) return r;
  __cpuidex(words, (int)leaf, (int)subleaf);
  memcpy(&r, words, sizeof r);
#else
  if (__get_cpuid_max(leaf & 0x80000000u, 0) < leaf) return r;
  __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
#endif
  return r;
}

static uint64_t saved_registers(void) {
#ifdef _MSC_VER
  return _xgetbv(0);
#else
  uint32_t low, high;
  __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
#endif
}

static bool has(uint32_t word, int bit) { return (word >> bit & 1) != 0; }

static void describe_features(struct edgecore_processor *p) {
  const struct registers basic = cpuid(1, 0), more = cpuid(7, 0), latest = cpuid(7, 1);
  const uint64_t saved = has(basic.ecx, 27) ? saved_registers() : 0;
  const bool ymm = (saved & 0x6) == 0x6;   /* the system saves XMM and YMM */
  const bool zmm = (saved & 0xE6) == 0xE6; /* the system also saves masks and ZMM */
  const bool tiles = (saved & 0x60000) == 0x60000;
  p->x86_sse2 = has(basic.edx, 26);
  p->x86_ssse3 = has(basic.ecx, 9);
  p->x86_sse4_1 = has(basic.ecx, 19);
  p->x86_avx = ymm && has(basic.ecx, 28);
  p->x86_f16c = ymm && has(basic.ecx, 29);
  p->x86_fma3 = ymm && has(basic.ecx, 12);
  p->x86_avx2 = ymm && has(more.ebx, 5);
  p->x86_avx512f = zmm && has(more.ebx, 16);
  p->x86_avx512dq = zmm && has(more.ebx, 17);
  p->x86_avx512bw = zmm && has(more.ebx, 30);
  p->x86_avx512vl = zmm && has(more.ebx, 31);
  p->x86_avx512vbmi = zmm && has(more.ecx, 1);
  p->x86_avx512vnni = zmm && has(more.ecx, 11);
  p->x86_avx512fp16 = zmm && has(more.edx, 23);
  p->x86_gfni = has(more.ecx, 8);
  p->x86_amx_int8 = tiles && has(more.edx, 25);
  p->x86_avxvnni = ymm && has(latest.eax, 4);
  p->x86_avx_vnni_int8 = ymm && has(latest.edx, 4);
}

static void describe_caches(struct edgecore_processor *p, uint32_t leaf) {
  for (uint32_t i = 0; i < 16; ++i) {
    const struct registers r = cpuid(leaf, i);
    const uint32_t type = r.eax & 31, level = r.eax >> 5 & 7;
    if (type == 0) return;
    const uint32_t line = (r.ebx & 0xFFF) + 1, partitions = (r.ebx >> 12 & 0x3FF) + 1, ways = (r.ebx >> 22) + 1;
    const struct cpuinfo_cache cache = {line * partitions * ways * (r.ecx + 1), ways};
    if (type == 2) continue; /* skip instruction caches */
    if (level == 1) p->l1d = cache;
    if (level == 2) p->l2 = cache;
  }
}

void edgecore_describe_x86(struct edgecore_processor *p) {
  describe_features(p);
  const struct registers vendor = cpuid(0, 0), basic = cpuid(1, 0);
  char name[12];
  memcpy(name, &vendor.ebx, 4);
  memcpy(name + 4, &vendor.edx, 4);
  memcpy(name + 8, &vendor.ecx, 4);
  const uint32_t family = (basic.eax >> 8 & 15) + (basic.eax >> 20 & 0xFF);
  const uint32_t model = (basic.eax >> 4 & 15) | (basic.eax >> 12 & 0xF0);
  if (memcmp(name, "AuthenticAMD", 12) == 0 || memcmp(name, "HygonGenuine", 12) == 0) {
    p->uarch = edgecore_amd_uarch(family, model);
    describe_caches(p, 0x8000001D);
  } else {
    if (memcmp(name, "GenuineIntel", 12) == 0) p->uarch = edgecore_intel_uarch(family, model);
    describe_caches(p, 4);
  }
}

#endif
