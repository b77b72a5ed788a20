// Positions given by a tensor, and memory in row-major order for operators that read or write at them.
#ifndef EDGECORE_KERNELS_INDEX_H_
#define EDGECORE_KERNELS_INDEX_H_

#include "lib/convert.h"
#include "lib/iterate.h"

namespace edgecore {
inline namespace EDGECORE_VARIANT {

// The positions as row-major int64 in [0, size); negative ones count from the end when `wrap`. NULL after a failure.
// Always a copy: `index` may lie in memory that changes after the check, be it that of the output.
const int64_t *positions(Call &call, Tensor index, int64_t size, bool wrap);

// Bytes of the tensor in row-major order, in place or copied. NULL after a failure.
const char *dense_bytes(Call &call, Tensor t);

// Memory for the output's bytes in row-major order; finish() moves them if they are not the output's own.
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

// self[i0, i1, None, ...]: the indices broadcast against each other; their dims stand where the first of them stood, or
// in front when other dims come between them. A bool mask stands for the positions of its true elements.
class Indexing {
 public:
  // Reads argument `list` of the call, the indices into `self`, and checks every position. Failures are the call's.
  Indexing(Call &call, uint64_t list, Tensor self);

  Shape shape;    // of self[...]
  Shape common;   // of the indices
  int place = 0;  // dims of self in front of the indices' own
  bool indexed[kMaxDims] = {};

  // Elements from the start of a tensor like self, with these strides, to the slice of a combination of indices, which
  // counts through `common` in row-major order.
  int64_t offset(int64_t combination, const int64_t *strides) const;
  // The dims of such a slice in `rows`, a row-major tensor of `shape`, and in `self`, byte strides times `item`.
  Loop slice(const int64_t *rows, const int64_t *self, const Shape &self_shape, int64_t item) const;

 private:
  struct Entry {
    const int64_t *where;
    Shape shape;
  };
  bool read(Call &call, uint64_t list, Tensor self);
  void add_mask(Call &call, Tensor mask, Tensor self);
  bool combine(Call &call, Tensor self);

  Entry entries_[kMaxDims] = {};
  int dims_ = 0;  // of self that have been named
};

}  // namespace EDGECORE_VARIANT
}  // namespace edgecore

#endif  // EDGECORE_KERNELS_INDEX_H_
