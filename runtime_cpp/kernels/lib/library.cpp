// Chooses the kernels for the processor at run time. The kernels are compiled once for each instruction set (baseline,
// avx2, avx512), this file only once.
#include "edgecore/kernels.h"

extern "C" {

#define EDGECORE_DECLARE(variant) const edgecore_kernel_library *edgecore_kernels_##variant(void);
EDGECORE_DECLARE(baseline)
#if defined(EDGECORE_HAVE_X86_VARIANTS)
EDGECORE_DECLARE(avx2)
EDGECORE_DECLARE(avx512)
#endif
#undef EDGECORE_DECLARE

static int equal(const char *a, const char *b) { return __builtin_strcmp(a, b) == 0; }

const edgecore_kernel_library *edgecore_kernels_library_for(const char *name) {
  if (equal(name, "baseline")) return edgecore_kernels_baseline();
#if defined(EDGECORE_HAVE_X86_VARIANTS)
  __builtin_cpu_init();
  const int has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const int has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (equal(name, "avx2") && has_avx2) return edgecore_kernels_avx2();
  if (equal(name, "avx512") && has_avx2 && has_avx512) return edgecore_kernels_avx512();
#endif
  return 0;
}

const edgecore_kernel_library *edgecore_kernels_library(void) {
  const char *const best_first[] = {"avx512", "avx2"};
  for (const char *name : best_first) {
    const edgecore_kernel_library *library = edgecore_kernels_library_for(name);
    if (library != nullptr) return library;
  }
  return edgecore_kernels_baseline();
}

}  // extern "C"
