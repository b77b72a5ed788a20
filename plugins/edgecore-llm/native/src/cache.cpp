// Operators of KV caches: they check the arguments and divide the work among threads.
#include <string.h>

#include "call.h"
#include "operators.h"
#include "variant.h"

namespace edgecore::llm {
namespace {

constexpr int64_t kMaxPosition = int64_t{1} << 40;  // largest position: adding a size to it must not overflow

// A KV cache with room for several sequences, one in each of its slots: keys [slots, heads, rows / 16, key_size, 16],
// values [slots, heads, rows, value_size], and for int8 the scales of both [slots, heads, rows]. The first `sinks` rows
// always keep the first positions (attention sinks). The others are a ring buffer, where position p >= sinks has the
// row sinks + (p - sinks) % (rows - sinks).
struct Cache {
  CacheType type;
  Tensor keys;
  Tensor values;
  Tensor key_scales;
  Tensor value_scales;
  int64_t slots, heads, rows, key_size, value_size, sinks;

  int64_t row(int64_t position) const {
    return position < sinks ? position : sinks + (position - sinks) % (rows - sinks);
  }
  int64_t element_bytes() const { return type == CacheType::kFloat ? 4 : type == CacheType::kHalf ? 2 : 1; }
  void *head_keys(int64_t slot, int64_t head) const {
    return keys.data<char>() + (slot * heads + head) * rows * key_size * element_bytes();
  }
  void *head_values(int64_t slot, int64_t head) const {
    return values.data<char>() + (slot * heads + head) * rows * value_size * element_bytes();
  }
  // Returns the scales of a head's rows, or NULL if the cache has no scales.
  float *head_scales(const Tensor &scales, int64_t slot, int64_t head) const {
    return scales.t == nullptr ? nullptr : scales.data<float>() + (slot * heads + head) * rows;
  }
  bool has_scales(const Tensor &scales) const {
    return scales.size(0) == slots && scales.size(1) == heads && scales.size(2) == rows;
  }
};

// Reads a cache: keys at `index`, values at `index` + 1, and their scales at `scales_index` and `scales_index` + 1.
Cache read_cache(Call &call, uint64_t index, uint64_t scales_index, int64_t sinks) {
  const bool is_half = call.has_dtype(index, Dtype::kFloat16);
  const bool is_bytes = call.has_dtype(index, Dtype::kInt8);
  const CacheType type = is_half ? CacheType::kHalf : is_bytes ? CacheType::kBytes : CacheType::kFloat;
  const Dtype dtype = is_half ? Dtype::kFloat16 : is_bytes ? Dtype::kInt8 : Dtype::kFloat32;
  const Tensor keys = call.tensor(index, "k_cache", dtype, 5);
  const Tensor values = call.tensor(index + 1, "v_cache", dtype, 4);
  const Tensor key_scales = call.optional_tensor(scales_index, "k_scales", Dtype::kFloat32, 3);
  const Tensor value_scales = call.optional_tensor(scales_index + 1, "v_scales", Dtype::kFloat32, 3);
  if (call.failed()) return {};
  const Cache cache = {type,           keys,           values,       key_scales,     value_scales, values.size(0),
                       values.size(1), values.size(2), keys.size(3), values.size(3), sinks};
  const bool fits = keys.size(0) == cache.slots && keys.size(1) == cache.heads && keys.size(4) == kKeyBlock &&
                    keys.size(2) * kKeyBlock == cache.rows;
  call.check(fits, "k_cache must be [slots, heads, rows / 16, size, 16], and v_cache [slots, heads, rows, size]");
  const bool has_both = key_scales.t != nullptr && value_scales.t != nullptr;
  call.check(is_bytes == has_both && (has_both || (key_scales.t == nullptr && value_scales.t == nullptr)),
             "caches of int8 need k_scales and v_scales, and others must not have them");
  call.check(call.failed() || !has_both || (cache.has_scales(key_scales) && cache.has_scales(value_scales)),
             "k_scales and v_scales must be [slots, heads, rows]");
  call.check(sinks >= 0 && sinks < cache.rows, "sinks must be in [0, rows)");
  return cache;
}

// The tokens of a call of an operator. Positions and slots are copied from the input tensors before they are checked
// and used as addresses, because in a damaged file the input tensors may overlap the outputs and change during the
// call.
struct Tokens {
  int64_t *positions;
  int64_t *slots;   // for each token, the cache's slot of its sequence; 0 if the operator has no argument `slots`
  int64_t *newest;  // for each token, the largest position of its sequence in this call
};

Tokens read_tokens(Call &call, const Cache &cache, Tensor positions, Tensor slots, int64_t count) {
  call.check(positions.size(0) == count, "there must be one position for each token");
  call.check(slots.t == nullptr || slots.size(0) == count, "there must be one slot for each token");
  if (call.failed() || count == 0) return {};
  const Tokens tokens = {call.scratch<int64_t>(count), call.scratch<int64_t>(count), call.scratch<int64_t>(count)};
  int64_t newest = 0;
  for (int64_t t = 0; !call.failed() && t < count; ++t) {
    tokens.positions[t] = positions.data<const int64_t>()[t];
    tokens.slots[t] = slots.t == nullptr ? 0 : slots.data<const int64_t>()[t];
    call.check(tokens.positions[t] >= 0 && tokens.positions[t] < kMaxPosition, "a position is negative or too large");
    call.check(tokens.slots[t] >= 0 && tokens.slots[t] < cache.slots, "a slot is outside of the cache");
    newest = tokens.positions[t] > newest ? tokens.positions[t] : newest;
  }
  for (int64_t t = 0; !call.failed() && t < count; ++t) {
    tokens.newest[t] = newest;
    if (slots.t == nullptr) continue;
    tokens.newest[t] = 0;
    for (int64_t other = 0; other < count; ++other) {
      const bool is_newer = tokens.slots[other] == tokens.slots[t] && tokens.positions[other] > tokens.newest[t];
      if (is_newer) tokens.newest[t] = tokens.positions[other];
    }
  }
  return tokens;
}

// Applies the rotary embedding to a head: rotates the pairs (x[i], x[half + i]). `table` has the cosines, then the
// sines of the angles.
void turn(float *x, const float *table, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float first = x[i];
    const float second = x[half + i];
    x[i] = first * table[i] - second * table[half + i];
    x[half + i] = second * table[i] + first * table[half + i];
  }
}

// Writes a key to its row of a head's keys, which are in blocks of 16 rows: [rows / 16, size, 16].
template <class Element>
void spread(const Element *key, int64_t size, int64_t row, void *keys) {
  Element *to = static_cast<Element *>(keys) + row / kKeyBlock * kKeyBlock * size + row % kKeyBlock;
  for (int64_t d = 0; d < size; ++d) to[d * kKeyBlock] = key[d];
}

// Writes the key of a head to the cache, rounded to the cache's type. `rounded` is scratch memory [key_size].
void write_key(const Variant &functions, const Cache &cache, int64_t slot, int64_t head, int64_t row, const float *key,
               Half *rounded) {
  const int64_t size = cache.key_size;
  void *keys = cache.head_keys(slot, head);
  switch (cache.type) {
    case CacheType::kFloat:
      return spread(key, size, row, keys);
    case CacheType::kHalf:
      functions.round_to_halves(key, size, rounded);
      return spread(rounded, size, row, keys);
    case CacheType::kBytes:
      int8_t *bytes = reinterpret_cast<int8_t *>(rounded);
      cache.head_scales(cache.key_scales, slot, head)[row] = functions.round_to_bytes(key, size, bytes);
      return spread(bytes, size, row, keys);
  }
}

// Writes the value of a head to the cache, rounded to the cache's type.
void write_value(const Variant &functions, const Cache &cache, int64_t slot, int64_t head, int64_t row,
                 const float *value) {
  const int64_t size = cache.value_size;
  void *to = static_cast<char *>(cache.head_values(slot, head)) + row * size * cache.element_bytes();
  switch (cache.type) {
    case CacheType::kFloat:
      memcpy(to, value, static_cast<size_t>(size) * sizeof(float));
      return;
    case CacheType::kHalf:
      return functions.round_to_halves(value, size, static_cast<Half *>(to));
    case CacheType::kBytes:
      cache.head_scales(cache.value_scales, slot, head)[row] =
          functions.round_to_bytes(value, size, static_cast<int8_t *>(to));
      return;
  }
}

}  // namespace

// rope_update_cache(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor qkv, Tensor? table, Tensor positions, Tensor? slots,
// int heads, int sinks, Tensor? q_norm, Tensor? k_norm, float eps, Tensor(c!)? k_scales, Tensor(d!)? v_scales) ->
// Tensor: qkv [T, heads * key_size + cache heads * (key_size + value_size)] -> q [T, heads, key_size]. Normalizes the
// heads of q and k (if there are norms), applies the rotary embedding with the table [context, dims] of cosines and
// then sines (if there is one), and writes k and v into the cache.
int32_t EDGECORE_CALL rope_update_cache(const edgecore_call *c) {
  Call call(c, "rope_update_cache");
  const Cache cache = read_cache(call, 0, 11, call.integer(7, "sinks"));
  const Tensor qkv = call.tensor(2, "qkv", Dtype::kFloat32, 2);
  const Tensor table = call.optional_tensor(3, "table", Dtype::kFloat32, 2);
  const Tensor positions = call.tensor(4, "positions", Dtype::kInt64, 1);
  const Tensor slots = call.optional_tensor(5, "slots", Dtype::kInt64, 1);
  const int64_t heads = call.integer(6, "heads");
  const Tensor q_norm = call.optional_tensor(8, "q_norm", Dtype::kFloat32, 1);
  const Tensor k_norm = call.optional_tensor(9, "k_norm", Dtype::kFloat32, 1);
  const float eps = static_cast<float>(call.number(10, "eps"));
  const Tensor out = call.tensor(13, "out", Dtype::kFloat32, 3);
  if (call.failed()) return call.status();
  const int64_t tokens = qkv.size(0);
  const int64_t key_size = cache.key_size;
  const int64_t width = qkv.size(1);
  call.check(key_size > 0 && heads > 0 && heads <= width / key_size &&
                 width == heads * key_size + cache.heads * (key_size + cache.value_size),
             "qkv has another number of columns than the heads need");
  call.check(q_norm.t == nullptr || q_norm.size(0) == key_size, "q_norm must have the size of a head");
  call.check(k_norm.t == nullptr || k_norm.size(0) == key_size, "k_norm must have the size of a head");
  const int64_t half = table.t == nullptr ? 0 : table.size(1) / 2;
  call.check(table.t == nullptr || (table.size(1) % 2 == 0 && table.size(1) <= key_size),
             "table must have an even number of columns, at most the size of a head");
  const Tokens of = read_tokens(call, cache, positions, slots, tokens);
  for (int64_t t = 0; !call.failed() && t < tokens; ++t) {
    call.check(table.t == nullptr || of.positions[t] < table.size(0), "a position is beyond the rows of the table");
    call.check(of.newest[t] - of.positions[t] < cache.rows - cache.sinks,
               "the tokens of a call do not fit into the rows of the cache");
  }
  const int64_t shape[] = {tokens, heads, key_size};
  if (call.failed() || !call.make_writable(cache.keys) || !call.make_writable(cache.values) ||
      (cache.key_scales.t != nullptr && !call.make_writable(cache.key_scales)) ||
      (cache.value_scales.t != nullptr && !call.make_writable(cache.value_scales)) || !call.resize(out, shape, 3)) {
    return call.status();
  }
  const Variant &functions = variant();
  float *key = call.scratch<float>(call.workers() * key_size);
  Half *rounded = call.scratch<Half>(call.workers() * key_size);
  if (call.failed()) return call.status();
  constexpr int64_t kTokensOfPiece = 16;
  call.parallel_for(tokens, kTokensOfPiece, [&](int64_t begin, int64_t end, uint32_t worker) {
    float *k = key + worker * key_size;
    Half *rounded_k = rounded + worker * key_size;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t position = of.positions[t];
      const int64_t slot = of.slots[t];
      const float *turns = table.t == nullptr ? nullptr : table.data<const float>() + position * 2 * half;
      const auto head = [&](const float *from, const Tensor &norm, float *to) {
        if (norm.t == nullptr) {
          memcpy(to, from, static_cast<size_t>(key_size) * sizeof(float));
        } else {
          functions.normalize(from, norm.data<const float>(), key_size, eps, to);
        }
        if (turns != nullptr) turn(to, turns, half);
      };
      const float *from = qkv.data<const float>() + t * width;
      for (int64_t h = 0; h < heads; ++h, from += key_size) {
        head(from, q_norm, out.data<float>() + (t * heads + h) * key_size);
      }
      const int64_t row = cache.row(position);
      for (int64_t h = 0; h < cache.heads; ++h, from += key_size) {
        head(from, k_norm, k);
        write_key(functions, cache, slot, h, row, k, rounded_k);
      }
      for (int64_t h = 0; h < cache.heads; ++h, from += cache.value_size) {
        write_value(functions, cache, slot, h, row, from);
      }
    }
  });
  return call.status();
}

namespace {

// The cache rows that a token attends to, split into parts of at most kPartRows. The splits depend only on the token's
// position, so its result has the same bits whatever other tokens are in the call.
struct Parts {
  const Cache &cache;
  int64_t position;
  int64_t next;       // the first position that the next part covers
  int64_t sinks_end;  // positions [next, sinks_end) are attention sinks
  int64_t first;      // positions [first, position] are in the token's window, after the attention sinks

  Parts(const Cache &of, int64_t at, int64_t window) : cache(of), position(at) {
    first = window > 0 && at - window + 1 > 0 ? at - window + 1 : 0;
    sinks_end = cache.sinks < first ? cache.sinks : first;
    next = sinks_end > 0 ? 0 : first;
  }

  // Sets *row to the first row of the next part, and returns its number of rows; 0 after the last part.
  int64_t take(int64_t *row) {
    if (next > position) return 0;
    const bool in_sinks = next < sinks_end;
    int64_t end = in_sinks ? sinks_end : position + 1;
    const int64_t cut = next / kPartRows * kPartRows + kPartRows;
    if (cut < end) end = cut;
    *row = cache.row(next);
    // A part ends with the sinks, because the row of the next position may be anywhere in the ring.
    if (next < cache.sinks && end > cache.sinks) end = cache.sinks;
    if (next >= cache.sinks && end - next > cache.rows - *row) end = next + cache.rows - *row;
    const int64_t rows = end - next;
    next = end == sinks_end ? first : end;
    return rows;
  }

  int64_t count() const {
    Parts copy = *this;
    int64_t row;
    int64_t parts = 0;
    while (copy.take(&row) > 0) ++parts;
    return parts;
  }
};

}  // namespace

// attend(Tensor q, Tensor k_cache, Tensor v_cache, Tensor positions, Tensor? slots, int window, int sinks, float scale,
// float softcap, Tensor? k_scales, Tensor? v_scales) -> Tensor: attention of each token to the cache, q [T,
// query_heads, key_size] -> [T, query_heads * value_size].
int32_t EDGECORE_CALL attend(const edgecore_call *c) {
  Call call(c, "attend");
  const Cache cache = read_cache(call, 1, 9, call.integer(6, "sinks"));
  const Tensor q = call.tensor(0, "q", Dtype::kFloat32, 3);
  const Tensor positions = call.tensor(3, "positions", Dtype::kInt64, 1);
  const Tensor slots = call.optional_tensor(4, "slots", Dtype::kInt64, 1);
  const int64_t window = call.integer(5, "window");
  const float scale = static_cast<float>(call.number(7, "scale"));
  const float softcap = static_cast<float>(call.number(8, "softcap"));
  const Tensor out = call.tensor(11, "out", Dtype::kFloat32, 2);
  if (call.failed()) return call.status();
  const int64_t tokens = q.size(0);
  const int64_t query_heads = q.size(1);
  const int64_t key_size = cache.key_size;
  const int64_t size = cache.value_size;
  call.check(q.size(2) == key_size, "q has another head size than the cache");
  call.check(cache.heads > 0 && query_heads % cache.heads == 0,
             "the heads of q must be a multiple of those of the cache");
  call.check(window >= 0 && window <= cache.rows - cache.sinks, "the cache has fewer rows than a token sees");
  const Tokens of = read_tokens(call, cache, positions, slots, tokens);
  for (int64_t t = 0; !call.failed() && t < tokens; ++t) {
    if (window == 0) {
      call.check(of.positions[t] < cache.rows, "a position is beyond the rows of the cache");
      continue;
    }
    // If the ring is full, the newest position of this call has overwritten the position one ring length before it.
    const int64_t oldest = of.positions[t] - window + 1;
    const int64_t overwritten = of.newest[t] - (cache.rows - cache.sinks);
    call.check(overwritten < cache.sinks || overwritten < oldest,
               "the cache has too few rows for the window and the tokens of one call");
  }
  const int64_t shape[] = {tokens, query_heads * size};
  if (!call.resize(out, shape, 2) || tokens == 0) return call.status();

  const Variant &functions = variant();
  const int64_t group = query_heads / cache.heads;
  const auto attention = [&](int64_t token, int64_t head) -> Attention {
    const int64_t slot = of.slots[token];
    return {cache.type,
            cache.head_keys(slot, head),
            cache.head_values(slot, head),
            cache.head_scales(cache.key_scales, slot, head),
            cache.head_scales(cache.value_scales, slot, head),
            q.data<const float>() + (token * query_heads + head * group) * key_size,
            key_size,
            size,
            group,
            scale,
            softcap};
  };
  const auto finish = [&](int64_t token, int64_t head, const AttentionPart &total) {
    float *target = out.data<float>() + (token * query_heads + head * group) * size;
    for (int64_t g = 0; g < group; ++g) {
      const float factor = 1.0f / total.sum[g];
      for (int64_t i = 0; i < size; ++i) target[g * size + i] = total.out[g * size + i] * factor;
    }
  };
  const int64_t part_floats = group * (size + 2);
  const auto part_at = [&](float *memory, int64_t index) -> AttentionPart {
    float *part = memory + index * part_floats;
    return {part, part + group, part + 2 * group};
  };
  const int64_t workers = call.workers();
  const int64_t score_floats = group * kScoreStride;
  float *scores = call.scratch<float>(workers * score_floats);

  // With few tokens, a work item is one part of the cache's rows for one head and token, so that all threads have work.
  // With many tokens, a work item is all rows for one head and token, because the partial results of a long prompt
  // would need too much memory.
  const bool is_split = tokens * cache.heads < 4 * workers;
  if (!is_split) {
    float *memory = call.scratch<float>(workers * 2 * part_floats);
    if (call.failed()) return call.status();
    call.parallel_for(tokens * cache.heads, 1, [&](int64_t begin, int64_t end, uint32_t worker) {
      const AttentionPart total = part_at(memory, 2 * worker);
      const AttentionPart part = part_at(memory, 2 * worker + 1);
      for (int64_t item = begin; item < end; ++item) {
        const int64_t token = item / cache.heads;
        const int64_t head = item % cache.heads;
        const Attention heads = attention(token, head);
        Parts parts(cache, of.positions[token], window);
        int64_t row;
        bool is_first = true;
        while (const int64_t rows = parts.take(&row)) {
          functions.attend(heads, row, rows, scores + worker * score_floats, is_first ? total : part);
          if (!is_first) functions.merge(total, part, group, size);
          is_first = false;
        }
        finish(token, head, total);
      }
    });
    return call.status();
  }
  int64_t most = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t count = Parts(cache, of.positions[t], window).count();
    most = count > most ? count : most;
  }
  struct Rows {
    int64_t first, count;
  };
  Rows *rows = call.scratch<Rows>(tokens * most);
  float *memory = call.scratch<float>(tokens * cache.heads * most * part_floats);
  if (call.failed()) return call.status();
  for (int64_t t = 0; t < tokens; ++t) {
    Parts parts(cache, of.positions[t], window);
    for (int64_t i = 0; i < most; ++i) rows[t * most + i].count = parts.take(&rows[t * most + i].first);
  }
  call.parallel_for(tokens * cache.heads * most, 1, [&](int64_t begin, int64_t end, uint32_t worker) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t token = item / most / cache.heads;
      const Rows part = rows[token * most + item % most];
      if (part.count == 0) continue;
      functions.attend(attention(token, item / most % cache.heads), part.first, part.count,
                       scores + worker * score_floats, part_at(memory, item));
    }
  });
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t head = 0; head < cache.heads; ++head) {
      const int64_t first = (t * cache.heads + head) * most;
      for (int64_t i = 1; i < most && rows[t * most + i].count > 0; ++i) {
        functions.merge(part_at(memory, first), part_at(memory, first + i), group, size);
      }
      finish(t, head, part_at(memory, first));
    }
  }
  return call.status();
}

}  // namespace edgecore::llm
