#include "toy_kernels.h"

#include <string.h>

namespace {

const edgecore_value &arg(const edgecore_call *call, uint64_t index) {
  return *reinterpret_cast<const edgecore_value *>(reinterpret_cast<const char *>(call->args) +
                                                   index * call->arg_stride);
}

int32_t fail(const edgecore_call *call, const char *text) {
  return call->host->fail(call->error, EDGECORE_INVALID_ARGUMENT, {text, strlen(text)});
}

// Returns true if the arguments have these tags, one letter each: t tensor, i int, d double, I int list, T tensor list.
bool has_tags(const edgecore_call *call, const char *tags) {
  if (call->arg_count != strlen(tags)) return false;
  for (uint64_t i = 0; i < call->arg_count; ++i) {
    const uint32_t wanted = tags[i] == 't'   ? EDGECORE_TAG_TENSOR
                            : tags[i] == 'i' ? EDGECORE_TAG_INT
                            : tags[i] == 'd' ? EDGECORE_TAG_DOUBLE
                            : tags[i] == 'I' ? EDGECORE_TAG_INT_LIST
                                             : EDGECORE_TAG_TENSOR_LIST;
    if (arg(call, i).tag != wanted) return false;
  }
  return true;
}

bool is_float(const edgecore_tensor *tensor) {
  return tensor->dl.dtype.code == EDGECORE_DL_FLOAT && tensor->dl.dtype.bits == 32;
}

uint64_t numel(const edgecore_tensor *tensor) {
  uint64_t count = 1;
  for (int32_t i = 0; i < tensor->dl.ndim; ++i) count *= static_cast<uint64_t>(tensor->dl.shape[i]);
  return count;
}

int32_t resize_as(const edgecore_call *call, edgecore_tensor *out, const edgecore_tensor *like) {
  return call->host->resize(call->scope, out, like->dl.shape, like->dl.ndim, call->error);
}

const float *floats(const edgecore_tensor *tensor) { return static_cast<const float *>(tensor->dl.data); }

int32_t scale(const edgecore_call *call) {
  if (!has_tags(call, "tit")) return fail(call, "expected a tensor, an int and an output.");
  const edgecore_tensor *x = arg(call, 0).as.tensor;
  edgecore_tensor *out = arg(call, 2).as.tensor;
  if (!is_float(x) || !is_float(out)) return fail(call, "expected float32 tensors.");
  if (const int32_t code = resize_as(call, out, x)) return code;
  float *to = static_cast<float *>(out->dl.data);
  for (uint64_t i = 0; i < numel(x); ++i) to[i] = floats(x)[i] * static_cast<float>(arg(call, 1).as.i);
  return EDGECORE_OK;
}

int32_t fill(const edgecore_call *call) {
  if (!has_tags(call, "Idt")) return fail(call, "expected a size, a value and an output.");
  const edgecore_list *size = arg(call, 0).as.list;
  edgecore_tensor *out = arg(call, 2).as.tensor;
  if (!is_float(out)) return fail(call, "expected a float32 output.");
  const int32_t code =
      call->host->resize(call->scope, out, size->items.ints, static_cast<int32_t>(size->count), call->error);
  if (code != EDGECORE_OK) return code;
  float *to = static_cast<float *>(out->dl.data);
  for (uint64_t i = 0; i < numel(out); ++i) to[i] = static_cast<float>(arg(call, 1).as.d);
  return EDGECORE_OK;
}

int32_t sum(const edgecore_call *call) {
  if (!has_tags(call, "Tt")) return fail(call, "expected a list of tensors and an output.");
  const edgecore_list *tensors = arg(call, 0).as.list;
  edgecore_tensor *out = arg(call, 1).as.tensor;
  if (!is_float(out)) return fail(call, "expected a float32 output.");
  if (const int32_t code = resize_as(call, out, out)) return code;
  float *to = static_cast<float *>(out->dl.data);
  for (uint64_t i = 0; i < numel(out); ++i) to[i] = 0;
  for (uint64_t t = 0; t < tensors->count; ++t) {
    const edgecore_tensor *x = tensors->items.tensors[t];
    if (x == nullptr) continue;
    if (!is_float(x) || numel(x) != numel(out)) return fail(call, "expected float32 tensors of one size.");
    for (uint64_t i = 0; i < numel(out); ++i) to[i] += floats(x)[i];
  }
  return EDGECORE_OK;
}

int32_t positive(const edgecore_call *call) {
  if (!has_tags(call, "tt")) return fail(call, "expected a tensor and an output.");
  const edgecore_tensor *x = arg(call, 0).as.tensor;
  edgecore_tensor *out = arg(call, 1).as.tensor;
  if (!is_float(x) || numel(x) == 0 || out->dl.dtype.code != EDGECORE_DL_BOOL || numel(out) != 1) {
    return fail(call, "expected a float32 tensor and a bool output.");
  }
  if (const int32_t code = resize_as(call, out, out)) return code;
  *static_cast<uint8_t *>(out->dl.data) = floats(x)[0] > 0;
  return EDGECORE_OK;
}

int32_t copy_in_place(const edgecore_call *call) {
  if (!has_tags(call, "tt") && !has_tags(call, "tti")) return fail(call, "expected two tensors.");
  edgecore_tensor *self = arg(call, 0).as.tensor;
  const edgecore_tensor *source = arg(call, 1).as.tensor;
  if (!is_float(self) || !is_float(source)) return fail(call, "expected float32 tensors.");
  if (const int32_t code = resize_as(call, self, source)) return code;
  memmove(self->dl.data, source->dl.data, numel(source) * sizeof(float));
  return EDGECORE_OK;
}

// Copies `source` (argument 1) to `self` (argument 0) and to `out`.
int32_t assign(const edgecore_call *call) {
  if (!has_tags(call, "ttt")) return fail(call, "expected two tensors and an output.");
  edgecore_tensor *self = arg(call, 0).as.tensor, *out = arg(call, 2).as.tensor;
  const edgecore_tensor *source = arg(call, 1).as.tensor;
  if (!is_float(self) || !is_float(source) || !is_float(out)) return fail(call, "expected float32 tensors.");
  if (const int32_t code = resize_as(call, self, source)) return code;
  if (const int32_t code = resize_as(call, out, source)) return code;
  memmove(self->dl.data, source->dl.data, numel(source) * sizeof(float));
  memmove(out->dl.data, source->dl.data, numel(source) * sizeof(float));
  return EDGECORE_OK;
}

void store_int(const edgecore_call *call, uint64_t index, int64_t value) {
  edgecore_value &out = const_cast<edgecore_value &>(arg(call, index));
  out.tag = EDGECORE_TAG_INT;
  out.as.i = value;
}

int32_t size(const edgecore_call *call) {
  if (!has_tags(call, "ti") || arg(call, 0).as.tensor->dl.ndim == 0) return fail(call, "expected a tensor.");
  store_int(call, 1, arg(call, 0).as.tensor->dl.shape[0]);
  return EDGECORE_OK;
}

int32_t add(const edgecore_call *call) {
  if (!has_tags(call, "iii")) return fail(call, "expected two ints.");
  store_int(call, 2,
            static_cast<int64_t>(static_cast<uint64_t>(arg(call, 0).as.i) + static_cast<uint64_t>(arg(call, 1).as.i)));
  return EDGECORE_OK;
}

int32_t scratch(const edgecore_call *call) {
  if (!has_tags(call, "tt")) return fail(call, "expected a tensor and an output.");
  const edgecore_tensor *x = arg(call, 0).as.tensor;
  edgecore_tensor *out = arg(call, 1).as.tensor;
  if (!is_float(x) || !is_float(out)) return fail(call, "expected float32 tensors.");
  if (const int32_t code = resize_as(call, out, x)) return code;
  void *memory = call->host->scratch(call->scope, numel(x) * sizeof(float), 64);
  if (memory == nullptr) return fail(call, "there is no scratch memory.");
  memcpy(memory, x->dl.data, numel(x) * sizeof(float));
  memcpy(out->dl.data, memory, numel(x) * sizeof(float));
  return EDGECORE_OK;
}

int32_t et_view(const edgecore_call *call) {
  if (!has_tags(call, "tIt")) return fail(call, "expected a tensor, a size and an output.");
  const edgecore_list *size = arg(call, 1).as.list;
  return call->host->resize(call->scope, arg(call, 2).as.tensor, size->items.ints, static_cast<int32_t>(size->count),
                            call->error);
}

// Concatenates n copies of x.
int32_t repeat(const edgecore_call *call) {
  if (!has_tags(call, "tit")) return fail(call, "expected a tensor, an int and an output.");
  const edgecore_tensor *x = arg(call, 0).as.tensor;
  edgecore_tensor *out = arg(call, 2).as.tensor;
  if (!is_float(x) || !is_float(out) || x->dl.ndim != 1) return fail(call, "expected float32 tensors of one dim.");
  const int64_t times = arg(call, 1).as.i;
  const int64_t count = x->dl.shape[0];
  const int64_t shape[1] = {times * count};
  if (const int32_t code = call->host->resize(call->scope, out, shape, 1, call->error)) return code;
  float *to = static_cast<float *>(out->dl.data);
  for (int64_t i = 0; i < shape[0]; ++i) to[i] = floats(x)[i % count];
  return EDGECORE_OK;
}

edgecore_str text(const char *chars) { return {chars, strlen(chars)}; }

edgecore_kernel kernel(const char *name, const char *overload, edgecore_kernel_fn run) {
  return {{sizeof(edgecore_kernel), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR}, text(name), text(overload), ~0ull, run};
}

}  // namespace

extern "C" const edgecore_kernel_library *toy_kernels() {
  static const edgecore_kernel kernels[] = {
      kernel("test::scale", "out", scale),
      kernel("test::fill", "out", fill),
      kernel("test::sum", "out", sum),
      kernel("test::positive", "out", positive),
      kernel("test::copy_", "", copy_in_place),
      kernel("test::assign", "out", assign),
      kernel("aten::copy_", "", copy_in_place),
      kernel("test::size", "", size),
      kernel("test::add", "", add),
      kernel("test::scratch", "out", scratch),
      kernel("test::repeat", "out", repeat),
      kernel("executorch_prim::et_view", "", et_view),
  };
  static const edgecore_kernel_library library = {
      {sizeof(edgecore_kernel_library), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},
      text("edgecore"),
      text("0"),
      kernels,
      sizeof(kernels) / sizeof(kernels[0]),
      sizeof(kernels[0]),
      0,
  };
  return &library;
}
