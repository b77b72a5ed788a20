// The functions that are compiled once for each instruction set.
#ifndef EDGECORE_LLM_VARIANT_H_
#define EDGECORE_LLM_VARIANT_H_

#include <stdint.h>

#include "packed.h"

namespace edgecore::llm {

// Input rows, rounded to 8 bits in groups of 32: x = value * scale of its group. The kernels compute a few rows (a
// tile) at a time. Groups are stored in the order in which a tile reads them: the first group of each row, then the
// second group of each row, and so on. So a kernel reads memory sequentially, and rows whose length is a power of two
// do not compete for the same cache lines.
struct RoundedRows {
  int8_t *values;   // 32 rounded values for each row and group of inputs
  float *scales;    // one scale for each row and group of inputs
  int32_t *starts;  // for each row and group, -offset * (sum of the group's values); see Variant::offset
  int64_t groups;
  int64_t rows;
};

// In a cache, the keys of 16 rows are interleaved, so that a vector register holds the same element of 16 neighbouring
// keys: scores then need no sum over the lanes of a register.
constexpr int64_t kKeyBlock = 16;
constexpr int64_t kPartRows = 256;                           // maximum number of cache rows in one call of `attend`
constexpr int64_t kScoreStride = kPartRows + 2 * kKeyBlock;  // floats reserved for one query's scores

struct Half {
  uint16_t bits;
};

// The element type of a KV cache. kBytes (int8) has a float32 scale for each row.
enum class CacheType { kFloat, kHalf, kBytes };

// The query heads of one token that read the same key/value head.
struct Attention {
  CacheType type;
  const void *keys;           // the head's keys [rows / 16, key_size, 16]
  const void *values;         // [rows, value_size]
  const float *key_scales;    // [rows]: scales of int8 keys (kBytes), otherwise NULL
  const float *value_scales;  // [rows]: scales of int8 values (kBytes), otherwise NULL
  const float *queries;       // [count, key_size]
  int64_t key_size;
  int64_t value_size;
  int64_t count;
  float scale;
  float softcap;  // soft cap of scores: softcap * tanh(score / softcap); 0: none
};

// The result of attention to one part of the cache's rows. `merge` adds up the parts; after the last one, `out` is
// divided by `sum`.
struct AttentionPart {
  float *maximum;  // for each query [count], the maximum score
  float *sum;      // for each query [count], the sum of exp(score - maximum)
  float *out;      // for each query [count, value_size], the sum of exp(score - maximum) * value
};

struct LlamaAttention;  // in llama_attention.h

enum class Activation { kNone, kSilu, kGeluTanh };

struct Variant {
  const char *name;

  // Returns the `offset` of RoundedRows::starts: the offset of the stored weights if `multiply` uses them as they are,
  // 0 if `multiply` subtracts the offset from them.
  int32_t (*offset)(int bits);

  // Rounds rows [begin, end) of x [rows, inputs] to 8 bits symmetrically, to nearest, ties to even. A group of zeros
  // has the scale 0. A group with a NaN or an infinity has the scale NaN.
  void (*round)(const float *x, int64_t inputs, int32_t offset, int64_t begin, int64_t end, const RoundedRows &out);

  // Computes columns [16 * begin, 16 * end) of y [rows, outputs] = x W^T. A row of y has the same bits for any number
  // of rows: the products of a group are summed as integers, then the groups are added in order.
  void (*multiply)(const RoundedRows &x, const PackedMatrix &w, int64_t begin, int64_t end, float *y);

  // Computes the attention of the queries to the cache's rows [row, row + rows), at least 1 and at most kPartRows.
  // `scores` is scratch memory [count, kScoreStride].
  void (*attend)(const Attention &attention, int64_t row, int64_t rows, float *scores, const AttentionPart &out);

  // Merges `next`, the attention to a later part of the rows, into `total`.
  void (*merge)(const AttentionPart &total, const AttentionPart &next, int64_t count, int64_t value_size);

  // Computes the attention of queries of llama::custom_sdpa. `scores` is scratch memory for all rows of each query,
  // rounded up to 16.
  void (*attend_rows)(const LlamaAttention &attention, float *scores);

  // RMS norm of one row: out = x / sqrt(mean(x^2) + eps) * weight.
  void (*normalize)(const float *x, const float *weight, int64_t size, float eps, float *out);

  // Rounds a row to float16, to nearest, ties to even; clamps values beyond the range of float16.
  void (*round_to_halves)(const float *x, int64_t size, Half *out);

  // Rounds a row to 8 bits with one scale, as `round` rounds a group of 32 inputs; returns the scale.
  float (*round_to_bytes)(const float *x, int64_t size, int8_t *out);

  // Computes out = activation(gates) * values. x holds `count` pairs of 16 gates and 16 values.
  void (*gate)(Activation activation, const float *x, int64_t count, float *out);
};

// Returns the functions for the best instruction set of this processor, or for the instruction set that the environment
// variable EDGECORE_LLM_INSTRUCTIONS names. If this processor does not support the named set, is_variant_known() is
// false and each call of a kernel fails.
const Variant &variant();
bool is_variant_known();

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_VARIANT_H_
