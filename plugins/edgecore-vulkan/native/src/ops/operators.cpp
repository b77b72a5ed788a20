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
    {"aten._log_softmax.default", log_softmax},
    {"aten._softmax.default", softmax},
    {"aten._to_copy.default", clone},
    {"aten.add.Tensor", add},
    {"aten.amax.default", greatest},
    {"aten.amin.default", least},
    {"aten.argmax.default", index_of_greatest},
    {"aten.argmin.default", index_of_least},
    {"aten.avg_pool2d.default", average_pool},
    {"aten.cat.default", cat},
    {"aten.clamp.default", clamp},
    {"aten.clone.default", clone},
    {"aten.constant_pad_nd.default", pad},
    {"aten.convolution.default", convolution},
    {"aten.div.Tensor", divide},
    {"aten.exp.default", exponential},
    {"aten.expand_copy.default", expand},
    {"aten.flip.default", flip},
    {"aten.hardswish.default", hardswish},
    {"aten.linear.default", linear},
    {"aten.max_pool2d.default", max_pool},
    {"aten.max_pool2d_with_indices.default", max_pool},
    {"aten.maximum.default", maximum},
    {"aten.mean.dim", sum},
    {"aten.minimum.default", minimum},
    {"aten.mul.Tensor", multiply},
    {"aten.native_group_norm.default", group_norm},
    {"aten.native_layer_norm.default", layer_norm},
    {"aten.permute_copy.default", permute},
    {"aten.pixel_shuffle.default", pixel_shuffle},
    {"aten.relu.default", relu},
    {"aten.select_copy.int", select},
    {"aten.sigmoid.default", sigmoid},
    {"aten.slice_copy.Tensor", slice},
    {"aten.split_with_sizes_copy.default", split_with_sizes},
    {"aten.squeeze_copy.dims", view},
    {"aten.sub.Tensor", subtract},
    {"aten.sum.dim_IntList", sum},
    {"aten.tanh.default", tanh},
    {"aten.unsqueeze_copy.default", view},
    {"aten.upsample_bilinear2d.vec", upsample_bilinear},
    {"aten.upsample_nearest2d.vec", upsample_nearest},
    {"aten.view_copy.default", view},
    {"et_vk.conv_with_clamp.default", convolution_with_clamp},
    {"et_vk.prepack.default", prepack},
    {"et_vk.rms_norm.default", rms_norm},
};

}  // namespace

Operator find_operator(std::string_view name) {
  const auto *row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row &one) { return one.name == name; });
  return row == std::end(kRows) ? nullptr : row->function;
}

}  // namespace edgecore::vulkan
