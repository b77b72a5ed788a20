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
    {"edgecore.state.default", state},
    {"edgecore.store.default", store},
    {"edgecore.update_rows.default", update_rows},
    {"et_vk.conv_with_clamp.default", convolution_with_clamp},
    {"et_vk.prepack.default", prepack},
};

}  // namespace

Operator find_operator(std::string_view name) {
  const auto *row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row &one) { return one.name == name; });
  return row == std::end(kRows) ? nullptr : row->function;
}

}  // namespace edgecore::vulkan
