// Attention over a cache of keys and values, compiled once for each instruction set.
#include <math.h>

#include "functions.h"
#include "vector.h"

namespace edgecore_llm {
inline namespace EDGECORE_LLM_VARIANT {
namespace {

static_assert(kLanes == kKeyBlock);

// The scores of `kCount` queries with 16 keys.
template <int kCount>
inline void score_block(const float *keys, const float *queries, int64_t size, float *scores) {
  Vector sums[kCount] = {};
  for (int64_t d = 0; d < size; ++d) {
    const Vector key = load(keys + d * kLanes);
    for (int q = 0; q < kCount; ++q) sums[q] += key * queries[q * size + d];
  }
  for (int q = 0; q < kCount; ++q) store(scores + q * kScoreStride, sums[q]);
}

// out [kCount, kVectors * 16] = weights [kCount, rows] x values [rows, size], of which the columns from `column` on.
template <int kCount, int kVectors>
inline void sum_values(const float *weights, const float *values, int64_t rows, int64_t size, int64_t column,
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

// The same for one column.
template <int kCount>
inline void sum_column(const float *weights, const float *values, int64_t rows, int64_t size, int64_t column,
                       float *out) {
  float sums[kCount] = {};
  for (int64_t i = 0; i < rows; ++i) {
    for (int q = 0; q < kCount; ++q) sums[q] += values[i * size + column] * weights[q * kScoreStride + i];
  }
  for (int q = 0; q < kCount; ++q) out[q * size + column] = sums[q];
}

// Replaces the scores [0, count) of a query by exp(score - maximum).
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

// Computes `kCount` query heads from `head` on.
template <int kCount>
void attend_heads(const Attention &attention, int64_t head, int64_t row, int64_t rows, float *scores,
                  const AttentionPart &out) {
  const int64_t key_size = attention.key_size;
  const int64_t size = attention.value_size;
  scores += head * kScoreStride;
  const int64_t first_block = row / kKeyBlock;
  for (int64_t block = first_block; block * kKeyBlock < row + rows; ++block) {
    score_block<kCount>(attention.keys + block * kKeyBlock * key_size, attention.queries + head * key_size, key_size,
                        scores + (block - first_block) * kKeyBlock);
  }
  scores += row - first_block * kKeyBlock;
  for (int q = 0; q < kCount; ++q) {
    weigh(scores + q * kScoreStride, rows, attention.scale, attention.softcap, out.maximum + head + q,
          out.sum + head + q);
  }
  const float *values = attention.values + row * size;
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

}  // namespace

void attend(const Attention &attention, int64_t row, int64_t rows, float *scores, const AttentionPart &out) {
  int64_t head = 0;
  for (; head + 4 <= attention.count; head += 4) attend_heads<4>(attention, head, row, rows, scores, out);
  switch (attention.count - head) {
    case 3:
      return attend_heads<3>(attention, head, row, rows, scores, out);
    case 2:
      return attend_heads<2>(attention, head, row, rows, scores, out);
    case 1:
      return attend_heads<1>(attention, head, row, rows, scores, out);
    default:
      return;
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
}  // namespace edgecore_llm
