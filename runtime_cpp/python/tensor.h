// edgecore.Tensor: a result that belongs to its caller, open to the buffer protocol and DLPack.
#ifndef EDGECORE_PYTHON_TENSOR_H_
#define EDGECORE_PYTHON_TENSOR_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <vector>

#include "dlpack.h"
#include "host/heap.h"
#include "types.h"

namespace edgecore::python {

// Blocks of one size, kept for the next call: fresh pages of the system cost more than a small network.
class BlockCache {
 public:
  explicit BlockCache(size_t bytes) : bytes_(bytes) {}
  // At least kArenaTail bytes past the end are readable; aligned to kArenaAlignment. NULL if there is no memory.
  HeapBlock take();
  void give(HeapBlock block);
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kKept = 2;  // the last result is released after the next one is made
  const size_t bytes_;
  std::mutex mutex_;  // results may be released by any thread, without the GIL
  std::vector<HeapBlock> blocks_;
};

// A block that goes back to its cache.
struct Storage {
  std::shared_ptr<BlockCache> cache;
  HeapBlock block;

  ~Storage() { cache->give(std::move(block)); }
};

struct PyTensor {
  std::shared_ptr<Storage> storage;
  int32_t scalar_type = 0;
  int ndim = 0;
  int64_t shape[kMaxRank];
  int64_t strides[kMaxRank];          // in elements
  Py_ssize_t byte_strides[kMaxRank];  // for the buffer protocol

  void *data() const { return storage->block.get(); }
  uint64_t element_count() const;
  bool row_major() const;  // dense, last dimension innermost
};

// The tensor as DLPack hands it over; whoever gets it calls its deleter.
VersionedTensor *export_versioned(PyTensor &&tensor);

void bind_tensor(nanobind::module_ &module);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_TENSOR_H_
