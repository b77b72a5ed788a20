// The operators llama::*, which files of ExecuTorch's exporter of language models call.
#ifndef EDGECORE_LLM_LLAMA_H_
#define EDGECORE_LLM_LLAMA_H_

#include "call.h"
#include "edgecore/kernel.h"

namespace edgecore::llm {

int32_t EDGECORE_CALL llama_custom_sdpa(const edgecore_call *c);
int32_t EDGECORE_CALL llama_sdpa_with_kv_cache(const edgecore_call *c);
int32_t EDGECORE_CALL llama_update_cache(const edgecore_call *c);
int32_t EDGECORE_CALL llama_update_cache_with_indices(const edgecore_call *c);

// Copies the tokens of `value` [B, S, heads, size] to rows of `cache` [B, rows, heads, size]: to the rows from `start`
// on, or to the rows `indices` [B, S] if there are any.
void llama_write_rows(Call &call, Tensor value, Tensor cache, int64_t start, Tensor indices);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_LLAMA_H_
