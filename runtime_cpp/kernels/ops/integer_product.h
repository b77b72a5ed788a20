// The sizes of a product of two int8 or int16 matrices.
#ifndef EDGECORE_KERNELS_INTEGER_PRODUCT_H_
#define EDGECORE_KERNELS_INTEGER_PRODUCT_H_

#include "lib/call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// The product of a [..., m, depth] and b [..., depth, n], which have the same batch dims, is [..., m, n]. Depths are at
// most 2^15: 32 bits hold the sums of int8, 46 bits the sums of int16.
struct Product {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t depth = 0;
  int64_t n = 0;
  Shape shape;

  Product(Call &call, Tensor a, Tensor b) {
    if (call.failed()) return;
    const int last = a.ndim() - 1;
    bool fits = last >= 1 && b.ndim() == last + 1;
    for (int dim = 0; fits && dim < last - 1; ++dim) {
      fits = a.size(dim) == b.size(dim);
      batch *= a.size(dim);
    }
    if (!call.check(fits && a.size(last) == b.size(last - 1), "the shapes of the matrices do not match") ||
        !call.check(0 < a.size(last) && a.size(last) <= 1 << 15, "a sum must have 1 to 2^15 products"))
      return;
    m = a.size(last - 1);
    depth = a.size(last);
    n = b.size(last);
    shape = a.shape();
    shape.sizes[last] = n;
  }
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INTEGER_PRODUCT_H_
