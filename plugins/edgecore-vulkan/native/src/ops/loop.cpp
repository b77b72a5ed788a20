#include "ops/loop.h"

#include <algorithm>

namespace edgecore::vulkan {

uint32_t bits_of(double value, Dtype dtype) {
  if (is_float(dtype)) return bits_of(value);
  if (value != value) return 0;
  return static_cast<uint32_t>(static_cast<int32_t>(std::clamp<double>(value, INT32_MIN, INT32_MAX)));
}

std::string base_name(const Call &call) {
  const std::string &name = call.name();
  const size_t start = name.find('.') + 1;
  return name.substr(start, name.find('.', start) - start);
}

Shape broadcast(const Call &call, const Shape &a, const Shape &b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1, from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) call.damaged("the shapes of its inputs do not broadcast");
    result[result.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return result;
}

Shape broadcast_strides(const Tensor &operand, size_t rank) {
  const Shape own = operand.strides();
  Shape result(rank);
  for (size_t i = 0; i < own.size(); ++i) result[rank - own.size() + i] = operand.shape[i] == 1 ? 0 : own[i];
  return result;
}

Tensor in_layout(const Call &call, const Tensor &x, Layout layout) {
  Tensor target{x.dtype, layout, x.shape, x.storage};
  if (target.same_order(x)) return target;
  target.storage = call.temporary(x.dtype, x.shape).storage;
  call.copy(x, target);
  return target;
}

Tensor in_rows(const Call &call, const Tensor &x) { return in_layout(call, x, Layout::kRowMajor); }

Loop make_loop(const Tensor &out, const std::vector<Shape> &strides, LoopOptions options) {
  struct Dim {
    int64_t size;
    Shape strides;  // one per operand
  };
  std::vector<Dim> dims;  // innermost first
  const std::vector<uint32_t> order = dims_in_memory(out.rank(), out.layout);
  for (size_t i = order.size(); i-- > 0;) {
    Dim dim{out.shape[order[i]], {}};
    if (dim.size == 1) continue;
    for (const Shape &operand : strides) dim.strides.push_back(operand[order[i]]);
    bool merges = !dims.empty();
    for (size_t j = 0; merges && j < strides.size(); ++j) {
      merges = dim.strides[j] == dims.back().strides[j] * dims.back().size;
    }
    if (merges) {
      dims.back().size *= dim.size;
    } else {
      dims.push_back(std::move(dim));
    }
  }
  if (dims.empty()) dims.push_back({1, Shape(strides.size())});

  Loop loop;
  loop.vectors = options.vectors && (dims.size() == 1 || dims[0].size % 4 == 0);
  for (size_t j = 0; j < strides.size(); ++j) {
    const int64_t step = dims[0].strides[j];
    loop.vectors = loop.vectors && (step == 0 || step == 1);
    for (size_t i = 1; i < dims.size(); ++i) {
      loop.vectors = loop.vectors && (step == 0 || dims[i].strides[j] % 4 == 0);
    }
    if (step != 0) loop.contiguous |= 1u << j;
  }
  loop.threads = out.count();
  int64_t vectors = 0, repeat = 1;
  if (loop.vectors) {
    vectors = (loop.threads + 3) / 4;
    dims[0].size = (dims[0].size + 3) / 4;
    // Let a thread compute several vectors if all of them lie along one innermost dim.
    while (options.repeats && repeat < kRepeat && (dims.size() == 1 || dims[0].size % (2 * repeat) == 0)) repeat *= 2;
    loop.threads = (vectors + repeat - 1) / repeat;
    dims[0].size = (dims[0].size + repeat - 1) / repeat;
    for (int64_t &step : dims[0].strides) step *= 4 * repeat;
  }
  loop.push.resize(kMaxRank * (strides.size() + 1));
  for (size_t i = 0; i < kMaxRank; ++i) {
    const size_t place = kMaxRank - 1 - i;
    loop.push[place] = i < dims.size() ? static_cast<uint32_t>(dims[i].size) : 1;
    for (size_t j = 0; i < dims.size() && j < strides.size(); ++j) {
      loop.push[kMaxRank * (j + 1) + place] = static_cast<uint32_t>(dims[i].strides[j]);
    }
  }
  loop.push.push_back(static_cast<uint32_t>(kMaxRank - dims.size()));
  loop.push.push_back(static_cast<uint32_t>(loop.threads));
  loop.push.push_back(static_cast<uint32_t>(vectors));
  loop.constants = {loop.vectors ? 1u : 0u, loop.contiguous, static_cast<uint32_t>(repeat)};
  return loop;
}

}  // namespace edgecore::vulkan
