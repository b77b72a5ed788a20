// Reads and checks the arguments of a kernel call.
#ifndef EDGECORE_LLM_CALL_H_
#define EDGECORE_LLM_CALL_H_

#include <stdint.h>

#include "edgecore/kernel.h"

namespace edgecore::llm {

// The dtypes, with their numbers in the enum ScalarType of a .pte.
enum class Dtype : int32_t { kUint8 = 0, kInt8 = 1, kInt64 = 4, kFloat16 = 5, kFloat32 = 6 };

struct Tensor {
  edgecore_tensor *t = nullptr;

  int64_t ndim() const { return t->dl.ndim; }
  int64_t size(int64_t dim) const { return t->dl.shape[dim]; }
  template <class T>
  T *data() const {
    return reinterpret_cast<T *>(static_cast<char *>(t->dl.data) + t->dl.byte_offset);
  }
};

// One call of a kernel. The first failure is recorded; after it the functions return harmless values, so a kernel can
// read all arguments and then check failed() once.
class Call {
 public:
  Call(const edgecore_call *call, const char *op, const char *library = "edgecore_llm");

  // Returns argument `index`: a contiguous tensor of the given dtype and number of dims (-1: any).
  Tensor tensor(uint64_t index, const char *name, Dtype dtype, int64_t ndim);
  // Returns argument `index`: a contiguous tensor of any dtype.
  Tensor tensor_of_any_dtype(uint64_t index, const char *name, int64_t ndim);
  // Like tensor(), but Tensor::t is NULL if the argument is None.
  Tensor optional_tensor(uint64_t index, const char *name, Dtype dtype, int64_t ndim);
  // Returns true if argument `index` is a tensor of this dtype.
  bool has_dtype(uint64_t index, Dtype dtype);
  int64_t integer(uint64_t index, const char *name);
  double number(uint64_t index, const char *name);
  bool is_none(uint64_t index);
  bool boolean(uint64_t index, const char *name);
  edgecore_list string(uint64_t index, const char *name);

  bool failed() const { return status_ != EDGECORE_OK; }
  int32_t status() const { return status_; }
  // Records a failure of the call with the message "OPERATOR: text".
  int32_t fail(const char *text, const char *name = "");
  // Records a failure if `ok` is false. Returns true if no failure is recorded so far.
  bool check(bool ok, const char *text);
  // Asks the host to set the shape of an output. The host also refuses a tensor that must not be written.
  bool resize(Tensor out, const int64_t *shape, int64_t ndim);
  bool make_writable(Tensor tensor) { return resize(tensor, tensor.t->dl.shape, tensor.ndim()); }

  // Returns memory that lives until the end of the call; NULL after a failure.
  template <class T>
  T *scratch(int64_t count) {
    return static_cast<T *>(scratch_bytes(count * static_cast<int64_t>(sizeof(T))));
  }

  // Divides [0, count) into ranges of at least `grain` items, and calls body(begin, end, worker) for each range, on
  // several threads.
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, const Body &body) {
    const auto run = [](void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
      (*static_cast<const Body *>(arg))(static_cast<int64_t>(begin), static_cast<int64_t>(end), worker);
    };
    call_->host->parallel_for(call_->scope, static_cast<uint64_t>(count), static_cast<uint64_t>(grain), run,
                              const_cast<Body *>(&body), 0);
  }
  int64_t workers() const { return call_->host->worker_count(call_->scope); }

 private:
  const edgecore_value *value(uint64_t index);
  void *scratch_bytes(int64_t bytes);

  const edgecore_call *call_;
  const char *op_;
  const char *library_;  // the namespace of the operator
  int32_t status_ = EDGECORE_OK;
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_CALL_H_
