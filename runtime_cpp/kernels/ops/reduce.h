// Visits the elements of a reduction by two loop nests, one over the kept dims and one over the reduced dims. Each loop
// nest merges adjacent dims where the strides allow this.
#ifndef EDGECORE_KERNELS_REDUCE_H_
#define EDGECORE_KERNELS_REDUCE_H_

#include "lib/convert.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Returns a mask whose bit d is set if dim d is reduced. An empty or absent list means all dims.
uint32_t reduced_dims(Call &call, Ints dims, int ndim);
Shape reduced_shape(const Shape &shape, uint32_t mask, bool keepdim);

struct Reduction {
  Loop kept;     // loop over the kept dims; operand 0 is the output, operand 1 the input
  Loop reduced;  // loop over the reduced dims; operand 0 is the input
  int64_t count = 1;
  // True if a kept dim has the smallest stride of the input. Then several adjacent outputs are computed together, so
  // that the input is read in the order of its memory.
  bool by_columns = false;

  Reduction(Call &call, Tensor out, Tensor input, uint32_t mask, bool keepdim);
};

constexpr int64_t kReduceBlock = 256;

// Calls body(input, input_stride, output, output_stride, m) for blocks of m outputs, on several threads. Strides are in
// bytes: input_stride is the distance between the first input elements of two adjacent outputs, output_stride the
// distance between the outputs themselves.
template <class Body>
void for_each_output(Call &call, const Reduction &r, const Body &body) {
  const int64_t grain = 32768 / (r.count + 1) + 1;
  for_each_run(call, r.kept, grain, [&](char *const *data, const int64_t *strides, int64_t n) {
    for (int64_t i = 0; i < n;) {
      int64_t m = r.by_columns ? n - i : 1;
      if (m > kReduceBlock) m = kReduceBlock;
      body(data[1] + i * strides[1], strides[1], data[0] + i * strides[0], strides[0], m);
      i += m;
    }
  });
}

// Calls body(address, stride, n) for each row of n input elements of one output. The output's first input element is at
// `input`.
template <class Body>
void for_each_reduced(const Reduction &r, const char *input, const Body &body) {
  int64_t index[kMaxDims + 1] = {};
  const Loop &loop = r.reduced;
  if (r.count == 0) return;
  for (;;) {
    body(input, loop.strides[0][0], loop.sizes[0]);
    int d = 1;
    for (; d < loop.ndim; ++d) {
      input += loop.strides[d][0];
      if (++index[d] < loop.sizes[d]) break;
      input -= loop.sizes[d] * loop.strides[d][0];
      index[d] = 0;
    }
    if (d >= loop.ndim) return;
  }
}

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_REDUCE_H_
