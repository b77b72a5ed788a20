// The members of Call that change the order, dtype or memory of a tensor, without a copy if possible.
#include <algorithm>
#include <utility>

#include "call.h"
#include "recorder.h"

namespace edgecore::vulkan {

void Call::alias(size_t index, const Tensor &source, const Shape &shape) const {
  value(index);
  const uint32_t number = call_.args[index];
  recorder_.check_output(number, shape);
  const Value &result = recorder_.graph().values[number];
  if (vulkan::count(shape) != source.count()) damaged("the result has another number of elements than the input");
  const Tensor reshaped{source.dtype, result.layout, shape, source.storage};
  const bool rows = Tensor{source.dtype, Layout::kRowMajor, source.shape, 0}.same_order(source) &&
                    Tensor{source.dtype, Layout::kRowMajor, shape, 0}.same_order(reshaped);
  const bool same = (rows || (shape == source.shape && reshaped.same_order(source)));
  if (same && recorder_.dtype_of(number) == source.dtype && !recorder_.is_output(number)) {
    recorder_.make(number, reshaped);
    return;
  }
  // Copy, because the result must have the input's elements in row-major order.
  const Tensor target = recorder_.output(number, shape);
  if (shape == source.shape) return copy(source, target);
  if (Tensor{source.dtype, Layout::kRowMajor, source.shape, 0}.same_order(source)) {
    return copy({source.dtype, Layout::kRowMajor, shape, source.storage}, target);
  }
  const Tensor ordered = temporary(source.dtype, source.shape);
  copy(source, ordered);
  copy({source.dtype, Layout::kRowMajor, shape, ordered.storage}, target);
}

void Call::copy(const Tensor &from, const Tensor &to) const {
  copy_strided(from, from.strides(), 0, to, to.strides(), 0, to.shape);
}

void Call::copy_strided(const Tensor &from, const Shape &from_strides, int64_t from_offset, const Tensor &to,
                        const Shape &to_strides, int64_t to_offset, const Shape &shape) const {
  struct Dim {
    int64_t size, from, to;
  };
  std::vector<Dim> all, dims;
  for (size_t i = 0; i < shape.size(); ++i) all.push_back({shape[i], from_strides[i], to_strides[i]});
  // Sort the dims by the target's strides, the smallest stride first, so that adjacent threads write adjacent elements.
  // Merge dims that are contiguous in source and target.
  std::stable_sort(all.begin(), all.end(), [](const Dim &a, const Dim &b) { return a.to < b.to; });
  for (const Dim &dim : all) {
    if (dim.size == 1) continue;
    if (!dims.empty() && dim.from == dims.back().from * dims.back().size &&
        dim.to == dims.back().to * dims.back().size) {
      dims.back().size *= dim.size;
    } else {
      dims.push_back(dim);
    }
  }
  if (dims.empty()) dims.push_back({1, 1, 1});
  const auto is_whole = [](int64_t number) { return number % 4 == 0; };
  bool vectors = dims[0].to == 1 && is_whole(dims[0].size) && is_whole(to_offset);
  bool from_vectors = dims[0].from == 1 && is_whole(from_offset);
  for (size_t i = 1; i < dims.size(); ++i) {
    vectors = vectors && is_whole(dims[i].to);
    from_vectors = from_vectors && is_whole(dims[i].from);
  }
  const int64_t step = dims[0].from, threads = vulkan::count(shape) / (vectors ? 4 : 1);
  if (vectors) dims[0] = {dims[0].size / 4, dims[0].from * 4, 4};
  std::vector<uint32_t> push(kMaxRank * 3);
  for (size_t i = 0; i < kMaxRank; ++i) {
    const Dim dim = i < dims.size() ? dims[i] : Dim{1, 0, 0};
    const size_t place = kMaxRank - 1 - i;
    push[place] = static_cast<uint32_t>(dim.size);
    push[kMaxRank + place] = static_cast<uint32_t>(dim.from);
    push[2 * kMaxRank + place] = static_cast<uint32_t>(dim.to);
  }
  for (const int64_t number : {from_offset, to_offset, step, static_cast<int64_t>(kMaxRank - dims.size()), threads}) {
    push.push_back(static_cast<uint32_t>(number));
  }
  from_vectors = from_vectors && vectors;
  const std::vector<uint32_t> constants = {vectors ? 1u : 0u, from_vectors ? 1u : 0u};
  // Do not use the copy through texels to convert fp32 to fp16: if a shader only reads a texel and packs it into fp16,
  // a driver may truncate the number instead of rounding it.
  const bool rounds = from.dtype == Dtype::kFloat32 && to.dtype == Dtype::kFloat16;
  if (is_float(from.dtype) && is_float(to.dtype) && !rounds && prefers_texels(from)) {
    return dispatch_flat(std::string("copy_texel_") + name_of(to.dtype) + "_texel", {to},
                         {texels(from, from_vectors ? 4 : 1)}, std::move(push), threads, constants);
  }
  const std::string shader = std::string("copy_strided_") + name_of(from.dtype) + "_" + name_of(to.dtype);
  dispatch_flat(shader, {to}, {from}, std::move(push), threads, constants);
}

}  // namespace edgecore::vulkan
