#include "shape.h"

#include <algorithm>
#include <cstdio>

namespace edgecore::xnnpack {

bool operator==(const Shape &a, const Shape &b) {
  return a.rank == b.rank && std::equal(a.dim.begin(), a.dim.begin() + a.rank, b.dim.begin());
}

bool in_limits(const Shape &shape) {
  if (shape.rank > kMaxRank) return false;
  uint64_t elements = 1;
  for (uint32_t i = 0; i < shape.rank; ++i) {
    if (shape.dim[i] == 0 || shape.dim[i] > kMaxDim) return false;
    if (__builtin_mul_overflow(elements, shape.dim[i], &elements) || elements >= kMaxElements) return false;
  }
  return true;
}

uint64_t element_count(const Shape &shape) {
  uint64_t elements = 1;
  for (uint32_t i = 0; i < shape.rank; ++i) elements *= shape.dim[i];
  return elements;
}

bool broadcast(const Shape &a, const Shape &b, Shape *out) {
  Shape result;
  result.rank = std::max(a.rank, b.rank);
  for (uint32_t i = 0; i < result.rank; ++i) {
    const uint64_t da = i < a.rank ? a.back(i) : 1;
    const uint64_t db = i < b.rank ? b.back(i) : 1;
    if (da != db && da != 1 && db != 1) return false;
    result.dim[result.rank - 1 - i] = std::max(da, db);
  }
  *out = result;
  return true;
}

std::array<size_t, kMaxRank> xnn_dims(const Shape &shape) {
  std::array<size_t, kMaxRank> dims = {};
  for (uint32_t i = 0; i < shape.rank; ++i) dims[i] = static_cast<size_t>(shape.dim[i]);
  return dims;
}

std::vector<int64_t> sizes_of(const Shape &shape) { return {shape.dim.begin(), shape.dim.begin() + shape.rank}; }

const char *shape_text(const Shape &shape) {
  static thread_local char ring[4][160];
  static thread_local uint32_t next = 0;
  char *text = ring[next++ % 4];
  int used = std::snprintf(text, sizeof(ring[0]), "[");
  for (uint32_t i = 0; i < shape.rank && i < kMaxRank; ++i) {
    used += std::snprintf(text + used, sizeof(ring[0]) - static_cast<size_t>(used), i == 0 ? "%llu" : ", %llu",
                          static_cast<unsigned long long>(shape.dim[i]));
  }
  std::snprintf(text + used, sizeof(ring[0]) - static_cast<size_t>(used), "]");
  return text;
}

}  // namespace edgecore::xnnpack
