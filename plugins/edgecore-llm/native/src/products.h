// See Variant in variant.h.
#ifndef EDGECORE_LLM_PRODUCTS_H_
#define EDGECORE_LLM_PRODUCTS_H_

#include "variant.h"

namespace edgecore_llm {
inline namespace EDGECORE_LLM_VARIANT {

int32_t offset(int bits);
void round_rows(const float *x, int64_t inputs, int32_t offset, int64_t begin, int64_t end, const RoundedRows &out);
void multiply(const RoundedRows &x, int64_t rows, const PackedMatrix &w, int64_t begin, int64_t end, float *y);

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore_llm

#endif  // EDGECORE_LLM_PRODUCTS_H_
