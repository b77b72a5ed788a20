// Resampling of uint8 images with integer weights, as in ATen, with and without antialiasing.
#pragma once

#include "lib/convert.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// The weights of the input pixels along one axis: output i is the weighted sum of the input pixels first[i] + k,
// 0 <= k < count[i], with weights[i * max_count + k].
template <class C>
struct AxisWeights {
  int64_t *first = nullptr;
  int64_t *count = nullptr;
  C *weights = nullptr;
  int64_t max_count = 0;
};

// Resamples each image horizontally with the weights `columns`, then vertically with the weights `rows`. The result of
// each step is rounded to a byte.
void resample_bytes(Call &call, Tensor self, Tensor out, const AxisWeights<double> &rows,
                    const AxisWeights<double> &columns);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
