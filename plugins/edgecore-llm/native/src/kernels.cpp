// The operators edgecore_llm::*: checks of the arguments, and the division of the work among threads. The Python module
// edgecore_llm.operators defines them.
#include <string.h>

#include "call.h"
#include "edgecore/kernel.h"
#include "variant.h"

namespace edgecore_llm {
namespace {

// Work that is worth another thread, in bytes of weights.
constexpr int64_t kBytesOfPiece = 64 * 1024;

constexpr int64_t kMaxPosition = int64_t{1} << 40;  // sums of positions and sizes do not overflow

// Reads a packed matrix [tiles, groups, bytes of a block], uint8, of which `outputs` outputs exist.
PackedMatrix packed_matrix(Call &call, uint64_t index, const char *name, int64_t outputs) {
  const Tensor tensor = call.tensor(index, name, Dtype::kUint8, 3);
  if (call.failed()) return {};
  const int64_t bytes = tensor.size(2);
  const bool is_known = bytes == static_cast<int64_t>(sizeof(Block4)) || bytes == static_cast<int64_t>(sizeof(Block8));
  call.check(is_known, "the blocks of the packed matrix must have 288 or 544 bytes");
  call.check(outputs > 0 && outputs <= tensor.size(0) * kBlockOutputs && outputs > (tensor.size(0) - 1) * kBlockOutputs,
             "the packed matrix does not have that number of outputs");
  return {tensor.data<const uint8_t>(), outputs, tensor.size(1), bytes == static_cast<int64_t>(sizeof(Block4)) ? 4 : 8};
}

// linear(Tensor x, Tensor packed, int outputs) -> Tensor: x [..., inputs] float32 -> [..., outputs].
int32_t EDGECORE_CALL linear(const edgecore_call *c) {
  Call call(c, "linear");
  const Tensor x = call.tensor(0, "x", Dtype::kFloat32, -1);
  const int64_t outputs = call.integer(2, "outputs");
  const PackedMatrix w = packed_matrix(call, 1, "packed", outputs);
  const Tensor out = call.tensor(3, "out", Dtype::kFloat32, -1);
  if (call.failed()) return call.status();
  const int64_t ndim = x.ndim();
  if (!call.check(ndim >= 1 && ndim <= 8, "x must have 1 to 8 dims")) return call.status();
  const int64_t inputs = x.size(ndim - 1);
  if (!call.check(inputs > (w.groups - 1) * kGroup && inputs <= w.groups * kGroup,
                  "x has another number of inputs than the packed matrix")) {
    return call.status();
  }
  int64_t shape[8];
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < ndim; ++d) rows *= shape[d] = x.size(d);
  shape[ndim - 1] = outputs;
  if (!call.resize(out, shape, ndim) || rows == 0) return call.status();
  const Variant &functions = variant();
  RoundedRows rounded = {call.scratch<int8_t>(rows * w.groups * kGroup), call.scratch<float>(rows * w.groups),
                         call.scratch<int32_t>(rows * w.groups), w.groups};
  if (call.failed()) return call.status();
  const float *source = x.data<const float>();
  const int32_t offset = functions.offset(w.bits);
  constexpr int64_t kRowsOfPiece = 8;
  if (rows < 2 * kRowsOfPiece) {
    functions.round(source, inputs, offset, 0, rows, rounded);
  } else {
    call.parallel_for(rows, kRowsOfPiece, [&](int64_t begin, int64_t end, uint32_t) {
      functions.round(source, inputs, offset, begin, end, rounded);
    });
  }
  const int64_t tile_bytes = w.groups * static_cast<int64_t>(w.bits == 4 ? sizeof(Block4) : sizeof(Block8));
  const int64_t grain = rows > 4 ? 1 : 1 + kBytesOfPiece / tile_bytes;
  float *target = out.data<float>();
  call.parallel_for(w.tiles(), grain, [&](int64_t begin, int64_t end, uint32_t) {
    functions.multiply(rounded, rows, w, begin, end, target);
  });
  return call.status();
}

template <class Block>
void read_output(const PackedMatrix &w, int64_t output, int64_t size, float *target) {
  const Block *blocks = reinterpret_cast<const Block *>(w.data) + output / kBlockOutputs * w.groups;
  const int64_t lane = output % kBlockOutputs;
  for (int64_t i = 0; i < size; ++i) {
    const Block &block = blocks[i / kGroup];
    const int64_t k = i % kGroup;
    int32_t value;
    if constexpr (Block::kBits == 4) {
      const uint8_t byte = block.lines[k % 16 / 4][4 * lane + k % 4];
      value = k < 16 ? byte & 15 : byte >> 4;
    } else {
      value = block.lines[k / 4][4 * lane + k % 4];
    }
    target[i] = static_cast<float>(value - Block::kOffset) * float16_value(block.scales[lane]);
  }
}

// embedding(Tensor packed, Tensor ids, int rows, int size) -> Tensor: ids [T] int64 -> [T, size].
int32_t EDGECORE_CALL embedding(const edgecore_call *c) {
  Call call(c, "embedding");
  const PackedMatrix w = packed_matrix(call, 0, "packed", call.integer(2, "rows"));
  const Tensor ids = call.tensor(1, "ids", Dtype::kInt64, 1);
  const int64_t size = call.integer(3, "size");
  const Tensor out = call.tensor(4, "out", Dtype::kFloat32, 2);
  if (call.failed()) return call.status();
  if (!call.check(size > (w.groups - 1) * kGroup && size <= w.groups * kGroup,
                  "the packed matrix does not have rows of that size")) {
    return call.status();
  }
  const int64_t shape[] = {ids.size(0), size};
  if (!call.resize(out, shape, 2)) return call.status();
  for (int64_t t = 0; t < shape[0]; ++t) {
    const int64_t id = ids.data<const int64_t>()[t];
    if (!call.check(id >= 0 && id < w.outputs, "an id is outside of the vocabulary")) return call.status();
    float *target = out.data<float>() + t * size;
    if (w.bits == 4) {
      read_output<Block4>(w, id, size, target);
    } else {
      read_output<Block8>(w, id, size, target);
    }
  }
  return call.status();
}

// rope(Tensor x, Tensor table, Tensor positions) -> Tensor: x [T, heads, size], table [context, dims] with cosines and
// then sines, positions [T].
int32_t EDGECORE_CALL rope(const edgecore_call *c) {
  Call call(c, "rope");
  const Tensor x = call.tensor(0, "x", Dtype::kFloat32, 3);
  const Tensor table = call.tensor(1, "table", Dtype::kFloat32, 2);
  const Tensor positions = call.tensor(2, "positions", Dtype::kInt64, 1);
  const Tensor out = call.tensor(3, "out", Dtype::kFloat32, 3);
  if (call.failed()) return call.status();
  const int64_t size = x.size(2);
  const int64_t dims = table.size(1);
  if (!call.check(dims % 2 == 0 && dims <= size,
                  "table must have an even number of columns, at most the size of a head") ||
      !call.check(positions.size(0) == x.size(0), "there must be one position for each token")) {
    return call.status();
  }
  if (!call.resize(out, x.t->dl.shape, 3)) return call.status();
  const int64_t half = dims / 2;
  for (int64_t t = 0; t < x.size(0); ++t) {
    const int64_t position = positions.data<const int64_t>()[t];
    if (!call.check(position >= 0 && position < table.size(0), "a position is outside of the context")) {
      return call.status();
    }
    const float *cosines = table.data<const float>() + position * dims;
    const float *sines = cosines + half;
    for (int64_t h = 0; h < x.size(1); ++h) {
      const float *from = x.data<const float>() + (t * x.size(1) + h) * size;
      float *to = out.data<float>() + (t * x.size(1) + h) * size;
      for (int64_t i = 0; i < half; ++i) {
        const float first = from[i];
        const float second = from[half + i];
        to[i] = first * cosines[i] - second * sines[i];
        to[half + i] = second * cosines[i] + first * sines[i];
      }
      for (int64_t i = dims; i < size; ++i) to[i] = from[i];
    }
  }
  return call.status();
}

// A cache: keys [slots, heads, rows / 16, key_size, 16], values [slots, heads, rows, value_size]. Position p lies in
// row p if p < sinks, and in row sinks + (p - sinks) % (rows - sinks) else.
struct Cache {
  Tensor keys;
  Tensor values;
  int64_t slots, heads, rows, key_size, value_size, sinks;

  int64_t row(int64_t position) const {
    return position < sinks ? position : sinks + (position - sinks) % (rows - sinks);
  }
  float *head_keys(int64_t slot, int64_t head) const {
    return keys.data<float>() + (slot * heads + head) * rows * key_size;
  }
  float *head_values(int64_t slot, int64_t head) const {
    return values.data<float>() + (slot * heads + head) * rows * value_size;
  }
};

Cache read_cache(Call &call, uint64_t keys_index, uint64_t values_index, int64_t sinks) {
  const Tensor keys = call.tensor(keys_index, "k_cache", Dtype::kFloat32, 5);
  const Tensor values = call.tensor(values_index, "v_cache", Dtype::kFloat32, 4);
  if (call.failed()) return {};
  const Cache cache = {keys,           values,       values.size(0), values.size(1),
                       values.size(2), keys.size(3), values.size(3), sinks};
  const bool fits = keys.size(0) == cache.slots && keys.size(1) == cache.heads && keys.size(4) == kKeyBlock &&
                    keys.size(2) * kKeyBlock == cache.rows;
  call.check(fits, "k_cache must be [slots, heads, rows / 16, size, 16], and v_cache [slots, heads, rows, size]");
  call.check(sinks >= 0 && sinks < cache.rows, "sinks must be in [0, rows)");
  return cache;
}

// Checks the position and the slot of each of `count` tokens.
void check_tokens(Call &call, const Cache &cache, Tensor positions, Tensor slots, int64_t count) {
  call.check(positions.size(0) == count, "there must be one position for each token");
  call.check(slots.t == nullptr || slots.size(0) == count, "there must be one slot for each token");
  for (int64_t t = 0; !call.failed() && t < count; ++t) {
    const int64_t position = positions.data<const int64_t>()[t];
    call.check(position >= 0 && position < kMaxPosition, "a position is negative or too large");
    if (slots.t != nullptr) {
      const int64_t slot = slots.data<const int64_t>()[t];
      call.check(slot >= 0 && slot < cache.slots, "a slot is outside of the cache");
    }
  }
}

// update_cache(Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor k, Tensor v, Tensor positions, Tensor? slots, int sinks)
// -> (): k [T, heads, key_size], v [T, heads, value_size].
int32_t EDGECORE_CALL update_cache(const edgecore_call *c) {
  Call call(c, "update_cache");
  const Cache cache = read_cache(call, 0, 1, call.integer(6, "sinks"));
  const Tensor k = call.tensor(2, "k", Dtype::kFloat32, 3);
  const Tensor v = call.tensor(3, "v", Dtype::kFloat32, 3);
  const Tensor positions = call.tensor(4, "positions", Dtype::kInt64, 1);
  const Tensor slots = call.optional_tensor(5, "slots", Dtype::kInt64, 1);
  if (call.failed()) return call.status();
  const int64_t count = k.size(0);
  call.check(k.size(1) == cache.heads && k.size(2) == cache.key_size,
             "k has another shape than the heads of the cache");
  call.check(v.size(0) == count && v.size(1) == cache.heads && v.size(2) == cache.value_size,
             "v has another shape than the heads of the cache");
  check_tokens(call, cache, positions, slots, count);
  if (call.failed() || !call.make_writable(cache.keys) || !call.make_writable(cache.values)) return call.status();
  for (int64_t t = 0; t < count; ++t) {
    const int64_t row = cache.row(positions.data<const int64_t>()[t]);
    const int64_t slot = slots.t == nullptr ? 0 : slots.data<const int64_t>()[t];
    for (int64_t h = 0; h < cache.heads; ++h) {
      const float *key = k.data<const float>() + (t * cache.heads + h) * cache.key_size;
      float *to = cache.head_keys(slot, h) + row / kKeyBlock * kKeyBlock * cache.key_size + row % kKeyBlock;
      for (int64_t d = 0; d < cache.key_size; ++d) to[d * kKeyBlock] = key[d];
      memcpy(cache.head_values(slot, h) + row * cache.value_size,
             v.data<const float>() + (t * cache.heads + h) * cache.value_size,
             static_cast<size_t>(cache.value_size) * sizeof(float));
    }
  }
  return call.status();
}

// The rows that a token sees, cut into parts. The cuts depend on the token's position alone, so the bits of its result
// do not depend on the other tokens of a call.
struct Parts {
  const Cache &cache;
  int64_t position;
  int64_t next;       // the next position
  int64_t sinks_end;  // positions [next, sinks_end) are sinks
  int64_t first;      // then come the positions [first, position]

  Parts(const Cache &of, int64_t at, int64_t window) : cache(of), position(at) {
    first = window > 0 && at - window + 1 > 0 ? at - window + 1 : 0;
    sinks_end = cache.sinks < first ? cache.sinks : first;
    next = sinks_end > 0 ? 0 : first;
  }

  // Returns the rows [*row, *row + result) of the next part, or 0 after the last.
  int64_t take(int64_t *row) {
    if (next > position) return 0;
    const bool in_sinks = next < sinks_end;
    int64_t end = in_sinks ? sinks_end : position + 1;
    const int64_t cut = next / kPartRows * kPartRows + kPartRows;
    if (cut < end) end = cut;
    *row = cache.row(next);
    if (next < cache.sinks && end > cache.sinks) end = cache.sinks;  // the rows after the sinks may begin anywhere
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

// attend(Tensor q, Tensor k_cache, Tensor v_cache, Tensor positions, Tensor? slots, int window, int sinks, float scale,
// float softcap) -> Tensor: q [T, query_heads, key_size] -> [T, query_heads, value_size].
int32_t EDGECORE_CALL attend(const edgecore_call *c) {
  Call call(c, "attend");
  const Cache cache = read_cache(call, 1, 2, call.integer(6, "sinks"));
  const Tensor q = call.tensor(0, "q", Dtype::kFloat32, 3);
  const Tensor positions = call.tensor(3, "positions", Dtype::kInt64, 1);
  const Tensor slots = call.optional_tensor(4, "slots", Dtype::kInt64, 1);
  const int64_t window = call.integer(5, "window");
  const float scale = static_cast<float>(call.number(7, "scale"));
  const float softcap = static_cast<float>(call.number(8, "softcap"));
  const Tensor out = call.tensor(9, "out", Dtype::kFloat32, 3);
  if (call.failed()) return call.status();
  const int64_t tokens = q.size(0);
  const int64_t query_heads = q.size(1);
  const int64_t key_size = cache.key_size;
  const int64_t size = cache.value_size;
  call.check(q.size(2) == key_size, "q has another head size than the cache");
  call.check(cache.heads > 0 && query_heads % cache.heads == 0,
             "the heads of q must be a multiple of those of the cache");
  call.check(window >= 0 && window + cache.sinks <= cache.rows, "the cache has fewer rows than a token sees");
  check_tokens(call, cache, positions, slots, tokens);
  for (int64_t t = 0; !call.failed() && window == 0 && t < tokens; ++t) {
    call.check(positions.data<const int64_t>()[t] < cache.rows, "a position is beyond the rows of the cache");
  }
  const int64_t shape[] = {tokens, query_heads, size};
  if (!call.resize(out, shape, 3) || tokens == 0) return call.status();

  const Variant &functions = variant();
  const int64_t group = query_heads / cache.heads;
  const auto attention = [&](int64_t token, int64_t head) -> Attention {
    const int64_t slot = slots.t == nullptr ? 0 : slots.data<const int64_t>()[token];
    return {cache.head_keys(slot, head),
            cache.head_values(slot, head),
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

  // With few tokens the parts are the items of work, otherwise the heads of tokens: there is no memory for all parts of
  // a long prompt.
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
        const Attention of = attention(token, head);
        Parts parts(cache, positions.data<const int64_t>()[token], window);
        int64_t row;
        bool is_first = true;
        while (const int64_t rows = parts.take(&row)) {
          functions.attend(of, row, rows, scores + worker * score_floats, is_first ? total : part);
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
    const int64_t count = Parts(cache, positions.data<const int64_t>()[t], window).count();
    most = count > most ? count : most;
  }
  struct Rows {
    int64_t first, count;
  };
  Rows *rows = call.scratch<Rows>(tokens * most);
  float *memory = call.scratch<float>(tokens * cache.heads * most * part_floats);
  if (call.failed()) return call.status();
  for (int64_t t = 0; t < tokens; ++t) {
    Parts parts(cache, positions.data<const int64_t>()[t], window);
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

template <class T>
constexpr edgecore_header header() {
  return {sizeof(T), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
}

constexpr edgecore_str text(const char *chars) { return {chars, __builtin_strlen(chars)}; }

constexpr uint64_t kFloat = 1u << static_cast<int32_t>(Dtype::kFloat32);

constexpr edgecore_kernel kKernels[] = {
    {header<edgecore_kernel>(), text("edgecore_llm::attend"), text("out"), kFloat, attend},
    {header<edgecore_kernel>(), text("edgecore_llm::embedding"), text("out"), kFloat, embedding},
    {header<edgecore_kernel>(), text("edgecore_llm::linear"), text("out"), kFloat, linear},
    {header<edgecore_kernel>(), text("edgecore_llm::rope"), text("out"), kFloat, rope},
    {header<edgecore_kernel>(), text("edgecore_llm::update_cache"), text(""), kFloat, update_cache},
};

constexpr edgecore_kernel_library kLibrary = {header<edgecore_kernel_library>(),
                                              text("edgecore-llm"),
                                              text(EDGECORE_LLM_VERSION),
                                              kKernels,
                                              sizeof(kKernels) / sizeof(kKernels[0]),
                                              sizeof(kKernels[0]),
                                              0};

}  // namespace
}  // namespace edgecore_llm

extern "C" EDGECORE_EXPORT const edgecore_kernel_library *edgecore_kernels_v0(void) { return &edgecore_llm::kLibrary; }
