// Weights and inputs of layers, convolutions among them, and how far their results may lie from the reference.
#ifndef EDGECORE_XNNPACK_TRIAL_LAYER_H_
#define EDGECORE_XNNPACK_TRIAL_LAYER_H_

#include "trial/families.h"

namespace edgecore::xnnpack::trial {

// Types of a layer. With `filter` qcint8, qcint4 or qbint4 and a floating-point `input`, `rounds_input` says that the
// input becomes qdint8 first.
struct LayerTypes {
  xnn_datatype input;
  xnn_datatype filter;
  xnn_datatype output;
  bool rounds_input;
};

// A layer's constants: tensors for XNNPACK, and the numbers that they stand for.
struct Weights {
  Tensor filter;
  Tensor bias;
  std::vector<double> filter_numbers;  // in the order of the filter's elements
  std::vector<double> bias_numbers;    // by output channel
};

// Scales and zero points of a static int8 layer. `requantization` is about input * filter / output scale.
struct Steps {
  int32_t input_zero = 0;
  int32_t output_zero = 0;
  float input_scale = 0.0625f;
  float requantization = 0.02f;
};

bool is_int8(xnn_datatype type);

// Draws a filter of `dims`; its output channels are dim `channel_dim`, of 4-bit ones dim 0. `sum` is the number of
// products in one output.
Weights draw_weights(Trial *trial, const LayerTypes &types, const Dims &dims, size_t channel_dim, size_t block,
                     const Steps &steps, size_t sum);

// Draws an input. Where it is rounded, each `batch` of elements has whole steps of its own scale and covers 255 of
// them, so that rounding changes nothing; where they begin differs from one to the next, and with it the zero point.
Tensor draw_input(Trial *trial, const LayerTypes &types, const Dims &dims, size_t batch, const Steps &steps);

Tensor declare_output(const LayerTypes &types, const Dims &dims, const Steps &steps);

// Compares with sums of products `expected`, limited to low..high; `magnitudes` are the sums of their absolute values,
// of `terms` terms.
void compare_layer(Trial *trial, const std::string &shape, const LayerTypes &types, const Tensor &got,
                   std::vector<double> expected, const std::vector<double> &magnitudes, size_t terms, double low,
                   double high);

// The id that a layer's node reads: the input's, or that of its rounded form.
uint32_t rounded_input(Net *net, const LayerTypes &types, const Tensor &input, uint32_t id, size_t nonbatch_dims);

}  // namespace edgecore::xnnpack::trial

#endif  // EDGECORE_XNNPACK_TRIAL_LAYER_H_
