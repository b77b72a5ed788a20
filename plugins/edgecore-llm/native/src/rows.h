// See Variant in variant.h.
#ifndef EDGECORE_LLM_ROWS_H_
#define EDGECORE_LLM_ROWS_H_

#include "variant.h"

namespace edgecore_llm {
inline namespace EDGECORE_LLM_VARIANT {

void normalize(const float *x, const float *weight, int64_t size, float eps, float *out);
void gate(Activation activation, const float *x, int64_t count, float *out);

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore_llm

#endif  // EDGECORE_LLM_ROWS_H_
