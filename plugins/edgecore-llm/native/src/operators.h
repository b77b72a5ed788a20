// The operators edgecore_llm::*; the Python module edgecore_llm.operators declares them.
#ifndef EDGECORE_LLM_OPERATORS_H_
#define EDGECORE_LLM_OPERATORS_H_

#include "edgecore/kernel.h"

namespace edgecore::llm {

int32_t EDGECORE_CALL attend(const edgecore_call *c);
int32_t EDGECORE_CALL embedding(const edgecore_call *c);
int32_t EDGECORE_CALL linear(const edgecore_call *c);
int32_t EDGECORE_CALL rope_update_cache(const edgecore_call *c);
int32_t EDGECORE_CALL rotate(const edgecore_call *c);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_OPERATORS_H_
