// The loop nest of all elementwise kernels and copies. The loop nest sorts the dims by the output's strides, merges
// neighboring dims that are contiguous in every operand, and calls a function for each row of elements along the
// innermost dim.
#ifndef EDGECORE_KERNELS_ITERATE_H_
#define EDGECORE_KERNELS_ITERATE_H_

#include "lib/call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

constexpr int kMaxOperands = 4;

// A loop nest over the elements of an output (operand 0) and of inputs that have the same shape or broadcast to it. Dim
// 0 is the innermost. Strides are in bytes. There is at least one dim; numel may be 0.
struct Loop {
  int ndim = 1;
  int count = 0;
  int64_t numel = 0;
  int64_t sizes[kMaxDims + 1];  // only the first ndim entries of `sizes` and `strides` are set
  int64_t strides[kMaxDims + 1][kMaxOperands];
  char *data[kMaxOperands] = {};

  void add_dim(int64_t size, const int64_t *byte_strides);
  // Sorts the dims by the output's strides and merges neighboring dims where possible. Call finish after the last
  // add_dim.
  void finish();
};

struct Operands {
  Tensor items[kMaxOperands];
  int count = 0;
  Operands() = default;
  Operands(Tensor a, Tensor b) : items{a, b}, count(2) {}
  void push(Tensor t) { items[count++] = t; }
};

// Returns true if one loop over memory suffices for all operands, because each is row-major without gaps and has the
// output's shape, or is an input without dims.
bool is_flat(const Operands &operands);
// Returns a loop nest with a single dim, for operands for which is_flat() is true.
Loop flat_loop(const Operands &operands);

// Returns the loop nest over `shape`, to which every operand must broadcast. Records a failure if an operand does not
// broadcast to `shape`.
Loop make_loop(Call &call, const Shape &shape, const Operands &operands);

using RunFn = void (*)(const void *context, char *const *data, const int64_t *strides, int64_t n);
// Calls `run` for each row of n elements along dim 0, with the operands' addresses and strides. Uses several threads if
// there are more than `grain` elements.
void for_each_run(Call &call, const Loop &loop, int64_t grain, RunFn run, const void *context);

template <class Body>
void for_each_run(Call &call, const Loop &loop, int64_t grain, const Body &body) {
  struct Thunk {
    static void run(const void *context, char *const *data, const int64_t *strides, int64_t n) {
      (*static_cast<const Body *>(context))(data, strides, n);
    }
  };
  for_each_run(call, loop, grain, &Thunk::run, &body);
}

// Copies operand 1 of the loop nest to operand 0. `item` is the size of an element in bytes (1, 2, 4 or 8). Contiguous
// rows are copied by memcpy, transposed matrices in square tiles.
void copy_strided(Call &call, int64_t item, const Loop &loop);

// A tensor that a kernel makes as an argument of functions with Tensor parameters. A TensorView describes row-major
// memory or views another tensor. The kernel may edit the view's shape and strides. A TensorView does not own memory.
class TensorView {
 public:
  TensorView(void *data, Type type, const Shape &shape);
  explicit TensorView(Tensor base);
  TensorView(const TensorView &) = delete;
  TensorView &operator=(const TensorView &) = delete;
  Tensor tensor() {
    tensor_.dl.ndim = shape.ndim;
    return {&tensor_};
  }
  void shift(int64_t elements);  // moves the address of the first element by a number of elements
  void remove_dim(int dim);
  void insert_dim(int dim, int64_t size, int64_t stride);
  // Makes a view of `length` entries of a dim: start, start + step, ...
  void narrow(int dim, int64_t start, int64_t length, int64_t step = 1);

  Shape shape;
  int64_t strides[kMaxDims];  // strides of the view by dim, in elements

 private:
  edgecore_tensor tensor_ = {};
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_ITERATE_H_
