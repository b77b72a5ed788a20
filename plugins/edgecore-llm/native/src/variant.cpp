// Chooses the instruction set at run time. This file and the operators' files are compiled for the baseline set.
#include "variant.h"

#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#define EDGECORE_LLM_VARIANT baseline
#include "functions.h"
#undef EDGECORE_LLM_VARIANT
#if defined(EDGECORE_LLM_X86)
#define EDGECORE_LLM_VARIANT avx2
#include "functions.h"
#undef EDGECORE_LLM_VARIANT
#define EDGECORE_LLM_VARIANT avx512vnni
#include "functions.h"
#undef EDGECORE_LLM_VARIANT
#elif defined(EDGECORE_LLM_ARM64)
#define EDGECORE_LLM_VARIANT dotprod
#include "functions.h"
#undef EDGECORE_LLM_VARIANT
#endif

namespace edgecore::llm {

#define EDGECORE_LLM_FUNCTIONS(name)                                                                     \
  {                                                                                                      \
    #name, name::offset, name::round_rows, name::multiply, name::attend, name::merge, name::attend_rows, \
        name::normalize, name::round_to_halves, name::round_to_bytes, name::gate                         \
  }

namespace {

struct Choice {
  Variant variant;
  bool (*is_supported)();
};

// In the order of preference.
const Choice kChoices[] = {
#if defined(EDGECORE_LLM_X86)
    {EDGECORE_LLM_FUNCTIONS(avx512vnni),
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
     }},
    {EDGECORE_LLM_FUNCTIONS(avx2),
     [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},  // such CPUs also have F16C
#elif defined(EDGECORE_LLM_ARM64)
    {EDGECORE_LLM_FUNCTIONS(dotprod),
     [] {
#if defined(__linux__)
       constexpr unsigned long kDotProduct = 1ul << 20;  // HWCAP_ASIMDDP
       return (getauxval(AT_HWCAP) & kDotProduct) != 0;
#else
       return true;  // every 64-bit Apple processor that runs a supported macOS or iOS has the dot-product instructions
#endif
     }},
#endif
    {EDGECORE_LLM_FUNCTIONS(baseline), [] { return true; }},
};

// Returns the best variant that this processor supports, or the variant that EDGECORE_LLM_INSTRUCTIONS names; null if
// the processor does not support the named one.
const Variant *choose() {
  const char *wanted = getenv("EDGECORE_LLM_INSTRUCTIONS");
  for (const Choice &choice : kChoices) {
    if (choice.is_supported() && (wanted == nullptr || strcmp(wanted, choice.variant.name) == 0)) {
      return &choice.variant;
    }
  }
  return nullptr;
}

const Variant *chosen() {
  static const Variant *const found = choose();
  return found;
}

}  // namespace

bool is_variant_known() { return chosen() != nullptr; }

const Variant &variant() { return *chosen(); }

}  // namespace edgecore::llm
