// The functions that exist once for each instruction set.
#ifndef EDGECORE_LLM_VARIANT_H_
#define EDGECORE_LLM_VARIANT_H_

#include <stdint.h>

#include "packed.h"

namespace edgecore_llm {

// Rows of inputs, rounded to 8 bits in groups of 32: x = values * scale of the group.
struct RoundedRows {
  int8_t *values;   // [rows, groups * 32]
  float *scales;    // [rows, groups]
  int32_t *starts;  // [rows, groups]: -offset * (sum of the values of the group); see Variant::offset
  int64_t groups;
};

// A cache of keys and values of one layer, for `slots` sequences and `heads` heads. A position is stored at the row
// position % length. Keys lie in blocks of 16 rows, [slots, heads, length / 16, size, 16]: a vector register takes the
// same element of neighbouring keys, so scores need no sum over the lanes of a register. Values are [slots, heads,
// length, size].
struct Cache {
  float *keys;
  float *values;
  int64_t heads;
  int64_t length;  // a multiple of 16
  int64_t size;    // elements of a head
};
constexpr int64_t kKeyBlock = 16;

struct Attention {
  Cache cache;
  const float *queries;  // [tokens, query_heads, size]
  float *out;            // [tokens, query_heads, size]
  const int64_t *positions;  // [tokens]
  int64_t query_heads;       // a multiple of cache.heads
  int64_t window;            // 0: all positions up to that of the token; else this number of them
  float scale;
  float softcap;  // 0: none; else scores are softcap * tanh(score / softcap)
};

struct Variant {
  const char *name;

  // The offset that `starts` must contain: that of the block type if the values are used as they are, 0 if the function
  // `multiply` subtracts it itself.
  int32_t (*offset)(int bits);

  // Rounds rows [begin, end) of x [rows, inputs] symmetrically, to the nearest and ties to even. A group of zeros has
  // the scale 0. A group with a NaN or an infinity has the scale NaN.
  void (*round)(const float *x, int64_t inputs, int32_t offset, int64_t begin, int64_t end, const RoundedRows &out);

  // y [rows, outputs] = x W^T for the tiles of 16 outputs [begin, end). The bits of a row do not depend on the number
  // of rows: the products of a group are summed as integers, then the groups one after the other from the first.
  void (*multiply)(const RoundedRows &x, int64_t rows, const PackedMatrix &w, int64_t begin, int64_t end, float *y);

  // Computes the token `token` and the key/value head `head` with its query heads.
  void (*attend)(const Attention &attention, int64_t token, int64_t head);
};

// The functions for the best instruction set of this processor, or for the one that the environment variable
// EDGECORE_LLM_INSTRUCTIONS names.
const Variant &variant();

}  // namespace edgecore_llm

#endif  // EDGECORE_LLM_VARIANT_H_
