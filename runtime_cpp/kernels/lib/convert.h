// Loading and storing runs of elements with conversion to and from the compute types.
#ifndef EDGECORE_KERNELS_CONVERT_H_
#define EDGECORE_KERNELS_CONVERT_H_

#include "lib/call.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// n elements of `type` at source, `stride` bytes apart (0 repeats one), into a dense array.
void load(Type type, const char *source, int64_t stride, int64_t n, float *target);
void load(Type type, const char *source, int64_t stride, int64_t n, double *target);
void load(Type type, const char *source, int64_t stride, int64_t n, int64_t *target);
void load(Compute compute, Type type, const char *source, int64_t stride, int64_t n, void *target);

// The way back. Integers wrap, floats truncate towards zero, anything non-zero is true.
void store(Type type, char *target, int64_t stride, int64_t n, const float *source);
void store(Type type, char *target, int64_t stride, int64_t n, const double *source);
void store(Type type, char *target, int64_t stride, int64_t n, const int64_t *source);
void store(Compute compute, Type type, char *target, int64_t stride, int64_t n, const void *source);

// Writes `value`, converted, to n elements.
void fill(Type type, char *target, int64_t n, Scalar value);

// The tensor's elements in row-major order as C: the tensor's own memory if it is that already, else scratch.
// NULL after a failure.
template <class C>
const C *dense(Call &call, Tensor tensor);

// Memory for a row-major result of type C: the tensor's own if it fits, else scratch that finish() converts back.
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

// Copies elements of `source`, converted, to `target`; shapes broadcast.
void copy_tensor(Call &call, Tensor target, Tensor source);

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_CONVERT_H_
