// Loads and stores elements of any dtype as numbers of a compute type (float, double, int64), in which kernels
// calculate.
#ifndef EDGECORE_KERNELS_CONVERT_H_
#define EDGECORE_KERNELS_CONVERT_H_

#include "lib/call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Number of elements that kernels convert at a time, in buffers on the stack. The number is small, because a
// microcontroller has a small stack and on other processors the buffers should stay in the L1 cache.
#if EDGECORE_MICROCONTROLLER
constexpr int64_t kChunk = 32;
#else
constexpr int64_t kChunk = 256;
#endif

// Loads n elements of dtype `type` that are `stride` bytes apart (0 repeats one element). Writes them to `target`, a
// dense array of float, double or int64_t; the last overload gets this type as `compute`.
void load(Type type, const char *source, int64_t stride, int64_t n, float *target);
void load(Type type, const char *source, int64_t stride, int64_t n, double *target);
void load(Type type, const char *source, int64_t stride, int64_t n, int64_t *target);
void load(Compute compute, Type type, const char *source, int64_t stride, int64_t n, void *target);

// Converts a dense array to n elements of dtype `type`, and stores them `stride` bytes apart. Integers wrap to a
// narrower type, floats are truncated towards zero to integers, and every number except 0 becomes true.
void store(Type type, char *target, int64_t stride, int64_t n, const float *source);
void store(Type type, char *target, int64_t stride, int64_t n, const double *source);
void store(Type type, char *target, int64_t stride, int64_t n, const int64_t *source);
void store(Compute compute, Type type, char *target, int64_t stride, int64_t n, const void *source);

// Converts `value` to dtype `type` and writes it to n adjacent elements.
void fill(Type type, char *target, int64_t n, Scalar value);

// Returns the tensor's elements in row-major order as a dense array of C: the tensor's own memory if the tensor has
// this layout and dtype, otherwise a converted copy in scratch memory. Returns NULL after a failure.
template <class C>
const C *dense(Call &call, Tensor tensor);

// Memory for a row-major result of element type C: the memory of `out` if `out` has this layout and dtype, otherwise
// scratch memory. At the end the kernel must call finish(), which converts the elements in scratch memory and copies
// them to `out`.
template <class C>
class DenseOut {
 public:
  DenseOut(Call &call, Tensor out);
  C *data() const { return data_; }  // NULL after a failure
  void finish(Call &call) const;

 private:
  Tensor out_;
  C *data_ = nullptr;
  bool direct_ = false;
};

// Copies `source` to `target` and converts the dtype. `source` must broadcast to the shape of `target`.
void copy_tensor(Call &call, Tensor target, Tensor source);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_CONVERT_H_
