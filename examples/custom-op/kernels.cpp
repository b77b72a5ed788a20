// Kernels of two operators, for contiguous float32 tensors.
//
// example_ops::multiply_add(Tensor a, Tensor b, float scale) -> Tensor computes a * b * scale + a. A kernel implements
// the out variant of such an operator: multiply_add.out(Tensor a, Tensor b, float scale, *, Tensor(a!) out) ->
// Tensor(a!).
//
// example_ops::append(Tensor rows, Tensor(a!) cache, SymInt position) -> () writes rows into a cache. An operator that
// returns nothing has no out variant.
#include <string.h>

#include "edgecore/kernel.h"

namespace {

constexpr int32_t kFloat32 = 6;  // number of float32 in the enum ScalarType of the .pte

const edgecore_value &argument(const edgecore_call *call, uint64_t index) {
  return *reinterpret_cast<const edgecore_value *>(reinterpret_cast<const char *>(call->args) +
                                                   index * call->arg_stride);
}

int32_t fail(const edgecore_call *call, const char *text) {
  return call->host->fail(call->error, EDGECORE_INVALID_ARGUMENT, {text, strlen(text)});
}

// Returns true for a contiguous float32 tensor.
bool is_contiguous_float(const edgecore_value &value) {
  if (value.tag != EDGECORE_TAG_TENSOR || value.as.tensor->scalar_type != kFloat32) return false;
  const edgecore_dl_tensor &tensor = value.as.tensor->dl;
  int64_t stride = 1;
  for (int32_t d = tensor.ndim; d-- > 0; stride *= tensor.shape[d]) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return false;
  }
  return true;
}

float *elements(const edgecore_tensor &tensor) {
  return reinterpret_cast<float *>(static_cast<char *>(tensor.dl.data) + tensor.dl.byte_offset);
}

struct Work {
  const float *a;
  const float *b;
  float *out;
  float scale;
};

void EDGECORE_CALL multiply_add_part(void *arg, uint64_t begin, uint64_t end, uint32_t) {
  const Work &work = *static_cast<const Work *>(arg);
  for (uint64_t i = begin; i < end; ++i) work.out[i] = work.a[i] * work.b[i] * work.scale + work.a[i];
}

int32_t EDGECORE_CALL multiply_add_out(const edgecore_call *call) {
  if (call->arg_count < 4) return fail(call, "multiply_add needs four arguments");
  const edgecore_value &a = argument(call, 0);
  const edgecore_value &b = argument(call, 1);
  const edgecore_value &scale = argument(call, 2);
  const edgecore_value &out = argument(call, 3);
  if (!is_contiguous_float(a) || !is_contiguous_float(b) || !is_contiguous_float(out)) {
    return fail(call, "multiply_add needs contiguous float32 tensors");
  }
  if (scale.tag != EDGECORE_TAG_DOUBLE) return fail(call, "the scale must be a float");
  const edgecore_dl_tensor &shape = a.as.tensor->dl;
  bool same = b.as.tensor->dl.ndim == shape.ndim;
  uint64_t count = 1;
  for (int32_t d = 0; same && d < shape.ndim; ++d) {
    same = b.as.tensor->dl.shape[d] == shape.shape[d];
    count *= static_cast<uint64_t>(shape.shape[d]);
  }
  if (!same) return fail(call, "both tensors must have the same shape");
  // Resize before writing: this call fails if the output cannot get this shape.
  const int32_t status = call->host->resize(call->scope, out.as.tensor, shape.shape, shape.ndim, call->error);
  if (status != EDGECORE_OK) return status;
  Work work = {elements(*a.as.tensor), elements(*b.as.tensor), elements(*out.as.tensor),
               static_cast<float>(scale.as.d)};
  call->host->parallel_for(call->scope, count, 4096, multiply_add_part, &work, 0);
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL append(const edgecore_call *call) {
  if (call->arg_count < 3) return fail(call, "append needs three arguments");
  const edgecore_value &rows = argument(call, 0);
  const edgecore_value &cache = argument(call, 1);
  const edgecore_value &position = argument(call, 2);
  if (!is_contiguous_float(rows) || !is_contiguous_float(cache)) {
    return fail(call, "append needs contiguous float32 tensors");
  }
  if (position.tag != EDGECORE_TAG_INT) return fail(call, "the position must be an int");
  const edgecore_dl_tensor &from = rows.as.tensor->dl;
  const edgecore_dl_tensor &to = cache.as.tensor->dl;
  if (from.ndim < 1 || from.ndim != to.ndim) return fail(call, "rows and cache must have the same number of dims");
  uint64_t row = 1;  // elements in a row
  for (int32_t d = 1; d < from.ndim; ++d) {
    if (from.shape[d] != to.shape[d]) return fail(call, "rows and cache must have rows of the same shape");
    row *= static_cast<uint64_t>(from.shape[d]);
  }
  const int64_t count = from.shape[0], first = position.as.i;
  if (first < 0 || count > to.shape[0] || first > to.shape[0] - count) return fail(call, "the cache is full");
  // Resize before writing, also if the shape stays: this call fails if the tensor may not be written.
  const int32_t status = call->host->resize(call->scope, cache.as.tensor, to.shape, to.ndim, call->error);
  if (status != EDGECORE_OK) return status;
  memmove(elements(*cache.as.tensor) + static_cast<uint64_t>(first) * row, elements(*rows.as.tensor),
          static_cast<uint64_t>(count) * row * sizeof(float));
  return EDGECORE_OK;
}

template <typename T>
constexpr edgecore_header header() {
  return {sizeof(T), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
}

constexpr edgecore_kernel kKernels[] = {
    {header<edgecore_kernel>(), {"example_ops::multiply_add", 25}, {"out", 3}, 1u << kFloat32, multiply_add_out},
    {header<edgecore_kernel>(), {"example_ops::append", 19}, {"", 0}, 1u << kFloat32, append},
};

constexpr edgecore_kernel_library kLibrary = {
    header<edgecore_kernel_library>(), {"edgecore-example-ops", 20}, {"0.1.0", 5}, kKernels, 2, sizeof(kKernels[0]), 0};

}  // namespace

extern "C" EDGECORE_EXPORT const edgecore_kernel_library *edgecore_kernels_v0(void) { return &kLibrary; }
