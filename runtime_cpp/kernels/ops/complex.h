// Complex tensors as pairs of real numbers.
#ifndef EDGECORE_KERNELS_COMPLEX_H_
#define EDGECORE_KERNELS_COMPLEX_H_

#include "lib/convert.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// The parts of a complex tensor as a real tensor with one more dim, of size 2, at the end.
class RealView : public TensorOn {
 public:
  explicit RealView(Tensor complex);
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_COMPLEX_H_
