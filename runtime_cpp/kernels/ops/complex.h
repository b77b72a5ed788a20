// Views of complex tensors as real tensors.
#ifndef EDGECORE_KERNELS_COMPLEX_H_
#define EDGECORE_KERNELS_COMPLEX_H_

#include "lib/convert.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// A view of a complex tensor as a real tensor with an additional last dim of size 2: the real and the imaginary part.
class RealView : public TensorView {
 public:
  explicit RealView(Tensor complex);
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_COMPLEX_H_
