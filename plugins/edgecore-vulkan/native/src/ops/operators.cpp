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
    {"aten._to_copy.default", clone},
    {"aten._weight_int8pack_mm.default", linear_int8},
    {"aten.add.Tensor", add},
    {"aten.cat.default", cat},
    {"aten.clamp.default", clamp},
    {"aten.clone.default", clone},
    {"aten.convolution.default", convolution},
    {"aten.div.Tensor", divide},
    {"aten.exp.default", exponential},
    {"aten.expand_copy.default", expand},
    {"aten.hardswish.default", hardswish},
    {"aten.linear.default", linear},
    {"aten.maximum.default", maximum},
    {"aten.mean.dim", mean},
    {"aten.minimum.default", minimum},
    {"aten.mul.Tensor", multiply},
    {"aten.permute_copy.default", permute},
    {"aten.relu.default", relu},
    {"aten.select_copy.int", select},
    {"aten.sigmoid.default", sigmoid},
    {"aten.slice_copy.Tensor", slice},
    {"aten.split_with_sizes_copy.default", split_with_sizes},
    {"aten.squeeze_copy.dims", view},
    {"aten.sub.Tensor", subtract},
    {"aten.sum.dim_IntList", mean},
    {"aten.tanh.default", tanh},
    {"aten.unsqueeze_copy.default", view},
    {"aten.view_copy.default", view},
    {"edgecore.rotate_halves.default", rotate_halves},
    {"edgecore.rotate_pairs.default", rotate_pairs},
    {"et_vk.conv_with_clamp.default", convolution_with_clamp},
    {"et_vk.linear_dq8ca_q4gsw.default", linear_int4_dynamic},
    {"et_vk.linear_q4gsw.default", linear_int4},
    {"et_vk.linear_qcs4w.default", linear_int4_rows},
    {"et_vk.prepack.default", prepack},
    {"et_vk.q8ta_add.default", add_int8},
    {"et_vk.q8ta_conv2d.default", convolution_int8},
    {"et_vk.q8ta_conv2d_dw.default", convolution_int8},
    {"et_vk.q8ta_conv2d_pw.default", convolution_int8},
    {"et_vk.q8ta_linear.default", linear_int8_static},
    {"et_vk.q8ta_linear_gemv.default", linear_int8_static},
    {"quantized_decomposed.choose_qparams.tensor", choose_qparams},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric.default", choose_qparams_per_token},
    {"quantized_decomposed.dequantize_per_channel.default", dequantize_per_channel},
    {"quantized_decomposed.dequantize_per_tensor.default", dequantize_per_tensor},
    {"quantized_decomposed.dequantize_per_token.default", dequantize_per_token},
    {"quantized_decomposed.quantize_per_tensor.default", quantize_per_tensor},
    {"quantized_decomposed.quantize_per_token.default", quantize_per_token},
    {"torchao.choose_qparams_affine.default", choose_qparams_affine},
    {"torchao.dequantize_affine.default", dequantize_affine},
};

}  // namespace

Operator find_operator(std::string_view name) {
  const auto *row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row &one) { return one.name == name; });
  return row == std::end(kRows) ? nullptr : row->function;
}

}  // namespace edgecore::vulkan
