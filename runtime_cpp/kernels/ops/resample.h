// Resamples uint8 images with integer weights, as ATen does, with and without antialiasing.
#pragma once

#include "lib/convert.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// The weights of input pixels along one axis: output i is the sum over k in [0, count[i]) of input pixel first[i] + k
// times weights[i * max_count + k].
template <class C>
struct AxisWeights {
  int64_t *first = nullptr;
  int64_t *count = nullptr;
  C *weights = nullptr;
  int64_t max_count = 0;
};

// Resamples each image horizontally with the weights `columns`, then vertically with the weights `rows`. Both steps
// round their results to bytes.
void resample_bytes(Call &call, Tensor self, Tensor out, const AxisWeights<double> &rows,
                    const AxisWeights<double> &columns);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
