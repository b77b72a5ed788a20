#include <algorithm>
#include <numeric>

#include "ops/operators.h"

namespace edgecore::vulkan {

namespace {

// Returns the shape of a result from its declared sizes. At most one size may be -1; it is inferred from `elements`.
Shape resolved(const Call &call, const std::vector<int64_t> &sizes, int64_t elements) {
  Shape shape = sizes;
  int64_t known = 1;
  auto unknown = shape.end();
  for (auto at = shape.begin(); at != shape.end(); ++at) {
    if (*at == -1 && unknown == shape.end()) {
      unknown = at;
    } else if (*at < 0 || (*at != 0 && known > INT32_MAX / *at)) {
      call.damaged("its sizes are negative or too large");
    } else {
      known *= *at;
    }
  }
  if (unknown != shape.end()) {
    if (known == 0 || elements % known != 0)
      call.damaged("its sizes do not fit %lld elements", static_cast<long long>(elements));
    *unknown = elements / known;
  }
  return shape;
}

}  // namespace

void clone(Call &call) {
  const Tensor x = call.tensor(0);
  call.copy(x, call.output(call.last(), x.shape));
}

void prepack(Call &call) {
  const Tensor x = call.tensor(0);
  call.alias(call.last(), x, x.shape);
}

void view(Call &call) {
  const Tensor x = call.tensor(0);
  if (call.name() == "aten.view_copy.default") {
    return call.alias(call.last(), x, resolved(call, call.integers(1), x.count()));
  }
  Shape shape = x.shape;
  if (call.name() == "aten.unsqueeze_copy.default") {
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(call.dim(1, x.rank() + 1)), 1);
  } else {
    std::vector<bool> removed(x.rank());
    for (const int64_t dim : call.integers(1)) {
      const int64_t own = dim < 0 ? dim + static_cast<int64_t>(x.rank()) : dim;
      if (own < 0 || own >= static_cast<int64_t>(x.rank())) call.damaged("it squeezes a dim that its input lacks");
      removed[static_cast<size_t>(own)] = x.shape[static_cast<size_t>(own)] == 1;
    }
    shape.clear();
    for (size_t i = 0; i < x.rank(); ++i) {
      if (!removed[i]) shape.push_back(x.shape[i]);
    }
  }
  call.alias(call.last(), x, shape);
}

void permute(Call &call) {
  const Tensor x = call.tensor(0);
  const std::vector<int64_t> order = call.integers(1);
  const Shape strides = x.strides();
  Shape shape(x.rank()), from(x.rank());
  std::vector<bool> seen(x.rank());
  if (order.size() != x.rank()) call.damaged("it permutes %zu dims of %zu", order.size(), x.rank());
  for (size_t i = 0; i < order.size(); ++i) {
    const auto own = static_cast<size_t>(order[i] < 0 ? order[i] + static_cast<int64_t>(x.rank()) : order[i]);
    if (own >= x.rank() || seen[own]) call.damaged("its dims are no permutation");
    seen[own] = true;
    shape[i] = x.shape[own];
    from[i] = strides[own];
  }
  const Tensor out = call.output(call.last(), shape);
  call.copy_strided(x, from, 0, out, out.strides(), 0, shape);
}

void cat(Call &call) {
  const std::vector<Tensor> parts = call.tensors(0);
  if (parts.empty()) call.damaged("it has no inputs");
  const size_t dim = call.dim(1, parts[0].rank());
  Shape shape = parts[0].shape;
  shape[dim] = 0;
  for (const Tensor &part : parts) {
    Shape other = part.shape;
    if (other.size() != shape.size()) call.damaged("its inputs have different numbers of dims");
    shape[dim] += other[dim];
    other[dim] = shape[dim];
    if (other != shape) call.damaged("its inputs have shapes that do not fit");
  }
  const Tensor out = call.output(call.last(), shape);
  const Shape strides = out.strides();
  int64_t offset = 0;
  for (const Tensor &part : parts) {
    call.copy_strided(part, part.strides(), 0, out, strides, offset * strides[dim], part.shape);
    offset += part.shape[dim];
  }
}

void slice(Call &call) {
  const Tensor x = call.tensor(0);
  const size_t dim = call.dim(1, x.rank());
  const int64_t size = x.shape[dim], step = call.integer(4);
  if (step < 1) call.damaged("its step is not positive");
  const auto position = [&](size_t index, int64_t without) {
    int64_t at = call.is_none(index) ? without : call.integer(index);
    if (at < 0) at = at < -size ? 0 : at + size;
    return std::min(at, size);
  };
  const int64_t start = position(2, 0), end = std::max(position(3, size), start);
  Shape shape = x.shape, strides = x.strides();
  shape[dim] = (end - start) / step + ((end - start) % step != 0 ? 1 : 0);
  const Tensor out = call.output(call.last(), shape);
  const int64_t offset = start * strides[dim];
  strides[dim] *= step;
  call.copy_strided(x, strides, offset, out, out.strides(), 0, shape);
}

void select(Call &call) {
  const Tensor x = call.tensor(0);
  const size_t dim = call.dim(1, x.rank());
  int64_t index = call.integer(2);
  if (index < 0) index += x.shape[dim];
  if (index < 0 || index >= x.shape[dim]) call.damaged("its index is out of range");
  Shape shape = x.shape, strides = x.strides();
  const int64_t offset = index * strides[dim];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(dim));
  const Tensor out = call.output(call.last(), shape);
  call.copy_strided(x, strides, offset, out, out.strides(), 0, shape);
}

void expand(Call &call) {
  const Tensor x = call.tensor(0);
  Shape shape = call.integers(1);
  const Shape own = x.strides();
  if (shape.size() < x.rank() || shape.size() > kMaxRank) call.damaged("it expands to %zu dims", shape.size());
  const size_t added = shape.size() - x.rank();
  Shape from(shape.size());
  for (size_t i = 0; i < x.rank(); ++i) {
    int64_t &size = shape[added + i];
    if (size == -1) size = x.shape[i];
    if (size != x.shape[i] && x.shape[i] != 1) call.damaged("its input does not broadcast to its sizes");
    from[added + i] = x.shape[i] == 1 ? 0 : own[i];
  }
  const Tensor out = call.output(call.last(), shape);
  call.copy_strided(x, from, 0, out, out.strides(), 0, shape);
}

void split_with_sizes(Call &call) {
  const Tensor x = call.tensor(0);
  const std::vector<int64_t> sizes = call.integers(1);
  const size_t dim = call.dim(2, x.rank());
  const Shape strides = x.strides();
  int64_t offset = 0;
  if (sizes.size() != call.list_size(call.last())) call.damaged("it has %zu sizes for its results", sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > x.shape[dim] - offset) call.damaged("its sizes do not fit its input");
    Shape shape = x.shape;
    shape[dim] = sizes[i];
    const Tensor out = call.output_of_list(call.last(), i, shape);
    call.copy_strided(x, strides, offset * strides[dim], out, out.strides(), 0, shape);
    offset += sizes[i];
  }
}

}  // namespace edgecore::vulkan
