// Declares the functions that record operators, by file. Each checks the arguments of an operator call, and adds the
// shader dispatches that compute the call.
#ifndef EDGECORE_VULKAN_OPS_OPERATORS_H_
#define EDGECORE_VULKAN_OPS_OPERATORS_H_

#include "call.h"

namespace edgecore::vulkan {

// attention.cpp
void attention(Call &call);

// compare.cpp
void compare(Call &call);
void convert(Call &call);
void where(Call &call);

// convolution.cpp
void convolution(Call &call);
void convolution_with_clamp(Call &call);

// create.cpp
void arange(Call &call);
void full(Call &call);

// elementwise.cpp
void add(Call &call);
void clamp(Call &call);
void divide(Call &call);
void elu(Call &call);
void gelu(Call &call);
void logic(Call &call);
void maximum(Call &call);
void minimum(Call &call);
void multiply(Call &call);
void negate_or_abs(Call &call);
void power(Call &call);
void relu(Call &call);
void remainder(Call &call);
void subtract(Call &call);
void unary(Call &call);
void with_slope(Call &call);

// image.cpp
void average_pool(Call &call);
void max_pool(Call &call);
void upsample_bilinear(Call &call);
void upsample_nearest(Call &call);

// index.cpp
void embedding(Call &call);
void gather(Call &call);
void index_select(Call &call);
void repeat(Call &call);

// integer_layers.cpp
void add_int8(Call &call);
void convolution_int8(Call &call);
void linear_int4(Call &call);
void linear_int4_dynamic(Call &call);
void linear_int4_rows(Call &call);
void linear_int8(Call &call);
void linear_int8_static(Call &call);

// linear.cpp
void linear(Call &call);

// matmul.cpp
void linear_layer(Call &call);
void matrix_multiply(Call &call);

// movement.cpp
void cat(Call &call);
void clone(Call &call);
void expand(Call &call);
void permute(Call &call);
void prepack(Call &call);
void select(Call &call);
void slice(Call &call);
void split_with_sizes(Call &call);
void view(Call &call);

// norm.cpp
void group_norm(Call &call);
void layer_norm(Call &call);
void rms_norm(Call &call);

// pad.cpp
void flip(Call &call);
void pad(Call &call);
void pixel_shuffle(Call &call);

// quantize.cpp
void choose_qparams(Call &call);
void choose_qparams_affine(Call &call);
void choose_qparams_per_token(Call &call);
void dequantize_affine(Call &call);
void dequantize_per_channel(Call &call);
void dequantize_per_tensor(Call &call);
void dequantize_per_token(Call &call);
void quantize_per_tensor(Call &call);
void quantize_per_token(Call &call);

// reduce.cpp
void amax(Call &call);
void amin(Call &call);
void argmax(Call &call);
void argmin(Call &call);
void log_softmax(Call &call);
void softmax(Call &call);
void sum(Call &call);

// rotary.cpp
void rotate_halves(Call &call);
void rotate_pairs(Call &call);

// state.cpp
void state(Call &call);
void store(Call &call);
void update_rows(Call &call);

// symbolic.cpp
void symbolic_arithmetic(Call &call);
void symbolic_size(Call &call);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_OPERATORS_H_
