// Resamples uint8 images with integer weights, as ATen does, with and without antialiasing.
#pragma once

#include "lib/convert.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Weights along one axis: output i is the sum of weights[i * max_count + k] * input[first[i] + k] for k in [0,
// count[i]).
template <class C>
struct AxisWeights {
  int64_t *first = nullptr;
  int64_t *count = nullptr;
  C *weights = nullptr;
  int64_t max_count = 0;
};

// Resamples images horizontally (weights `columns`), then vertically (weights `rows`). Both steps round to bytes.
void resample_bytes(Call &call, Tensor self, Tensor out, const AxisWeights<double> &rows,
                    const AxisWeights<double> &columns);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
