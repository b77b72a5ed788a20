#include "ops/operators.h"

#include <algorithm>
#include <iterator>

namespace edgecore::vulkan {

namespace {

struct Row {
  std::string_view name;
  Operator function;
};

constexpr Row kRows[] = {
    {"aten._to_copy.default", convert},
    {"aten.abs.default", negate_or_abs},
    {"aten.add.Tensor", add},
    {"aten.arange.start_step", arange},
    {"aten.bitwise_and.Tensor", logic},
    {"aten.bitwise_not.default", logic},
    {"aten.bitwise_or.Tensor", logic},
    {"aten.bitwise_xor.Tensor", logic},
    {"aten.bmm.default", matrix_multiply},
    {"aten.cat.default", cat},
    {"aten.ceil.default", unary},
    {"aten.clamp.default", clamp},
    {"aten.clone.default", clone},
    {"aten.convolution.default", convolution},
    {"aten.cos.default", unary},
    {"aten.div.Tensor", divide},
    {"aten.div.Tensor_mode", divide},
    {"aten.elu.default", elu},
    {"aten.embedding.default", embedding},
    {"aten.eq.Scalar", compare},
    {"aten.eq.Tensor", compare},
    {"aten.erf.default", unary},
    {"aten.exp.default", unary},
    {"aten.expand_copy.default", expand},
    {"aten.expm1.default", unary},
    {"aten.floor.default", unary},
    {"aten.full.default", full},
    {"aten.full_like.default", full},
    {"aten.gather.default", gather},
    {"aten.ge.Scalar", compare},
    {"aten.ge.Tensor", compare},
    {"aten.gelu.default", gelu},
    {"aten.gt.Scalar", compare},
    {"aten.gt.Tensor", compare},
    {"aten.hardshrink.default", with_slope},
    {"aten.hardsigmoid.default", unary},
    {"aten.hardswish.default", unary},
    {"aten.hardtanh.default", clamp},
    {"aten.index_select.default", index_select},
    {"aten.le.Scalar", compare},
    {"aten.le.Tensor", compare},
    {"aten.leaky_relu.default", with_slope},
    {"aten.linear.default", linear_layer},
    {"aten.log.default", unary},
    {"aten.log10.default", unary},
    {"aten.log1p.default", unary},
    {"aten.logical_and.default", logic},
    {"aten.logical_not.default", logic},
    {"aten.logical_or.default", logic},
    {"aten.logical_xor.default", logic},
    {"aten.lt.Scalar", compare},
    {"aten.lt.Tensor", compare},
    {"aten.maximum.default", maximum},
    {"aten.mean.dim", mean},
    {"aten.minimum.default", minimum},
    {"aten.mm.default", matrix_multiply},
    {"aten.mul.Tensor", multiply},
    {"aten.ne.Scalar", compare},
    {"aten.ne.Tensor", compare},
    {"aten.neg.default", negate_or_abs},
    {"aten.permute_copy.default", permute},
    {"aten.pow.Tensor_Scalar", power},
    {"aten.pow.Tensor_Tensor", power},
    {"aten.reciprocal.default", unary},
    {"aten.relu.default", relu},
    {"aten.remainder.Tensor", remainder},
    {"aten.repeat.default", repeat},
    {"aten.round.default", unary},
    {"aten.rsqrt.default", unary},
    {"aten.select_copy.int", select},
    {"aten.sigmoid.default", unary},
    {"aten.sign.default", unary},
    {"aten.silu.default", unary},
    {"aten.sin.default", unary},
    {"aten.slice_copy.Tensor", slice},
    {"aten.split_with_sizes_copy.default", split_with_sizes},
    {"aten.sqrt.default", unary},
    {"aten.squeeze_copy.dims", view},
    {"aten.sub.Tensor", subtract},
    {"aten.sum.dim_IntList", mean},
    {"aten.tanh.default", unary},
    {"aten.trunc.default", unary},
    {"aten.unsqueeze_copy.default", view},
    {"aten.view_copy.default", view},
    {"aten.where.self", where},
    {"et_vk.conv_with_clamp.default", convolution_with_clamp},
    {"et_vk.prepack.default", prepack},
    {"et_vk.sdpa.default", attention},
};

}  // namespace

Operator find_operator(std::string_view name) {
  const auto *row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row &one) { return one.name == name; });
  return row == std::end(kRows) ? nullptr : row->function;
}

}  // namespace edgecore::vulkan
