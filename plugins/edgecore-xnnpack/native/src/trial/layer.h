// Draws random weights and inputs of linear layers and convolutions, and compares the layers' results with a reference.
#ifndef EDGECORE_XNNPACK_TRIAL_LAYER_H_
#define EDGECORE_XNNPACK_TRIAL_LAYER_H_

#include "trial/families.h"

namespace edgecore::xnnpack::trial {

// The data types of a layer. If `quantizes_input` is true, the layer is quantized dynamically: a conversion of the fp32
// or fp16 input to qdint8 precedes it.
struct LayerTypes {
  xnn_datatype input;
  xnn_datatype filter;
  xnn_datatype output;
  bool quantizes_input;
};

// A layer's constants: as tensors for XNNPACK, and as real numbers for the reference.
struct Weights {
  Tensor filter;
  Tensor bias;
  std::vector<double> filter_numbers;  // filter as real numbers, in the order of its elements
  std::vector<double> bias_numbers;    // bias as real numbers, one per output channel
};

// Scales and zero points of a statically quantized layer. `requantization` is approximately
// input scale * filter scale / output scale.
struct LayerScales {
  int32_t input_zero = 0;
  int32_t output_zero = 0;
  float input_scale = 0.0625f;
  float requantization = 0.02f;
};

bool is_int8(xnn_datatype type);

// Draws a random filter of shape `dims` and a bias. `channel_dim` is the dim of the output channels. `block` is the
// number of inputs that share a scale (qbint4), else 0. `terms` is the number of products that each output sums up.
Weights draw_weights(Trial *trial, const LayerTypes &types, const Dims &dims, size_t channel_dim, size_t block,
                     const LayerScales &scales, size_t terms);

// Draws a random input of shape `dims`. With dynamic quantization, each batch of `batch` consecutive elements has its
// own scale and zero point. Elements of a batch are integer multiples of a power of two, and their min and max
// (including 0) are 255 such steps apart. So XNNPACK's scale, (max - min) / 255, is that power of two, quantization is
// exact, and the comparison needs no tolerance for rounded inputs. The minimum, and thus the zero point, differs
// between batches.
Tensor draw_input(Trial *trial, const LayerTypes &types, const Dims &dims, size_t batch, const LayerScales &scales);

Tensor declare_output(const LayerTypes &types, const Dims &dims, const LayerScales &scales);

// Compares a layer's output with `expected`: sums of `terms` products each, which this function clamps to [low, high].
// `magnitudes` has, for each sum, the sum of the absolute values of its products, which bounds the rounding error.
void compare_layer(Trial *trial, const std::string &shape, const LayerTypes &types, const Tensor &got,
                   std::vector<double> expected, const std::vector<double> &magnitudes, size_t terms, double low,
                   double high);

// Returns the id of the value that a layer should read as input. Without dynamic quantization this is `id`, the id of
// `input`. Otherwise the function adds a conversion to the graph, and returns the id of the quantized value.
uint32_t quantize_input(TestGraph *graph, const LayerTypes &types, const Tensor &input, uint32_t id,
                        size_t nonbatch_dims);

}  // namespace edgecore::xnnpack::trial

#endif  // EDGECORE_XNNPACK_TRIAL_LAYER_H_
