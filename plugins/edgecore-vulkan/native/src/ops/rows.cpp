#include "ops/rows.h"

#include <algorithm>

namespace edgecore::vulkan {

namespace {

constexpr size_t kMaxReduced = 3;       // maximum number of reduced dims after merging
constexpr int64_t kThreads = 64;        // number of threads of a workgroup, as in the shader rows.glsl
constexpr int64_t kPasses = 4;          // upper bound of a shader's loops over a row
constexpr int64_t kManyTerms = 32'768;  // maximum number of loop iterations of a thread if more threads can share a row

// Drops dims of size 1, and merges adjacent dims that are contiguous in memory. If a dim has size 0, returns only this
// dim.
std::vector<Dim> joined(const std::vector<Dim> &dims) {
  std::vector<Dim> result;
  for (const Dim &dim : dims) {
    if (dim.size == 0) return {dim};
    if (dim.size == 1) continue;
    if (!result.empty() && result.back().stride == dim.size * dim.stride) {
      result.back() = {result.back().size * dim.size, dim.stride};
    } else {
      result.push_back(dim);
    }
  }
  if (result.empty()) result.push_back({1, 0});
  return result;
}

int64_t product(const std::vector<Dim> &dims) {
  int64_t result = 1;
  for (const Dim &dim : dims) result *= dim.size;
  return result;
}

// Returns the number of threads that share a row. On a GPU, rows of contiguous elements (`adjacent`) have as many
// threads as possible, so that adjacent threads read adjacent elements. Otherwise there are only enough threads to keep
// the device busy: on a CPU, sharing costs more than it gains.
uint32_t lanes_for(const Rows &rows, bool adjacent, bool is_cpu) {
  const int64_t min_terms = is_cpu ? 64 : 4, enough_threads = is_cpu ? 256 : adjacent ? INT64_MAX : 16384;
  uint32_t lanes = 1;
  while (lanes < kThreads && 2 * lanes * min_terms <= rows.terms && lanes * rows.count < enough_threads) lanes *= 2;
  while (lanes < kThreads && kPasses * rows.terms / lanes > kManyTerms) lanes *= 2;
  return lanes;
}

}  // namespace

Rows rows_of(const Call &call, const std::vector<Dim> &kept, const std::vector<Dim> &reduced) {
  Rows rows;
  rows.count = product(kept);
  rows.terms = product(reduced);
  rows.kept = joined(kept);
  rows.reduced = joined(reduced);
  if (rows.reduced.size() > kMaxReduced) {
    call.unsupported("it reduces %zu dims that are apart from each other", rows.reduced.size());
  }
  return rows;
}

Rows rows_over(const Call &call, const Tensor &x, const std::vector<bool> &is_reduced, const Tensor &result) {
  const Shape strides = x.strides();
  std::vector<size_t> own;  // for each dim of the result, the corresponding dim of the input
  for (size_t i = 0; i < x.rank(); ++i) {
    if (!is_reduced[i] || result.rank() == x.rank()) own.push_back(i);
  }
  std::vector<Dim> kept, reduced;
  for (const uint32_t dim : dims_in_memory(result.rank(), result.layout)) {
    if (!is_reduced[own[dim]]) kept.push_back({x.shape[own[dim]], strides[own[dim]]});
  }
  for (const uint32_t dim : dims_in_memory(x.rank(), x.layout)) {
    if (is_reduced[dim]) reduced.push_back({x.shape[dim], strides[dim]});
  }
  return rows_of(call, kept, reduced);
}

RowVectors vectors_of(const Rows &rows, bool may_use_terms, bool may_use_rows) {
  // Returns true if the innermost dim consists of whole vectors of 4, and all other strides are multiples of 4.
  const auto fits = [](const std::vector<Dim> &inner, const std::vector<Dim> &others) {
    const auto is_whole = [](const Dim &dim) { return dim.stride % 4 == 0; };
    return inner.back().stride == 1 && inner.back().size % 4 == 0 &&
           std::all_of(inner.begin(), inner.end() - 1, is_whole) && std::all_of(others.begin(), others.end(), is_whole);
  };
  if (may_use_terms && fits(rows.reduced, rows.kept)) return RowVectors::kTerms;
  return may_use_rows && fits(rows.kept, rows.reduced) ? RowVectors::kRows : RowVectors::kNone;
}

void dispatch_rows(const Call &call, const char *shader, const char *kind, std::vector<Tensor> written,
                   std::vector<Tensor> read, Rows rows, RowVectors vectors, const std::vector<uint32_t> &push,
                   const std::vector<uint32_t> &constants) {
  const bool adjacent = rows.reduced.back().stride == 1;
  if (vectors != RowVectors::kNone) {
    Dim &dim = (vectors == RowVectors::kTerms ? rows.reduced : rows.kept).back();
    dim = {dim.size / 4, 4};
    (vectors == RowVectors::kTerms ? rows.terms : rows.count) /= 4;
  }
  std::vector<uint32_t> words(3 + 2 * kMaxRank + 2 * kMaxReduced);
  const auto write = [&](size_t place, size_t length, const std::vector<Dim> &dims) {
    for (size_t i = 0; i < dims.size(); ++i) {
      words[place + i] = static_cast<uint32_t>(dims[i].size);
      words[place + length + i] = static_cast<uint32_t>(dims[i].stride);
    }
  };
  words[0] = static_cast<uint32_t>(rows.count);
  words[1] = static_cast<uint32_t>(rows.terms);
  words[2] = static_cast<uint32_t>(rows.kept.size());
  write(3, kMaxRank, rows.kept);
  write(3 + 2 * kMaxRank, kMaxReduced, rows.reduced);
  words.insert(words.end(), push.begin(), push.end());
  const uint32_t lanes = lanes_for(rows, adjacent, call.device().is_processor());
  call.check_iterations(kPasses * rows.terms / lanes);
  std::vector<uint32_t> all = {lanes, adjacent ? 1u : 0u, static_cast<uint32_t>(rows.reduced.size()),
                               vectors == RowVectors::kTerms ? 1u : 0u, vectors == RowVectors::kRows ? 1u : 0u};
  all.insert(all.end(), constants.begin(), constants.end());
  const bool texels =
      std::all_of(read.begin(), read.end(), [&](const Tensor &one) { return call.prefers_texels(one); });
  const std::string variant =
      std::string(shader) + "_" + name_of(read[0].dtype) + (texels ? "_texel_" : "_buffer_") + kind;
  for (Tensor &one : read) {
    if (texels) one = Call::texels(one, vectors == RowVectors::kNone ? 1 : 4);
  }
  call.dispatch_flat(variant, std::move(written), std::move(read), std::move(words), rows.count * lanes,
                     std::move(all));
}

Tensor in_form(const Call &call, const Tensor &x, Dtype dtype, Layout layout) {
  Tensor wanted{dtype, layout, x.shape, x.storage};
  if (x.dtype == dtype && x.same_order(wanted)) return wanted;
  wanted.storage = call.temporary(dtype, x.shape).storage;
  call.copy(x, wanted);
  return wanted;
}

std::vector<bool> named_dims(const Call &call, const std::vector<int64_t> &dims, size_t rank) {
  std::vector<bool> result(rank);
  for (const int64_t dim : dims) {
    const int64_t own = dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
    if (own < 0 || own >= static_cast<int64_t>(rank)) call.damaged("it names a dim that its input lacks");
    result[static_cast<size_t>(own)] = true;
  }
  return result;
}

}  // namespace edgecore::vulkan
