// The functions that exist once for each instruction set.
#ifndef EDGECORE_LLM_VARIANT_H_
#define EDGECORE_LLM_VARIANT_H_

#include <stdint.h>

#include "packed.h"

namespace edgecore::llm {

// Rows of inputs, rounded to 8 bits in groups of 32: x = values * scale of the group.
// The kernels compute tiles of a few rows. Their groups lie in the order in which a tile is computed: the first group
// of each row, then the second. So a kernel reads memory in order, and rows whose length is a power of two do not
// compete for the same lines of a cache.
struct RoundedRows {
  int8_t *values;   // 32 for each row and group
  float *scales;    // for each row and group
  int32_t *starts;  // for each row and group: -offset * (sum of the values of the group); see Variant::offset
  int64_t groups;
  int64_t rows;
};

// Keys lie in blocks of 16 rows: a vector register takes the same element of 16 neighbouring keys, so scores need no
// sum over the lanes of a register.
constexpr int64_t kKeyBlock = 16;
constexpr int64_t kPartRows = 256;                           // rows of a part, at most
constexpr int64_t kScoreStride = kPartRows + 2 * kKeyBlock;  // scores begin in a block, and fill whole vectors

struct Half {
  uint16_t bits;
};

// The elements of a cache. Those of 8 bits have a scale for each row.
enum class CacheType { kFloat, kHalf, kBytes };

// The query heads of one token that read the same key/value head.
struct Attention {
  CacheType type;
  const void *keys;           // [rows / 16, key_size, 16]
  const void *values;         // [rows, value_size]
  const float *key_scales;    // [rows] with kBytes
  const float *value_scales;  // [rows] with kBytes
  const float *queries;       // [count, key_size]
  int64_t key_size;
  int64_t value_size;
  int64_t count;
  float scale;
  float softcap;  // 0: none; else scores are softcap * tanh(score / softcap)
};

// The attention to some of the rows.
struct AttentionPart {
  float *maximum;  // [count]: the largest score
  float *sum;      // [count]: sum of exp(score - maximum)
  float *out;      // [count, value_size]: sum of exp(score - maximum) * value
};

struct LlamaAttention;  // in llama_attention.h

enum class Activation { kNone, kSilu, kGeluTanh };

struct Variant {
  const char *name;

  // The offset that `starts` must contain: the block type's if the values are used as they are, 0 if the function
  // `multiply` subtracts it itself.
  int32_t (*offset)(int bits);

  // Rounds rows [begin, end) of x [rows, inputs] symmetrically, to the nearest and ties to even. A group of zeros has
  // the scale 0. A group with a NaN or an infinity has the scale NaN.
  void (*round)(const float *x, int64_t inputs, int32_t offset, int64_t begin, int64_t end, const RoundedRows &out);

  // y [rows, outputs] = x W^T for the tiles of 16 outputs [begin, end). The bits of a row do not depend on the number
  // of rows: the products of a group are summed as integers, then the groups one after the other from the first.
  void (*multiply)(const RoundedRows &x, const PackedMatrix &w, int64_t begin, int64_t end, float *y);

  // Computes the part of the rows [row, row + rows), at least 1 and at most kPartRows. `scores` is [count,
  // kScoreStride], scratch.
  void (*attend)(const Attention &attention, int64_t row, int64_t rows, float *scores, const AttentionPart &out);

  // Adds the later part `next` to `total`.
  void (*merge)(const AttentionPart &total, const AttentionPart &next, int64_t count, int64_t value_size);

  // Attends from some queries of llama::custom_sdpa. `scores` is scratch for all rows of each query, rounded up to 16.
  void (*attend_rows)(const LlamaAttention &attention, float *scores);

  // out = x / sqrt(mean(x^2) + eps) * weight, for one row.
  void (*normalize)(const float *x, const float *weight, int64_t size, float eps, float *out);

  // Rounds a row to float16, to the nearest and ties to even; values beyond its range become the largest.
  void (*round_to_halves)(const float *x, int64_t size, Half *out);

  // Rounds a row to 8 bits as `round` does a group, and returns the scale.
  float (*round_to_bytes)(const float *x, int64_t size, int8_t *out);

  // x holds `count` pairs of 16 gates and 16 values; out = activation(gates) * values.
  void (*gate)(Activation activation, const float *x, int64_t count, float *out);
};

// The functions for the best instruction set of this processor, or for the one that the environment variable
// EDGECORE_LLM_INSTRUCTIONS names. If this processor has no such instruction set, is_variant_known() is false and each
// call of a kernel fails.
const Variant &variant();
bool is_variant_known();

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_VARIANT_H_
