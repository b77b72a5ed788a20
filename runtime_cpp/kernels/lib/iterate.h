// One iterator for all elementwise kernels and copies: dims sorted by the output's strides and merged where they can
// be, walked in runs along the innermost one.
#ifndef EDGECORE_KERNELS_ITERATE_H_
#define EDGECORE_KERNELS_ITERATE_H_

#include "lib/call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

constexpr int kMaxOperands = 4;

// Operand 0 is the output. Strides in bytes; dim 0 is the innermost. At least one dim; numel may be 0.
struct Loop {
  int ndim = 1;
  int count = 0;
  int64_t numel = 0;
  int64_t sizes[kMaxDims + 1];  // of ndim dims, as the strides are
  int64_t strides[kMaxDims + 1][kMaxOperands];
  char *data[kMaxOperands] = {};

  void add_dim(int64_t size, const int64_t *byte_strides);
  // Sorts dims by operand 0's strides and merges neighbours. After the last add_dim.
  void finish();
};

struct Operands {
  Tensor items[kMaxOperands];
  int count = 0;
  Operands() = default;
  Operands(Tensor a, Tensor b) : items{a, b}, count(2) {}
  void push(Tensor t) { items[count++] = t; }
};

// Whether every operand is row-major with the output's shape, or (an input) a single number.
bool is_flat(const Operands &operands);
// The loop over such operands.
Loop flat_loop(const Operands &operands);

// The loop over `shape`; every operand broadcasts to it. Fails when one does not.
Loop make_loop(Call &call, const Shape &shape, const Operands &operands);

using RunFn = void (*)(const void *context, char *const *data, const int64_t *strides, int64_t n);
// Calls run for pieces of the loop, on several threads when there are more than `grain` elements.
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

// Copies operand 1 to operand 0, elements of `item` bytes (1, 2, 4 or 8): the longest contiguous runs by memcpy,
// transpositions in square tiles.
void copy_strided(Call &call, int64_t item, const Loop &loop);

// A tensor of our own: over given memory, row-major, or a view of another tensor whose shape and strides may be edited.
class TensorOn {
 public:
  TensorOn(void *data, Type type, const Shape &shape);
  explicit TensorOn(Tensor base);
  TensorOn(const TensorOn &) = delete;
  TensorOn &operator=(const TensorOn &) = delete;
  Tensor tensor() {
    tensor_.dl.ndim = shape.ndim;
    return {&tensor_};
  }
  void shift(int64_t elements);  // moves the first element
  void remove_dim(int dim);
  void insert_dim(int dim, int64_t size, int64_t stride);
  // Keeps `length` entries of a dim, from `start` on, every `step`th.
  void narrow(int dim, int64_t start, int64_t length, int64_t step = 1);

  Shape shape;
  int64_t strides[kMaxDims];  // in elements

 private:
  edgecore_tensor tensor_ = {};
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_ITERATE_H_
