#include "cpuinfo.h"

#include <stddef.h>

#include "processor.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <pthread.h>
#endif

static struct edgecore_processor processor;
static struct cpuinfo_core core;
static struct cpuinfo_uarch_info uarch_info;

static void describe(void) {
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
  edgecore_describe_x86(&processor);
#else
  edgecore_describe_arm(&processor);
#endif
  core.uarch = processor.uarch;
  uarch_info.uarch = processor.uarch;
}

#ifdef _WIN32
static BOOL CALLBACK describe_once(PINIT_ONCE once, PVOID parameter, PVOID *context) {
  (void)once, (void)parameter, (void)context;
  describe();
  return TRUE;
}

bool cpuinfo_initialize(void) {
  static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
  return InitOnceExecuteOnce(&once, describe_once, NULL, NULL) != 0;
}
#else
bool cpuinfo_initialize(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  return pthread_once(&once, describe) == 0;
}
#endif

const struct cpuinfo_core *cpuinfo_get_core(uint32_t index) { return index == 0 ? &core : NULL; }

const struct cpuinfo_uarch_info *cpuinfo_get_uarch(uint32_t index) { return index == 0 ? &uarch_info : NULL; }

static const struct cpuinfo_cache *known(const struct cpuinfo_cache *cache, uint32_t index) {
  return index == 0 && cache->size != 0 ? cache : NULL;
}

const struct cpuinfo_cache *cpuinfo_get_l1d_cache(uint32_t index) { return known(&processor.l1d, index); }

const struct cpuinfo_cache *cpuinfo_get_l2_cache(uint32_t index) { return known(&processor.l2, index); }

#define DEFINE(feature) \
  bool cpuinfo_has_##feature(void) { return processor.feature; }
CPUINFO_FEATURES(DEFINE)
