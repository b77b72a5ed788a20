#include "attention.h"

#include "hardware.h"

namespace edgecore::xnnpack {

#if defined(__x86_64__)

AttentionKernel attention_kernel() {
  static const AttentionKernel kernel = [] {
    if (may_use("avx512f", __builtin_cpu_supports("avx512f"))) return attention_avx512f;
    if (may_use("avx2,fma3", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return attention_avx2;
    return attention_base;
  }();
  return kernel;
}

#else

AttentionKernel attention_kernel() { return attention_base; }

#endif

uint64_t attention_scratch_bytes(uint64_t keys, uint64_t width) {
  constexpr uint64_t kVector = 16;  // number of fp32 elements of the widest vector register (AVX512)
  const auto round_up = [](uint64_t count) { return (count + kVector - 1) / kVector * kVector; };
  return kAttentionRows * (round_up(keys) + round_up(width)) * sizeof(float);
}

}  // namespace edgecore::xnnpack
