// Calls single kernels for tests of the kernel library. Replaces the runtime: implements the callbacks of edgecore_host
// that kernels use (error messages, scratch memory, parallel loops, resizing of outputs).
#include <cstdlib>
#include <cstring>
#include <vector>

#include "edgecore/kernels.h"

struct edgecore_error {
  char text[600];
};

struct edgecore_scope {
  std::vector<void *> blocks;
  uint32_t workers = 1;
};

namespace {

bool refuse_first = false;

int32_t fail(edgecore_error *error, int32_t code, edgecore_str text) {
  if (error != nullptr) {
    const uint64_t size = text.size < sizeof(error->text) - 1 ? text.size : sizeof(error->text) - 1;
    std::memcpy(error->text, text.data, size);
    error->text[size] = 0;
  }
  return code;
}

void *scratch(edgecore_scope *scope, uint64_t size, uint64_t alignment) {
  if (refuse_first && scope->blocks.empty()) {
    scope->blocks.push_back(nullptr);
    return nullptr;
  }
  void *block = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  scope->blocks.push_back(block);
  return block;
}

// Runs one part of the loop for each worker, one after the other.
void parallel_for(edgecore_scope *scope, uint64_t n, uint64_t grain, edgecore_loop_fn fn, void *arg, uint32_t) {
  uint64_t part = (n + scope->workers - 1) / scope->workers;
  if (part < grain) part = grain;
  uint32_t worker = 0;
  for (uint64_t begin = 0; begin < n; begin += part, ++worker) {
    fn(arg, begin, begin + part < n ? begin + part : n, worker);
  }
}

uint32_t worker_count(edgecore_scope *scope) { return scope->workers; }

int32_t resize(edgecore_scope *, edgecore_tensor *tensor, const int64_t *shape, int32_t ndim, edgecore_error *error) {
  if ((tensor->flags & EDGECORE_TENSOR_READ_ONLY) != 0) {
    const char text[] = "the output is read-only";
    return fail(error, EDGECORE_INVALID_ARGUMENT, {text, sizeof(text) - 1});
  }
  bool same = ndim == tensor->dl.ndim;
  for (int32_t d = 0; same && d < ndim; ++d) same = shape[d] == tensor->dl.shape[d];
  if (same) return EDGECORE_OK;
  uint64_t bytes = (tensor->dl.dtype.bits + 7u) / 8u;
  bool fits = ndim == tensor->dl.ndim;
  for (int32_t d = 0; d < ndim; ++d) {
    fits = fits && shape[d] >= 0 && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(shape[d]), &bytes);
  }
  if (!fits || bytes > tensor->capacity) {
    const char text[] = "the test host cannot resize the output: its memory is too small";
    return fail(error, EDGECORE_OUT_OF_RESOURCES, {text, sizeof(text) - 1});
  }
  int64_t stride = 1;
  for (int32_t i = ndim - 1; i >= 0; --i) {
    const int32_t d = tensor->dim_order[i];
    tensor->dl.shape[d] = shape[d];
    tensor->dl.strides[d] = stride;
    stride *= shape[d];
  }
  return EDGECORE_OK;
}

}  // namespace

extern "C" {

EDGECORE_EXPORT const edgecore_kernel_library *edgecore_kernels_v0(void) { return edgecore_kernels_library(); }

EDGECORE_EXPORT const edgecore_kernel_library *edgecore_kernels_test_variant(const char *name) {
  return edgecore_kernels_library_for(name);
}

// If `first` is true, every later call gets NULL for its first block of scratch memory.
EDGECORE_EXPORT void edgecore_kernels_test_refuse_scratch(bool first) { refuse_first = first; }

// Runs a kernel. After a failure `text`, which has 600 bytes, holds the error message.
EDGECORE_EXPORT int32_t edgecore_kernels_test_call(edgecore_kernel_fn kernel, const edgecore_value *args,
                                                   uint64_t count, uint32_t workers, char *text) {
  edgecore_host host = {};
  host.header = {sizeof(host), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  host.fail = fail;
  host.scratch = scratch;
  host.parallel_for = parallel_for;
  host.worker_count = worker_count;
  host.resize = resize;
  edgecore_scope scope;
  scope.workers = workers;
  edgecore_error error = {};
  edgecore_call call = {};
  call.header = {sizeof(call), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  call.host = &host;
  call.scope = &scope;
  call.args = args;
  call.arg_count = count;
  call.arg_stride = sizeof(edgecore_value);
  call.error = &error;
  const int32_t code = kernel(&call);
  std::memcpy(text, error.text, sizeof(error.text));
  for (void *block : scope.blocks) std::free(block);
  return code;
}

}  // extern "C"
