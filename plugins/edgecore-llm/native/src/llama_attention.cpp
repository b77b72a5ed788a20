// Attention of llama::custom_sdpa, compiled once for each instruction set. Keys and values have the operator's layout,
// with contiguous rows, so a score is a sum over the lanes of a register.
#include "llama_attention.h"

#include <math.h>

#include "functions.h"
#include "vector.h"

namespace edgecore::llm {
inline namespace EDGECORE_LLM_VARIANT {
namespace {

inline float sum_lanes(Vector v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// Computes the scores of `kCount` queries with the rows [0, rows); the scores of query i begin at scores[i * stride].
template <int kCount>
inline void score_rows(const LlamaAttention &a, int64_t rows, float *scores, int64_t stride) {
  const int64_t whole = a.size / kLanes * kLanes;
  for (int64_t row = 0; row < rows; ++row) {
    const float *key = a.keys + row * a.stride;
    Vector sums[kCount] = {};
    for (int64_t d = 0; d < whole; d += kLanes) {
      const Vector part = load(key + d);
      for (int q = 0; q < kCount; ++q) sums[q] += part * load(a.queries[q] + d);
    }
    for (int q = 0; q < kCount; ++q) {
      float score = sum_lanes(sums[q]);
      for (int64_t d = whole; d < a.size; ++d) score += key[d] * a.queries[q][d];
      scores[q * stride + row] = score * a.scale;
    }
  }
}

// Replaces the scores of a query by their softmax. Rows that the mask hides (with -infinity), and the padding up to
// `padded` rows, become 0; if the mask hides every row, all become 0.
inline void weigh_rows(const float *mask, int64_t rows, int64_t padded, float *scores) {
  if (mask != nullptr) {
    for (int64_t i = 0; i < rows; ++i) scores[i] += mask[i];
  }
  for (int64_t i = rows; i < padded; ++i) scores[i] = -INFINITY;
  Vector largest = load(scores);
  for (int64_t i = kLanes; i < padded; i += kLanes) {
    const Vector next = load(scores + i);
    largest = select(next > largest, next, largest);
  }
  float most = largest[0];
  for (int lane = 1; lane < kLanes; ++lane) most = largest[lane] > most ? largest[lane] : most;
  if (most == -INFINITY) most = 0;
  Vector sums = {};
  for (int64_t i = 0; i < padded; i += kLanes) {
    const Vector weight = exponential(load(scores + i) - most);
    store(scores + i, weight);
    sums += weight;
  }
  const float total = sum_lanes(sums);
  const float factor = total > 0 ? 1 / total : 0;
  for (int64_t i = 0; i < padded; i += kLanes) store(scores + i, load(scores + i) * factor);
}

// Computes columns [column, column + kVectors * 16) of each query's result, the weighted sum of the value rows.
template <int kCount, int kVectors>
inline void sum_values(const LlamaAttention &a, int64_t rows, const float *weights, int64_t stride, int64_t column) {
  Vector sums[kCount][kVectors] = {};
  for (int64_t row = 0; row < rows; ++row) {
    const float *value = a.values + row * a.stride + column;
    for (int v = 0; v < kVectors; ++v) {
      const Vector part = load(value + v * kLanes);
      for (int q = 0; q < kCount; ++q) sums[q][v] += part * weights[q * stride + row];
    }
  }
  for (int q = 0; q < kCount; ++q) {
    for (int v = 0; v < kVectors; ++v) store(a.outs[q] + column + v * kLanes, sums[q][v]);
  }
}

template <int kCount>
void attend_queries(const LlamaAttention &a, float *scores) {
  int64_t rows = 0;
  for (int q = 0; q < kCount; ++q) rows = a.rows[q] > rows ? a.rows[q] : rows;
  const int64_t padded = (rows + kLanes - 1) / kLanes * kLanes;
  score_rows<kCount>(a, rows, scores, padded);
  for (int q = 0; q < kCount; ++q) weigh_rows(a.masks[q], a.rows[q], padded, scores + q * padded);
  constexpr int kWide = 4;
  int64_t column = 0;
  for (; column + kWide * kLanes <= a.size; column += kWide * kLanes) {
    sum_values<kCount, kWide>(a, rows, scores, padded, column);
  }
  for (; column + kLanes <= a.size; column += kLanes) sum_values<kCount, 1>(a, rows, scores, padded, column);
  for (; column < a.size; ++column) {
    for (int q = 0; q < kCount; ++q) {
      float sum = 0;
      for (int64_t row = 0; row < rows; ++row) sum += a.values[row * a.stride + column] * scores[q * padded + row];
      a.outs[q][column] = sum;
    }
  }
}

}  // namespace

void attend_rows(const LlamaAttention &attention, float *scores) {
  switch (attention.count) {
    case 4:
      return attend_queries<4>(attention, scores);
    case 3:
      return attend_queries<3>(attention, scores);
    case 2:
      return attend_queries<2>(attention, scores);
    case 1:
      return attend_queries<1>(attention, scores);
    default:
      return;
  }
}

}  // namespace EDGECORE_LLM_VARIANT
}  // namespace edgecore::llm
