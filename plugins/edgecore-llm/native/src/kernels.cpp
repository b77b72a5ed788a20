// The table of kernels that the library of edgecore-llm exports.
#include "call.h"
#include "edgecore/kernel.h"
#include "llama.h"
#include "operators.h"

namespace edgecore::llm {
namespace {

template <class T>
constexpr edgecore_header header() {
  return {sizeof(T), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
}

constexpr edgecore_str text(const char *chars) { return {chars, __builtin_strlen(chars)}; }

constexpr uint64_t kFloat = 1u << static_cast<int32_t>(Dtype::kFloat32);

constexpr uint64_t kAny = ~uint64_t{0};

constexpr edgecore_kernel kKernels[] = {
    {header<edgecore_kernel>(), text("edgecore_llm::attend"), text("out"), kFloat, attend},
    {header<edgecore_kernel>(), text("edgecore_llm::embedding"), text("out"), kFloat, embedding},
    {header<edgecore_kernel>(), text("edgecore_llm::linear"), text("out"), kFloat, linear},
    {header<edgecore_kernel>(), text("edgecore_llm::rope_update_cache"), text("out"), kFloat, rope_update_cache},
    {header<edgecore_kernel>(), text("edgecore_llm::rotate"), text("out"), kFloat, rotate},
    {header<edgecore_kernel>(), text("llama::custom_sdpa"), text("out"), kFloat, llama_custom_sdpa},
    {header<edgecore_kernel>(), text("llama::sdpa_with_kv_cache"), text("out"), kFloat, llama_sdpa_with_kv_cache},
    {header<edgecore_kernel>(), text("llama::update_cache"), text("out"), kAny, llama_update_cache},
    {header<edgecore_kernel>(), text("llama::update_cache_with_indices"), text("out"), kAny,
     llama_update_cache_with_indices},
};

constexpr edgecore_kernel_library kLibrary = {header<edgecore_kernel_library>(),
                                              text("edgecore-llm"),
                                              text(EDGECORE_LLM_VERSION),
                                              kKernels,
                                              sizeof(kKernels) / sizeof(kKernels[0]),
                                              sizeof(kKernels[0]),
                                              0};

}  // namespace
}  // namespace edgecore::llm

extern "C" EDGECORE_EXPORT const edgecore_kernel_library *edgecore_kernels_v0(void) { return &edgecore::llm::kLibrary; }
