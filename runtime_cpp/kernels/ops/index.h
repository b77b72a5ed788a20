// Code of operators that gather or scatter: checks index tensors, and accesses tensors as row-major memory.
#ifndef EDGECORE_KERNELS_INDEX_H_
#define EDGECORE_KERNELS_INDEX_H_

#include "lib/convert.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// Copies the entries of `index` to a row-major int64 array and checks that each entry is in [0, size). With `wrap`,
// negative entries count from the end. Returns NULL after a failure. Never returns the memory of `index`, because
// `index` may overlap the output, and the entries must not change after the check.
const int64_t *positions(Call &call, Tensor index, int64_t size, bool wrap);

// Returns a tensor's bytes in row-major order: the tensor's own memory if the tensor is contiguous, otherwise a copy.
// NULL after a failure.
const char *dense_bytes(Call &call, Tensor t);

// Memory for the bytes of an output in row-major order: the output's own memory if the output is contiguous, otherwise
// scratch memory, which finish() copies to the output.
class BytesOut {
 public:
  BytesOut(Call &call, Tensor out);
  char *data() const { return data_; }  // NULL after a failure
  void finish(Call &call) const;

 private:
  Tensor out_;
  bool direct_;
  char *data_;
};

bool check_same_type(Call &call, Tensor self, Tensor out);

// Advanced indexing as in NumPy: self[i0, i1, None, ...]. The index tensors broadcast against each other to the shape
// `common`. In the result, the dims of `common` replace the indexed dims of self if these are adjacent; otherwise the
// dims of `common` come first. A bool mask stands for the indices of its true elements.
class Indexing {
 public:
  // Reads argument `list` of the call, the indices into `self`, and checks every index. Records failures in `call`.
  Indexing(Call &call, uint64_t list, Tensor self);

  Shape shape;           // shape of the result of the indexing, self[...]
  Shape common;          // shape to which all index tensors broadcast
  int leading_dims = 0;  // number of dims of the result before the dims of `common`
  bool indexed[kMaxDims] = {};

  // Returns the offset, in elements, of the slice of self that a combination of indices selects. `combination` is a
  // row-major index in the shape `common`; `strides` are the strides of self.
  int64_t offset(int64_t combination, const int64_t *strides) const;
  // Returns a loop nest over the elements of a slice (see `offset`). Operand 0 is a tensor with shape `shape` and
  // strides `rows`. Operand 1 is self, with shape `self_shape` and strides `self`. Strides count elements of `item`
  // bytes.
  Loop slice(const int64_t *rows, const int64_t *self, const Shape &self_shape, int64_t item) const;

 private:
  struct Entry {
    const int64_t *indices;
    Shape shape;
  };
  bool read(Call &call, uint64_t list, Tensor self);
  void add_mask(Call &call, Tensor mask, Tensor self);
  bool combine(Call &call, Tensor self);

  Entry entries_[kMaxDims] = {};
  int dims_ = 0;  // number of leading dims of self that the list of indices covers
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INDEX_H_
