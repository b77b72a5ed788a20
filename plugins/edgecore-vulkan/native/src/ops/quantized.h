// Helpers for operators on quantized tensors and quantization parameters.
#ifndef EDGECORE_VULKAN_OPS_QUANTIZED_H_
#define EDGECORE_VULKAN_OPS_QUANTIZED_H_

#include "call.h"

namespace edgecore::vulkan {

// The range of signed 8-bit integers.
constexpr double kLow = -128, kHigh = 127;

// Convert an integer, or the bits of a float, to a push constant.
inline uint32_t word(int64_t value) { return static_cast<uint32_t>(value); }
uint32_t float_word(double value);

// Read an argument that is a scale, or a zero point of 8-bit integers; throw a Failure if it is not valid.
double scale_of(const Call &call, size_t index);
uint32_t zero_point_of(const Call &call, size_t index);

// Returns `x` itself if it has this dtype and layout, otherwise a copy that has them.
Tensor arranged(const Call &call, const Tensor &x, Dtype dtype, Layout layout);

void check_integers(const Call &call, const Tensor &tensor);

// Returns the number of rows of a tensor; a row consists of the elements along its last dim.
int64_t row_count(const Call &call, const Tensor &x);

// The scale (fp32) and the zero point (int32) of each row of a tensor; both tensors are contiguous.
struct RowParameters {
  Tensor scales, zeros;
};
RowParameters row_parameters(const Call &call, size_t index, int64_t rows);

// Quantizes a row-major tensor with a scale for each `inner` elements. If `is_difference`, subtracts the zero points
// afterwards.
void quantize_rows(const Call &call, const Tensor &out, const Tensor &x, const RowParameters &parameters, int64_t inner,
                   double low, double high, bool is_difference);

// Calls make(target) with a tensor in `layout`: `out` itself if its elements have that order, otherwise a temporary
// tensor, which is then copied to `out`.
template <typename Make>
void in_order(const Call &call, const Tensor &out, Layout layout, Make make) {
  const Tensor wanted{out.dtype, layout, out.shape, out.storage};
  if (out.same_order(wanted)) return make(wanted);
  const std::vector<uint32_t> order = dims_in_memory(out.rank(), layout);
  Shape shape(out.rank());
  for (size_t i = 0; i < order.size(); ++i) shape[i] = out.shape[order[i]];
  const Tensor ordered{out.dtype, layout, out.shape, call.temporary(out.dtype, shape).storage};
  make(ordered);
  call.copy(ordered, out);
}

}  // namespace edgecore::vulkan

#endif  // EDGECORE_VULKAN_OPS_QUANTIZED_H_
