// The functions that record operators, by file.
#ifndef EDGECORE_VULKAN_OPS_OPERATORS_H_
#define EDGECORE_VULKAN_OPS_OPERATORS_H_

#include "recorder.h"

namespace edgecore::vulkan {

// elementwise.cpp
void add(Call &call);
void subtract(Call &call);
void multiply(Call &call);
void divide(Call &call);
void minimum(Call &call);
void maximum(Call &call);
void relu(Call &call);
void clamp(Call &call);
void sigmoid(Call &call);
void tanh(Call &call);
void exponential(Call &call);
void hardswish(Call &call);

// matrix.cpp
void convolution(Call &call);
void convolution_with_clamp(Call &call);
void linear(Call &call);
void mean(Call &call);

// movement.cpp
void clone(Call &call);
void prepack(Call &call);
void view(Call &call);
void permute(Call &call);
void cat(Call &call);
void slice(Call &call);
void select(Call &call);
void expand(Call &call);
void split_with_sizes(Call &call);

// integer_layers.cpp
void linear_int8(Call &call);
void linear_int4(Call &call);
void linear_int4_rows(Call &call);
void linear_int4_dynamic(Call &call);
void convolution_int8(Call &call);
void linear_int8_static(Call &call);
void add_int8(Call &call);

// quantize.cpp
void quantize_per_tensor(Call &call);
void dequantize_per_tensor(Call &call);
void quantize_per_token(Call &call);
void dequantize_per_token(Call &call);
void dequantize_per_channel(Call &call);
void dequantize_affine(Call &call);
void choose_qparams(Call &call);
void choose_qparams_per_token(Call &call);
void choose_qparams_affine(Call &call);

// rotary.cpp
void rotate_halves(Call &call);
void rotate_pairs(Call &call);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_OPERATORS_H_
