// The shared part of the convolutions of quantized int8 and int16 values. The weights are always int8.
#ifndef EDGECORE_KERNELS_INTEGER_CONVOLUTION_H_
#define EDGECORE_KERNELS_INTEGER_CONVOLUTION_H_

#include "ops/integer_arguments.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// One spatial dim. Tap t (an index in the kernel) of output o reads position o * stride - padding + t * dilation of the
// upsampled input, in which upsampling - 1 zeros follow each element (transposed convolution).
struct IntegerAxis {
  int64_t input = 1, kernel = 1, output = 1, stride = 1, padding = 0, dilation = 1, upsampling = 1;

  // Returns the index in the input that tap t of output o reads; -1: the tap reads padding or a zero of the upsampling.
  int64_t source(int64_t o, int64_t t) const {
    const int64_t position = o * stride - padding + t * dilation;
    if (position < 0) return -1;
    // do not divide by an upsampling of 1: 64-bit divisions are slow on a microcontroller
    if (upsampling == 1) return position < input ? position : -1;
    if (position % upsampling != 0) return -1;
    return position / upsampling < input ? position / upsampling : -1;
  }
};

template <class Value>
struct IntegerConvolution {
  IntegerAxis y, x;
  int64_t batch, inputs, outputs, groups;  // numbers of images, input channels, output channels, groups
  int32_t zero_point;                      // zero point of the input, and the value of its padding; 0 for int16
  const Value *input;
  const int8_t *weight;  // int8 weights of shape [outputs, inputs / groups, y.kernel, x.kernel]
  Range<Value> range;
  Value *result;

  int64_t inputs_of_group() const { return inputs / groups; }
  int64_t outputs_of_group() const { return outputs / groups; }
  int64_t taps() const { return y.kernel * x.kernel; }
  int64_t pixels() const { return y.output * x.output; }
  bool is_pointwise() const {
    return taps() == 1 && x.output == x.input && y.output == y.input && x.stride == 1 && y.stride == 1 &&
           x.padding == 0 && y.padding == 0 && x.upsampling == 1 && y.upsampling == 1;
  }
};

// Sets n values to the zero point, which must be 0 for int16.
template <class Value>
inline void set_zero(Value *target, int32_t zero_point, int64_t n) {
  __builtin_memset(target, zero_point, static_cast<size_t>(n) * sizeof(Value));
}

// Row and column of an index. `divide` avoids a 64-bit division, which is slow on a microcontroller.
struct Position {
  int64_t row, column;
};
inline Position divide(int64_t index, int64_t columns) {
  const size_t row = static_cast<size_t>(index) / static_cast<size_t>(columns);
  return {static_cast<int64_t>(row), index - static_cast<int64_t>(row) * columns};
}

// Runs a convolution whose groups have one input channel, and whose input is not upsampled. Defined in
// integer_depthwise.cpp.
template <class Value>
void convolve_depthwise(Call &call, const IntegerConvolution<Value> &c, const Channels<Value> &channels);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INTEGER_CONVOLUTION_H_
