// Declares the functions of one instruction set, which the struct Variant in variant.h describes. variant.cpp includes
// this file once for each value of EDGECORE_LLM_VARIANT, so it has no include guard.
#include "variant.h"

namespace edgecore::llm {
inline namespace EDGECORE_LLM_VARIANT {

int32_t offset(int bits);
void round_rows(const float *x, int64_t inputs, int32_t offset, int64_t begin, int64_t end, const RoundedRows &out);
// Rounds `count` <= 32 inputs, which share one scale, to 8 bits. If there are fewer than 32, the others become zeros.
void round_group(const float *x, int64_t count, int32_t offset, int8_t *values, float *scale, int32_t *start);
void multiply(const RoundedRows &x, const PackedMatrix &w, int64_t begin, int64_t end, float *y);
void attend(const Attention &attention, int64_t row, int64_t rows, float *scores, const AttentionPart &out);
void attend_rows(const LlamaAttention &attention, float *scores);
void merge(const AttentionPart &total, const AttentionPart &next, int64_t count, int64_t value_size);
void normalize(const float *x, const float *weight, int64_t size, float eps, float *out);
void round_to_halves(const float *x, int64_t size, Half *out);
float round_to_bytes(const float *x, int64_t size, int8_t *out);
void gate(Activation activation, const float *x, int64_t count, float *out);

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore::llm
