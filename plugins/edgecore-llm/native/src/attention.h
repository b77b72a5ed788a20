// See Variant in variant.h.
#ifndef EDGECORE_LLM_ATTENTION_H_
#define EDGECORE_LLM_ATTENTION_H_

#include "variant.h"

namespace edgecore_llm {
inline namespace EDGECORE_LLM_VARIANT {

void attend(const Attention &attention, int64_t row, int64_t rows, float *scores, const AttentionPart &out);
void merge(const AttentionPart &total, const AttentionPart &next, int64_t count, int64_t value_size);

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore_llm

#endif  // EDGECORE_LLM_ATTENTION_H_
