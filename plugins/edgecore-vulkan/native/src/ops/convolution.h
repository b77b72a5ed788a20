// Records the shader dispatches of convolutions. Floats and 8-bit integers use the same shaders.
#ifndef EDGECORE_VULKAN_OPS_CONVOLUTION_H_
#define EDGECORE_VULKAN_OPS_CONVOLUTION_H_

#include "ops/gemm.h"

namespace edgecore::vulkan {

// A convolution of images [batch, channels, height, width]. A 1-d convolution has images of height 1.
struct Convolution {
  bool transposed = false;
  int64_t batch = 0, groups = 1, in_channels = 0, out_channels = 0, in_group = 0, out_group = 0;
  int64_t in[2] = {1, 1}, out[2] = {1, 1}, kernel[2] = {1, 1};  // height and width
  int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1}, extra[2] = {0, 0};

  Shape out_shape() const { return {batch, out_channels, out[0], out[1]}; }
  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t pixels() const { return batch * out[0] * out[1]; }
  bool is_pointwise() const {
    const bool moves =
        stride[0] != 1 || stride[1] != 1 || padding[0] != 0 || padding[1] != 0 || extra[0] != 0 || extra[1] != 0;
    return taps() == 1 && groups == 1 && !moves;
  }
  // Returns true if four adjacent output channels read vectors of four adjacent input channels.
  bool has_vectors() const { return in_group % 4 == 0 && (groups == 1 || out_group % 4 == 0); }
  // Returns how many columns of the input the depthwise shader reads to compute `neighbours` adjacent output pixels.
  int64_t window(int64_t neighbours) const { return (neighbours - 1) * stride[1] + (kernel[1] - 1) * dilation[1] + 1; }
  bool is_depthwise() const {
    constexpr int64_t kMaxWindow = 32;
    return !transposed && in_group == 1 && out_group == 1 && groups % 4 == 0 && window(8) <= kMaxWindow;
  }
  // Returns true if the shader of this convolution reads only channels-last inputs.
  bool needs_order() const { return is_pointwise() || is_depthwise() || has_vectors(); }
  // Returns the number of adjacent pixels that a thread computes: 7 or 8, whichever wastes fewer pixels at the end of a
  // row. Prefers 7 in a tie, so that all layers for images of 224 pixels use one shader.
  int64_t neighbours() const {
    if (out[1] == 1) return 1;
    return (out[1] + 6) / 7 * 7 <= (out[1] + 7) / 8 * 8 ? 7 : 8;
  }
};

// Returns the strides of images [N, C, H, W] stored as [N, H, W, C].
inline Shape channels_last_strides(const Shape &shape) {
  return {shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1]};
}

// Records the dispatch of a convolution of `x`. The result `target` is channels-last. `strides` are the strides of x as
// images [N, C, H, W]; x is channels-last if needs_order(). Weights are in panels (shaders/panels.glsl): [taps * group
// channels, outputs].
void record(const Call &call, const Convolution &c, const Tensor &target, const Tensor &x, const Shape &strides,
            const Tensor &w, const Tensor &bias, const Finish &finish);

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_CONVOLUTION_H_
