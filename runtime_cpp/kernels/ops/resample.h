// Resampling of bytes, where ATen computes with integer weights: shared by the antialiased and the plain operator.
#pragma once

#include "lib/convert.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Weights of output `i`: those of input pixels first[i] to first[i] + count[i] - 1.
template <class C>
struct Triangles {
  int64_t *first = nullptr;
  int64_t *count = nullptr;
  C *weights = nullptr;  // `most` for each output
  int64_t most = 0;
};

// Rows and columns one after the other, each result rounded to a byte.
void resample_bytes(Call &call, Tensor self, Tensor out, const Triangles<double> &rows,
                    const Triangles<double> &columns);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore
