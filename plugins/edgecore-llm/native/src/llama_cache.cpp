// The operators llama::update_cache and llama::update_cache_with_indices, which write tokens to a KV cache.
#include <string.h>

#include "llama.h"

namespace edgecore::llm {

void llama_write_rows(Call &call, Tensor value, Tensor cache, int64_t start, Tensor indices) {
  if (call.failed()) return;
  const int64_t batch = value.size(0);
  const int64_t tokens = value.size(1);
  const int64_t rows = cache.size(1);
  const int64_t item = value.t->dl.dtype.bits / 8 * value.t->dl.dtype.lanes;
  call.check(value.t->scalar_type == cache.t->scalar_type, "value and cache must have one dtype");
  call.check(cache.size(0) == batch && cache.size(2) == value.size(2) && cache.size(3) == value.size(3),
             "value must be [B, S, heads, size], and the cache [B, rows, heads, size]");
  const bool has_indices = indices.t != nullptr;
  if (has_indices) {
    call.check(indices.size(0) == batch && indices.size(1) == tokens, "there must be one index for each token");
  } else {
    call.check(start >= 0 && start <= rows && tokens <= rows - start, "the tokens do not fit into the cache");
  }
  if (!call.make_writable(cache)) return;
  const int64_t row_bytes = value.size(2) * value.size(3) * item;
  const char *from = value.data<const char>();
  char *to = cache.data<char>();
  for (int64_t b = 0; b < batch; ++b) {
    char *sequence = to + b * rows * row_bytes;
    if (!has_indices) {
      // memmove, because `value` and `cache` may overlap in a damaged file.
      memmove(sequence + start * row_bytes, from + b * tokens * row_bytes, static_cast<size_t>(tokens * row_bytes));
      continue;
    }
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t row = indices.data<const int64_t>()[b * tokens + t];
      if (!call.check(row >= 0 && row < rows, "an index is outside of the cache")) return;
      memmove(sequence + row * row_bytes, from + (b * tokens + t) * row_bytes, static_cast<size_t>(row_bytes));
    }
  }
}

namespace {

// Sets the output of a cache update: one element, which the schema requires but nothing reads.
int32_t finish(Call &call, uint64_t index) {
  const Tensor out = call.tensor_of_any_dtype(index, "out", 1);
  const int64_t one = 1;
  call.resize(out, &one, 1);
  return call.status();
}

}  // namespace

// update_cache(Tensor value, Tensor(a!) cache, SymInt start_pos, *, Tensor(b!) out) -> Tensor(b!): copies the tokens of
// value [B, S, heads, size] to the rows of the cache from start_pos on.
int32_t EDGECORE_CALL llama_update_cache(const edgecore_call *c) {
  Call call(c, "update_cache", "llama");
  const Tensor value = call.tensor_of_any_dtype(0, "value", 4);
  const Tensor cache = call.tensor_of_any_dtype(1, "cache", 4);
  llama_write_rows(call, value, cache, call.integer(2, "start_pos"), {});
  return finish(call, 3);
}

// update_cache_with_indices(Tensor value, Tensor(a!) cache, SymInt start_pos, Tensor indices, *, Tensor(b!) out) ->
// Tensor(b!). Uses only `indices` as the rows of the tokens; ignores start_pos.
int32_t EDGECORE_CALL llama_update_cache_with_indices(const edgecore_call *c) {
  Call call(c, "update_cache_with_indices", "llama");
  const Tensor value = call.tensor_of_any_dtype(0, "value", 4);
  const Tensor cache = call.tensor_of_any_dtype(1, "cache", 4);
  const Tensor indices = call.tensor(3, "indices", Dtype::kInt64, 2);
  llama_write_rows(call, value, cache, 0, indices);
  return finish(call, 4);
}

}  // namespace edgecore::llm
