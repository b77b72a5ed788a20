#include <algorithm>

#include "ops/loop.h"
#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

// Records the dispatch of a gather: out[i] = x[i . bases + indices[i . choices] * stride of `dim`], where i is the
// multi-dimensional index of an element, and `.` is the dot product of i with strides. For each dim of `out`, `bases`
// has the stride in x, or 0 if the dim only selects an index, and `choices` has the stride in `indices`.
void take(const Call &call, const Tensor &out, const Tensor &x, const Shape &bases, size_t dim, const Tensor &indices,
          const Shape &choices) {
  if (is_float(indices.dtype) || x.dtype != out.dtype) {
    call.unsupported("it has indices of %s and makes %s of %s", name_of(indices.dtype), name_of(out.dtype),
                     name_of(x.dtype));
  }
  const int64_t stride = x.strides()[dim], size = x.shape[dim];
  if (out.count() != 0 && size == 0) call.damaged("it takes elements of a dim without any");
  Loop loop = make_loop(out, {bases, choices}, {stride % 4 == 0});
  // If indices vary along the innermost dim, compute single elements, because the shader loads only one index per
  // vector.
  if (loop.vectors && (loop.contiguous & 2u) != 0) loop = make_loop(out, {bases, choices}, {false});
  loop.push.push_back(static_cast<uint32_t>(stride));
  loop.push.push_back(static_cast<uint32_t>(size));
  call.dispatch_flat(std::string("gather_") + name_of(out.dtype), {out}, {x, indices}, std::move(loop.push),
                     loop.threads, std::move(loop.constants));
}

// Records the dispatch of index_select or embedding: the result has the dims of x, with `dim` replaced by the dims of
// the indices.
void take_slices(const Call &call, const Tensor &x, size_t dim, const Tensor &indices) {
  const auto before = x.shape.begin() + static_cast<std::ptrdiff_t>(dim);
  Shape shape(x.shape.begin(), before);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), before + 1, x.shape.end());
  if (shape.size() > kMaxRank) call.unsupported("its result has %zu dims", shape.size());
  const Shape own = x.strides(), steps = indices.strides();
  Shape bases(shape.size()), choices(shape.size());
  std::copy(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(dim), bases.begin());
  std::copy(own.begin() + static_cast<std::ptrdiff_t>(dim) + 1, own.end(),
            bases.end() - static_cast<std::ptrdiff_t>(x.rank() - dim - 1));
  std::copy(steps.begin(), steps.end(), choices.begin() + static_cast<std::ptrdiff_t>(dim));
  take(call, call.output(call.last(), shape), x, bases, dim, indices, choices);
}

}  // namespace

void gather(Call &call) {
  const Tensor x = call.tensor(0), indices = call.tensor(2);
  if (x.rank() == 0) call.unsupported("its input has no dims");
  const size_t dim = call.dim(1, x.rank());
  bool fits = indices.rank() == x.rank();
  for (size_t i = 0; fits && i < x.rank(); ++i) fits = i == dim || indices.shape[i] <= x.shape[i];
  if (!fits) call.damaged("its indices do not fit its input");
  Shape bases = x.strides();
  bases[dim] = 0;
  take(call, call.output(call.last(), indices.shape), x, bases, dim, indices, indices.strides());
}

void index_select(Call &call) {
  const Tensor x = call.tensor(0), indices = call.tensor(2);
  if (x.rank() == 0 || indices.rank() != 1) call.unsupported("its input has no dims, or its indices have several");
  take_slices(call, x, call.dim(1, x.rank()), indices);
}

void embedding(Call &call) {
  const Tensor table = call.tensor(0);
  if (table.rank() != 2) call.damaged("its table has %zu dims", table.rank());
  take_slices(call, table, 0, call.tensor(1));
}

// Records the dispatches of a repeat: for each repeated dim d, one strided copy with the three dims [product of the
// dims before d, repetitions, product of d and the dims after d].
void repeat(Call &call) {
  const Tensor x = call.tensor(0);
  const std::vector<int64_t> times = call.integers(1);
  if (times.size() < x.rank() || times.size() > kMaxRank) call.damaged("it repeats %zu dims", times.size());
  Shape shape(times.size(), 1);
  std::copy(x.shape.begin(), x.shape.end(), shape.end() - static_cast<std::ptrdiff_t>(x.rank()));
  Shape repeated = shape;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] < 0 || (shape[i] != 0 && times[i] > INT32_MAX / shape[i])) call.damaged("it repeats too often");
    repeated[i] *= times[i];
  }
  const Tensor out = call.output(call.last(), repeated);
  if (out.count() == 0) return;
  Tensor now = in_rows(call, x);
  now.shape = shape;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] == 1) continue;
    Shape next = now.shape;
    next[i] = repeated[i];
    const int64_t outer = count(Shape(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(i)));
    const int64_t inner = now.count() / outer;
    const Tensor target = call.temporary(x.dtype, next);
    call.copy_strided(now, {inner, 0, 1}, 0, target, {inner * times[i], inner, 1}, 0, {outer, times[i], inner});
    now = target;
  }
  call.copy(now, out);
}

}  // namespace edgecore::vulkan
