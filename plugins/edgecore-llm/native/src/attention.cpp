// Attention over a cache of keys and values, compiled once for each instruction set.
#include <math.h>

#include "functions.h"
#include "vector.h"

namespace edgecore::llm {
inline namespace EDGECORE_LLM_VARIANT {
namespace {

static_assert(kLanes == kKeyBlock);

// Computes the scores (dot products) of `kCount` queries with 16 keys; int8 keys have a scale each.
template <int kCount, class Element>
inline void score_block(const Element *keys, const float *scales, const float *queries, int64_t size, float *scores) {
  Vector sums[kCount] = {};
  for (int64_t d = 0; d < size; ++d) {
    const Vector key = load(keys + d * kLanes);
    for (int q = 0; q < kCount; ++q) sums[q] += key * queries[q * size + d];
  }
  if constexpr (sizeof(Element) == 1) {
    for (int q = 0; q < kCount; ++q) sums[q] *= load(scales);
  }
  for (int q = 0; q < kCount; ++q) store(scores + q * kScoreStride, sums[q]);
}

inline float to_float(float value) { return value; }
inline float to_float(Half value) { return float16_value(value.bits); }
inline float to_float(int8_t value) { return value; }

// Computes out = weights [kCount, rows] x values [rows, size], for the kVectors * 16 columns from `column` on.
template <int kCount, int kVectors, class Element>
inline void sum_values(const float *weights, const Element *values, int64_t rows, int64_t size, int64_t column,
                       float *out) {
  Vector sums[kCount][kVectors] = {};
  for (int64_t i = 0; i < rows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      const Vector value = load(values + i * size + column + v * kLanes);
      for (int q = 0; q < kCount; ++q) sums[q][v] += value * weights[q * kScoreStride + i];
    }
  }
  for (int q = 0; q < kCount; ++q) {
    for (int v = 0; v < kVectors; ++v) store(out + q * size + column + v * kLanes, sums[q][v]);
  }
}

// Computes out = weights [kCount, rows] x values [rows, size] for one column.
template <int kCount, class Element>
inline void sum_column(const float *weights, const Element *values, int64_t rows, int64_t size, int64_t column,
                       float *out) {
  float sums[kCount] = {};
  for (int64_t i = 0; i < rows; ++i) {
    const float value = to_float(values[i * size + column]);
    for (int q = 0; q < kCount; ++q) sums[q] += value * weights[q * kScoreStride + i];
  }
  for (int q = 0; q < kCount; ++q) out[q * size + column] = sums[q];
}

// Multiplies the scores [0, count) of a query by `scale` and applies the soft cap, if any; then replaces each score by
// exp(score - maximum). Sets `maximum` to the largest score and `sum` to the sum of the exponentials.
inline void weigh(float *scores, int64_t count, float scale, float softcap, float *maximum, float *sum) {
  const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
  for (int64_t i = 0; i < padded; i += kLanes) store(scores + i, load(scores + i) * scale);
  if (softcap != 0) {
    for (int64_t i = 0; i < count; ++i) scores[i] = softcap * tanhf(scores[i] / softcap);
  }
  for (int64_t i = count; i < padded; ++i) scores[i] = -INFINITY;
  Vector largest = load(scores);
  for (int64_t i = kLanes; i < padded; i += kLanes) {
    const Vector next = load(scores + i);
    largest = select(next > largest, next, largest);
  }
  float most = largest[0];
  for (int lane = 1; lane < kLanes; ++lane) most = largest[lane] > most ? largest[lane] : most;
  Vector sums = {};
  for (int64_t i = 0; i < padded; i += kLanes) {
    const Vector weight = exponential(load(scores + i) - most);
    store(scores + i, weight);
    sums += weight;
  }
  float total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += sums[lane];
  *maximum = most;
  *sum = total;
}

// Multiplies the attention weight of each cache row by the scale of the row's int8 values.
template <int kCount>
inline void scale_weights(const float *scales, int64_t rows, float *weights) {
  int64_t i = 0;
  for (; i + kLanes <= rows; i += kLanes) {
    for (int q = 0; q < kCount; ++q) {
      float *at = weights + q * kScoreStride + i;
      store(at, load(at) * load(scales + i));
    }
  }
  for (; i < rows; ++i) {
    for (int q = 0; q < kCount; ++q) weights[q * kScoreStride + i] *= scales[i];
  }
}

// Computes the attention of `kCount` query heads, from `head` on, to the cache rows [row, row + rows).
template <int kCount, class Element>
void attend_heads(const Attention &attention, int64_t head, int64_t row, int64_t rows, float *scores,
                  const AttentionPart &out) {
  const int64_t key_size = attention.key_size;
  const int64_t size = attention.value_size;
  scores += head * kScoreStride;
  const int64_t first_block = row / kKeyBlock;
  for (int64_t block = first_block; block * kKeyBlock < row + rows; ++block) {
    const Element *keys = static_cast<const Element *>(attention.keys) + block * kKeyBlock * key_size;
    const float *scales = sizeof(Element) == 1 ? attention.key_scales + block * kKeyBlock : nullptr;
    score_block<kCount>(keys, scales, attention.queries + head * key_size, key_size,
                        scores + (block - first_block) * kKeyBlock);
  }
  scores += row - first_block * kKeyBlock;
  for (int q = 0; q < kCount; ++q) {
    weigh(scores + q * kScoreStride, rows, attention.scale, attention.softcap, out.maximum + head + q,
          out.sum + head + q);
  }
  if constexpr (sizeof(Element) == 1) scale_weights<kCount>(attention.value_scales + row, rows, scores);
  const Element *values = static_cast<const Element *>(attention.values) + row * size;
  float *target = out.out + head * size;
  constexpr int kWide = 4;
  int64_t column = 0;
  for (; column + kWide * kLanes <= size; column += kWide * kLanes) {
    sum_values<kCount, kWide>(scores, values, rows, size, column, target);
  }
  for (; column + kLanes <= size; column += kLanes) {
    sum_values<kCount, 1>(scores, values, rows, size, column, target);
  }
  for (; column < size; ++column) sum_column<kCount>(scores, values, rows, size, column, target);
}

template <class Element>
void attend_all(const Attention &attention, int64_t row, int64_t rows, float *scores, const AttentionPart &out) {
  int64_t head = 0;
  for (; head + 4 <= attention.count; head += 4) attend_heads<4, Element>(attention, head, row, rows, scores, out);
  switch (attention.count - head) {
    case 3:
      return attend_heads<3, Element>(attention, head, row, rows, scores, out);
    case 2:
      return attend_heads<2, Element>(attention, head, row, rows, scores, out);
    case 1:
      return attend_heads<1, Element>(attention, head, row, rows, scores, out);
    default:
      return;
  }
}

}  // namespace

void attend(const Attention &attention, int64_t row, int64_t rows, float *scores, const AttentionPart &out) {
  switch (attention.type) {
    case CacheType::kFloat:
      return attend_all<float>(attention, row, rows, scores, out);
    case CacheType::kHalf:
      return attend_all<Half>(attention, row, rows, scores, out);
    case CacheType::kBytes:
      return attend_all<int8_t>(attention, row, rows, scores, out);
  }
}

void merge(const AttentionPart &total, const AttentionPart &next, int64_t count, int64_t value_size) {
  for (int64_t q = 0; q < count; ++q) {
    const float maximum = total.maximum[q] > next.maximum[q] ? total.maximum[q] : next.maximum[q];
    const float before = expf(total.maximum[q] - maximum);
    const float after = expf(next.maximum[q] - maximum);
    total.maximum[q] = maximum;
    total.sum[q] = total.sum[q] * before + next.sum[q] * after;
    float *to = total.out + q * value_size;
    const float *from = next.out + q * value_size;
    for (int64_t i = 0; i < value_size; ++i) to[i] = to[i] * before + from[i] * after;
  }
}

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore::llm
