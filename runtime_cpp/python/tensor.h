// edgecore.Tensor: a result that belongs to its caller, with the buffer protocol and DLPack.
#ifndef EDGECORE_PYTHON_TENSOR_H_
#define EDGECORE_PYTHON_TENSOR_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <vector>

#include "dlpack.h"
#include "edgecore/tensor.h"
#include "host/heap.h"
#include "types.h"

namespace edgecore::python {

// Keeps freed blocks of one size for the next call, because getting fresh pages from the system takes longer than
// running a small network.
class BlockCache {
 public:
  explicit BlockCache(size_t bytes) : bytes_(bytes) {}
  // Returns a block aligned to kArenaAlignment; kArenaTail bytes past its end are readable. Returns NULL if there is no
  // memory.
  HeapBlock take();
  void give_back(HeapBlock block);
  size_t bytes() const { return bytes_; }

 private:
  // two blocks, because a loop often frees a result only after the next call has made another result
  static constexpr size_t kMaxBlocks = 2;
  const size_t bytes_;
  std::mutex mutex_;  // guards `blocks_`: any thread may release results, without the GIL
  std::vector<HeapBlock> blocks_;
};

// Memory of an edgecore.Tensor. The destructor returns the block to its cache.
struct Storage {
  std::shared_ptr<BlockCache> cache;
  HeapBlock block;

  ~Storage() { cache->give_back(std::move(block)); }
};

// The native class of edgecore.Tensor: a dense tensor.
struct PyTensor {
  std::shared_ptr<Storage> storage;
  int32_t scalar_type = 0;
  int ndim = 0;
  int64_t shape[kMaxRank];
  int64_t strides[kMaxRank];          // in elements
  Py_ssize_t byte_strides[kMaxRank];  // strides in bytes, for the buffer protocol

  void *data() const { return storage->block.get(); }
  uint64_t element_count() const;
  bool row_major() const;  // true if the last dim is the innermost in memory
};

// Copies a tensor whose dims are in memory order: dim i of `source` becomes dim dim_order[i] of the result. Throws
// std::bad_alloc if there is no memory, or if `source` is Tensor(), a value that the memory limit left out.
PyTensor copy_of(const Tensor &source, const uint8_t *dim_order);

// Exports the tensor for DLPack without a copy. The receiver must call the deleter of the result.
VersionedTensor *export_versioned(PyTensor &&tensor);

void bind_tensor(nanobind::module_ &module);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_TENSOR_H_
