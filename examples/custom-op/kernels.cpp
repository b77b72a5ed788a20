// Kernels of two operators, for contiguous float32 tensors.
//
// example_ops::multiply_add(Tensor a, Tensor b, float scale) -> Tensor computes a * b * scale + a. A kernel implements
// the out variant of such an operator. example_ops::append writes rows into a cache: an operator that returns nothing
// has no out variant.
#include <algorithm>

#include "edgecore/kernel.hpp"

namespace {

using edgecore::kernel::Context;
using edgecore::kernel::Tensor;

bool is_contiguous_float(Tensor tensor) { return tensor.is<float>() && tensor.is_contiguous(); }

void multiply_add(Context &context, Tensor a, Tensor b, double scale, Tensor out) {
  if (!is_contiguous_float(a) || !is_contiguous_float(b) || !is_contiguous_float(out)) {
    return context.fail(EDGECORE_INVALID_ARGUMENT, "multiply_add needs contiguous float32 tensors");
  }
  if (a.shape() != b.shape()) {
    return context.fail(EDGECORE_INVALID_ARGUMENT, "both tensors must have the same shape");
  }
  // Resize before writing: this call fails if the output cannot get this shape.
  if (!context.resize(out, a.shape())) return;
  const float *x = a.data<float>(), *y = b.data<float>();
  float *z = out.data<float>();
  const auto factor = static_cast<float>(scale);
  context.parallel_for(a.count(), 4096, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) z[i] = x[i] * y[i] * factor + x[i];
  });
}

void append(Context &context, Tensor rows, Tensor cache, int64_t position) {
  if (!is_contiguous_float(rows) || !is_contiguous_float(cache)) {
    return context.fail(EDGECORE_INVALID_ARGUMENT, "append needs contiguous float32 tensors");
  }
  const std::vector<int64_t> from = rows.shape(), to = cache.shape();
  if (from.empty() || from.size() != to.size() || !std::equal(from.begin() + 1, from.end(), to.begin() + 1)) {
    return context.fail(EDGECORE_INVALID_ARGUMENT, "rows and cache must have rows of the same shape");
  }
  if (position < 0 || from[0] > to[0] || position > to[0] - from[0]) {
    return context.fail(EDGECORE_INVALID_ARGUMENT, "the cache is full");
  }
  // Resize before writing, also if the shape stays: this call fails if the tensor may not be written.
  if (!context.resize(cache, to) || rows.count() == 0) return;
  float *start = cache.data<float>() + position * (rows.count() / from[0]);
  std::memmove(start, rows.data<float>(), static_cast<size_t>(rows.count()) * sizeof(float));
}

}  // namespace

EDGECORE_LIBRARY_FOR(example_ops, "multiply_add.out(Tensor a, Tensor b, float scale, *, Tensor(a!) out) -> Tensor(a!)",
                     multiply_add, edgecore::kernel::for_types<float>());
EDGECORE_LIBRARY_FOR(example_ops, "append(Tensor rows, Tensor(a!) cache, SymInt position) -> ()", append,
                     edgecore::kernel::for_types<float>());
EDGECORE_KERNELS("edgecore-example-ops", "0.1.0");
