// Computes attention of a few query rows over all keys and values of a head. Reads keys and values in place, without
// packing.
#ifndef EDGECORE_XNNPACK_ATTENTION_H_
#define EDGECORE_XNNPACK_ATTENTION_H_

#include <cstdint>

namespace edgecore::xnnpack {

// The number of query rows that an attention kernel computes together, with one read of each key and value.
constexpr uint64_t kAttentionRows = 4;

struct AttentionHead {
  uint64_t rows = 0;  // 1 to kAttentionRows
  uint64_t keys = 0;
  uint64_t width = 0;        // number of elements of a query vector and of a key vector
  uint64_t value_width = 0;  // number of elements of a value vector and of an output row
  float scale = 1;
  const float *query = nullptr;            // [rows, width]
  const float *key = nullptr;              // [keys, width]
  const float *value = nullptr;            // [keys, value_width]
  const float *mask[kAttentionRows] = {};  // for each row, numbers to add to its scaled scores; null: none
  uint64_t mask_step = 1;                  // stride between adjacent keys in a mask row; 0: all keys share a number
  float *output = nullptr;                 // [rows, value_width]
};

// Returns the size in bytes of an attention kernel's scratch memory, a multiple of 64. The memory must be aligned to 64
// bytes.
uint64_t attention_scratch_bytes(uint64_t keys, uint64_t width);

// Computes output = softmax(scale * query * key^T + mask) * value, like ATen: if the mask of a row is -inf everywhere,
// the output row is 0. Keys after the last unmasked key of all rows have weight 0, so the kernel does not read them or
// their values. The time thus depends on the used part of a KV cache, not on its capacity. (ATen also reads these
// values, so its result is NaN if one of them is NaN or infinity.)
using AttentionKernel = void (*)(const AttentionHead &head, float *scratch);

// Returns the attention kernel for the widest vectors of this processor that XNNPACK may use.
AttentionKernel attention_kernel();

// The attention kernels: attention_kernel.inc, compiled for several instruction sets.
void attention_base(const AttentionHead &head, float *scratch);
void attention_avx2(const AttentionHead &head, float *scratch);
void attention_avx512f(const AttentionHead &head, float *scratch);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_ATTENTION_H_
