/* The description of the processor that the files of this folder fill in. */
#ifndef EDGECORE_XNNPACK_CPUINFO_PROCESSOR_H_
#define EDGECORE_XNNPACK_CPUINFO_PROCESSOR_H_

#include "cpuinfo.h"

#ifdef __cplusplus
extern "C" {
#endif

struct edgecore_processor {
#define EDGECORE_FEATURE(feature) bool feature;
  CPUINFO_FEATURES(EDGECORE_FEATURE)
#undef EDGECORE_FEATURE
  enum cpuinfo_uarch uarch;
  struct cpuinfo_cache l1d, l2; /* size 0: unknown */
};

/* Set the fields of `processor` that the functions can determine, and leave other fields as they are (x86.c, arm.c). */
void edgecore_describe_x86(struct edgecore_processor *processor);
void edgecore_describe_arm(struct edgecore_processor *processor);

/* Maps a value of Arm's main id register (MIDR_EL1) to a microarchitecture. */
enum cpuinfo_uarch edgecore_arm_uarch(uint32_t midr);

/* Map the display family and model from CPUID to a microarchitecture; the first function knows AMD's and Hygon's
 * processors, the second Intel's. */
enum cpuinfo_uarch edgecore_amd_uarch(uint32_t family, uint32_t model);
enum cpuinfo_uarch edgecore_intel_uarch(uint32_t family, uint32_t model);

/* For Linux: these functions read files of the kernel in <root>/sys and <root>/proc. `root` is "" except in tests. */
int edgecore_fastest_core(const char *root);                         /* the first core with the largest capacity */
bool edgecore_read_midr(const char *root, int core, uint32_t *midr); /* from sysfs, else from /proc/cpuinfo */
void edgecore_read_caches(const char *root, int core, struct edgecore_processor *processor);

#ifdef __cplusplus
}
#endif

#endif /* EDGECORE_XNNPACK_CPUINFO_PROCESSOR_H_ */
