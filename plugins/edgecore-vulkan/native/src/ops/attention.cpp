#include <algorithm>
#include <cmath>

#include "ops/loop.h"
#include "ops/matmul.h"
#include "ops/operators.h"

namespace edgecore::vulkan {

// Records the dispatches of scaled dot product attention. The scores are fp32 even for fp16 inputs, because the softmax
// of the scores is the step that is most sensitive to rounding.
void attention(Call &call) {
  const Tensor q = in_rows(call, call.tensor(0)), k = in_rows(call, call.tensor(1)), v = in_rows(call, call.tensor(2));
  if (q.rank() < 2 || k.rank() != q.rank() || v.rank() != q.rank()) call.damaged("its inputs have other dims");
  const int64_t length = q.size(2), depth = q.size(1), keys = k.size(2), width = v.size(1);
  if (k.size(1) != depth || v.size(2) != keys || !std::equal(q.shape.begin(), q.shape.end() - 2, k.shape.begin()) ||
      !std::equal(q.shape.begin(), q.shape.end() - 2, v.shape.begin())) {
    call.damaged("the shapes of its inputs do not fit");
  }
  Shape shape = q.shape;
  shape.back() = width;
  const Tensor out = call.output(call.last(), shape);
  Tensor target{out.dtype, Layout::kRowMajor, shape, out.storage};
  if (!target.same_order(out)) target = call.temporary(out.dtype, shape);

  Product product;
  product.m = length;
  product.k = depth;
  product.n = keys;
  for (size_t i = 0; i + 2 < q.rank(); ++i) product.batches *= q.shape[i];
  product.transposed = true;
  product.alpha = call.is_none(4) ? 1 / std::sqrt(static_cast<double>(depth)) : call.number(4);
  Shape scores_shape = q.shape;
  scores_shape.back() = keys;
  Tensor mask;
  if (!call.is_none(3)) {
    mask = call.tensor(3);
    if (broadcast(call, mask.shape, scores_shape) != scores_shape) call.damaged("its mask does not fit its scores");
    if (q.rank() > 4) call.unsupported("it has a mask and %zu dims", q.rank());
    const Shape strides = broadcast_strides(mask, q.rank());
    std::copy(strides.rbegin(), strides.rend(), std::rbegin(product.addend_strides));
    product.inner = std::max<int64_t>(q.size(3), 1);
    product.addend = &mask;
  }
  const Tensor scores = call.temporary(Dtype::kFloat32, scores_shape);
  multiply_matrices(call, product, q, k, scores);

  const int64_t rows = product.batches * length;
  if (scores.count() != 0) {
    uint32_t lanes = 8;
    while (lanes < 64 && lanes * 16 < keys) lanes *= 2;  // keep several vectors of a row for each thread
    const auto groups = static_cast<uint32_t>(std::min<int64_t>(rows, 32768));
    call.dispatch("attention_softmax", {scores}, {}, {static_cast<uint32_t>(rows), static_cast<uint32_t>(keys)},
                  {groups * lanes, static_cast<uint32_t>((rows + groups - 1) / groups), 1}, {lanes, 1, 1},
                  {keys % 4 == 0 ? 1u : 0u});
  }
  Product weighted;
  weighted.batches = product.batches;
  weighted.m = length;
  weighted.k = keys;
  weighted.n = width;
  multiply_matrices(call, weighted, scores, v, target);
  if (target.storage != out.storage) call.copy(target, out);
}

}  // namespace edgecore::vulkan
