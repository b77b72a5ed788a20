// The operators llama::custom_sdpa and llama::sdpa_with_kv_cache: they check the arguments, and divide the work among
// threads.
#include <math.h>

#include "llama.h"
#include "llama_attention.h"
#include "variant.h"

namespace edgecore::llm {
namespace {

// The arguments (attn_mask, drpout_p, is_causal, scale, out) of custom_sdpa and sdpa_with_kv_cache. Ignores drpout_p.
struct Options {
  Tensor mask;
  bool is_causal;
  double scale;
  Tensor out;
};

Options read_options(Call &call, uint64_t first) {
  return {call.optional_tensor(first, "attn_mask", Dtype::kFloat32, 2), call.boolean(first + 2, "is_causal"),
          call.is_none(first + 3) ? 0.0 : call.number(first + 3, "scale"),
          call.tensor(first + 4, "out", Dtype::kFloat32, 4)};
}

// Computes attention: q [B, S, heads, size], keys and values [B, rows, kv_heads, size] -> out [B, S, heads, size].
// Without a mask, a query sees the rows before `start` and the rows of this call (if causal, only up to its own row).
int32_t attend(Call &call, Tensor q, Tensor keys, Tensor values, int64_t start, const Options &options) {
  if (call.failed()) return call.status();
  const int64_t batch = q.size(0);
  const int64_t tokens = q.size(1);
  const int64_t heads = q.size(2);
  const int64_t size = q.size(3);
  const int64_t rows = keys.size(1);
  const int64_t kv_heads = keys.size(2);
  bool fits = keys.size(0) == batch && keys.size(3) == size && kv_heads > 0 && heads % kv_heads == 0;
  for (int64_t d = 0; d < 4; ++d) fits = fits && values.size(d) == keys.size(d);
  call.check(fits,
             "query must be [B, S, heads, size], key and value [B, rows, heads, size] with a divisor of the heads");
  const bool has_mask = options.mask.t != nullptr;
  if (has_mask) {
    call.check(!options.is_causal, "attn_mask and is_causal exclude each other");
    call.check(options.mask.size(0) == tokens && options.mask.size(1) == rows, "attn_mask must be [S, rows]");
  } else {
    call.check(start >= 0 && start <= rows && tokens <= rows - start, "the tokens are outside of the cache");
  }
  if (!call.resize(options.out, q.t->dl.shape, 4) || batch * tokens * heads == 0) return call.status();

  const int64_t group = heads / kv_heads;
  const int64_t tiles = (tokens * group + kLlamaQueries - 1) / kLlamaQueries;
  const int64_t seen = has_mask ? rows : start + tokens;
  const int64_t score_floats = kLlamaQueries * (seen + kKeyBlock);
  float *scores = call.scratch<float>(call.workers() * score_floats);
  if (call.failed()) return call.status();
  const Variant &functions = variant();
  const float scale = static_cast<float>(options.scale == 0.0 ? 1 / sqrt(static_cast<double>(size)) : options.scale);
  call.parallel_for(batch * kv_heads * tiles, 1, [&](int64_t begin, int64_t end, uint32_t worker) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t head = item / tiles % kv_heads;
      const int64_t sequence = item / tiles / kv_heads;
      const int64_t first_row = (sequence * rows * kv_heads + head) * size;
      LlamaAttention of = {};
      of.keys = keys.data<const float>() + first_row;
      of.values = values.data<const float>() + first_row;
      of.stride = kv_heads * size;
      of.size = size;
      of.scale = scale;
      const int64_t first = item % tiles * kLlamaQueries;
      of.count = tokens * group - first < kLlamaQueries ? tokens * group - first : kLlamaQueries;
      for (int64_t i = 0; i < of.count; ++i) {
        const int64_t token = (first + i) / group;
        const int64_t place = ((sequence * tokens + token) * heads + head * group + (first + i) % group) * size;
        of.queries[i] = q.data<const float>() + place;
        of.outs[i] = options.out.data<float>() + place;
        of.rows[i] = options.is_causal ? start + token + 1 : seen;
        of.masks[i] = has_mask ? options.mask.data<const float>() + token * rows : nullptr;
      }
      functions.attend_rows(of, scores + worker * score_floats);
    }
  });
  return call.status();
}

}  // namespace

// custom_sdpa(Tensor query, Tensor key, Tensor value, SymInt start_pos, Tensor? attn_mask, float drpout_p, bool
// is_causal, float? scale, *, Tensor(a!) out) -> Tensor(a!): attention of the query to the rows of key and value.
int32_t EDGECORE_CALL llama_custom_sdpa(const edgecore_call *c) {
  Call call(c, "custom_sdpa", "llama");
  const Tensor q = call.tensor(0, "query", Dtype::kFloat32, 4);
  const Tensor keys = call.tensor(1, "key", Dtype::kFloat32, 4);
  const Tensor values = call.tensor(2, "value", Dtype::kFloat32, 4);
  const int64_t start = call.integer(3, "start_pos");
  return attend(call, q, keys, values, start, read_options(call, 4));
}

// sdpa_with_kv_cache(Tensor query, Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, SymInt
// start_pos, SymInt seq_len, Tensor? attn_mask, float drpout_p, bool is_causal, float? scale, *, Tensor(c!) out) ->
// Tensor(c!): update_cache of both caches, then custom_sdpa over them.
int32_t EDGECORE_CALL llama_sdpa_with_kv_cache(const edgecore_call *c) {
  Call call(c, "sdpa_with_kv_cache", "llama");
  const Tensor q = call.tensor(0, "query", Dtype::kFloat32, 4);
  const Tensor k = call.tensor(1, "key", Dtype::kFloat32, 4);
  const Tensor v = call.tensor(2, "value", Dtype::kFloat32, 4);
  const Tensor keys = call.tensor(3, "key_cache", Dtype::kFloat32, 4);
  const Tensor values = call.tensor(4, "value_cache", Dtype::kFloat32, 4);
  const int64_t start = call.integer(5, "start_pos");
  const int64_t tokens = call.integer(6, "seq_len");
  const Options options = read_options(call, 7);
  if (call.failed()) return call.status();
  call.check(tokens == q.size(1) && tokens == k.size(1) && tokens == v.size(1), "seq_len is not the number of tokens");
  llama_write_rows(call, k, keys, start, {});
  llama_write_rows(call, v, values, start, {});
  return attend(call, q, keys, values, start, options);
}

}  // namespace edgecore::llm
