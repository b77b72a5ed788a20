// The functions that record operators, by file.
#ifndef EDGECORE_VULKAN_OPS_OPERATORS_H_
#define EDGECORE_VULKAN_OPS_OPERATORS_H_

#include "recorder.h"

namespace edgecore::vulkan {

// attention.cpp
void attention(Call &call);

// compare.cpp
void compare(Call &call);
void convert(Call &call);
void where(Call &call);

// create.cpp
void arange(Call &call);
void full(Call &call);

// elementwise.cpp
void add(Call &call);
void subtract(Call &call);
void multiply(Call &call);
void divide(Call &call);
void minimum(Call &call);
void maximum(Call &call);
void power(Call &call);
void remainder(Call &call);
void logic(Call &call);
void unary(Call &call);
void negate_or_abs(Call &call);
void with_slope(Call &call);
void relu(Call &call);
void clamp(Call &call);
void gelu(Call &call);
void elu(Call &call);

// index.cpp
void gather(Call &call);
void index_select(Call &call);
void embedding(Call &call);
void repeat(Call &call);

// matmul.cpp
void matrix_multiply(Call &call);
void linear_layer(Call &call);

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

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_OPERATORS_H_
