// Attention of a few query rows over all keys and values of a head, which are read in place.
#ifndef EDGECORE_XNNPACK_ATTENTION_H_
#define EDGECORE_XNNPACK_ATTENTION_H_

#include <cstdint>

namespace edgecore::xnnpack {

// The number of query rows that a kernel computes together: it reads each key and value once for all of them.
constexpr uint64_t kAttentionRows = 4;

struct AttentionHead {
  uint64_t rows = 0;  // 1 to kAttentionRows
  uint64_t keys = 0;
  uint64_t width = 0;        // elements of a query and of a key
  uint64_t value_width = 0;  // elements of a value and of an output row
  float scale = 1;
  const float *query = nullptr;            // [rows, width]
  const float *key = nullptr;              // [keys, width]
  const float *value = nullptr;            // [keys, value_width]
  const float *mask[kAttentionRows] = {};  // added to the scaled scores of each row; null: none
  uint64_t mask_step = 1;                  // 1, or 0 if a row's mask is one number
  float *output = nullptr;                 // [rows, value_width]
};

// Returns the size of a kernel's scratch memory, a multiple of 64; the memory must be aligned to 64 bytes.
uint64_t attention_scratch_bytes(uint64_t keys, uint64_t width);

// Computes output = softmax(scale * query * key^T + mask) * value, like ATen: if the mask of a row is -inf everywhere,
// the output row is 0. Keys after the last one that any row sees are not read, and neither are their values, whose
// weight is 0. So the time depends on the used part of a cache, not on its capacity. (Unlike here, ATen's result is NaN
// if such a value is NaN or infinity.)
using AttentionKernel = void (*)(const AttentionHead &head, float *scratch);

// Returns the kernel for the widest vectors of this processor that XNNPACK may use.
AttentionKernel attention_kernel();

// The kernels: attention_kernel.inc, compiled for several instruction sets.
void attention_base(const AttentionHead &head, float *scratch);
void attention_avx2(const AttentionHead &head, float *scratch);
void attention_avx512f(const AttentionHead &head, float *scratch);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_ATTENTION_H_
