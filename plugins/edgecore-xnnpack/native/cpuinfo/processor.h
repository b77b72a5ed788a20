/* The facts that the files of this folder find out about the processor. */
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

/* Fill the fields that they can; others keep their value. x86.c has the first, arm.c the second. */
void edgecore_describe_x86(struct edgecore_processor *processor);
void edgecore_describe_arm(struct edgecore_processor *processor);

/* Returns the microarchitecture of a value of Arm's main id register (MIDR_EL1). */
enum cpuinfo_uarch edgecore_arm_uarch(uint32_t midr);

/* Return the microarchitecture of AMD's (or Hygon's), and of Intel's, display family and model. */
enum cpuinfo_uarch edgecore_amd_uarch(uint32_t family, uint32_t model);
enum cpuinfo_uarch edgecore_intel_uarch(uint32_t family, uint32_t model);

/* Linux: read what the kernel says below the folder `root` ("" on a device, another in tests). */
int edgecore_fastest_core(const char *root);                         /* the first of those with the largest capacity */
bool edgecore_read_midr(const char *root, int core, uint32_t *midr); /* from sysfs, else from /proc/cpuinfo */
void edgecore_read_caches(const char *root, int core, struct edgecore_processor *processor);

#ifdef __cplusplus
}
#endif

#endif /* EDGECORE_XNNPACK_CPUINFO_PROCESSOR_H_ */
