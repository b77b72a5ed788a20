// The arguments that llama::custom_sdpa and llama::sdpa_with_kv_cache pass to the function of an instruction set.
#ifndef EDGECORE_LLM_LLAMA_ATTENTION_H_
#define EDGECORE_LLM_LLAMA_ATTENTION_H_

#include <stdint.h>

namespace edgecore::llm {

// Maximum number of queries that are computed together, so that each key and value is read once for all of them.
constexpr int64_t kLlamaQueries = 4;

// Queries that read the same head of keys and values. The rows of this head are `stride` floats apart.
struct LlamaAttention {
  const float *keys;
  const float *values;
  int64_t stride;
  int64_t size;
  float scale;
  int64_t count;  // number of queries
  const float *queries[kLlamaQueries];
  float *outs[kLlamaQueries];
  int64_t rows[kLlamaQueries];        // for each query, the number of rows that it sees, from row 0 on
  const float *masks[kLlamaQueries];  // for each query, numbers to add to its scores, or NULL
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_LLAMA_ATTENTION_H_
