#include "call.h"

#include <stdio.h>
#include <string.h>

#include "variant.h"

namespace edgecore::llm {
namespace {

edgecore_tensor kNoTensor = {};

const char *dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kUint8:
      return "uint8";
    case Dtype::kInt8:
      return "int8";
    case Dtype::kInt64:
      return "int64";
    case Dtype::kFloat16:
      return "float16";
    case Dtype::kFloat32:
      return "float32";
  }
  return "";
}

bool is_contiguous(const edgecore_dl_tensor &tensor) {
  int64_t stride = 1;
  for (int32_t d = tensor.ndim; d-- > 0; stride *= tensor.shape[d]) {
    if (tensor.shape[d] == 0) return true;
    if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return false;
  }
  return true;
}

}  // namespace

Call::Call(const edgecore_call *call, const char *op, const char *library) : call_(call), op_(op), library_(library) {
  if (!is_variant_known()) {
    fail("the variable EDGECORE_LLM_INSTRUCTIONS names no instruction set of this processor; remove it");
  }
}

const edgecore_value *Call::value(uint64_t index) {
  if (index >= call_->arg_count) {
    fail("an argument is missing");
    return nullptr;
  }
  return reinterpret_cast<const edgecore_value *>(reinterpret_cast<const char *>(call_->args) +
                                                  index * call_->arg_stride);
}

Tensor Call::optional_tensor(uint64_t index, const char *name, Dtype dtype, int64_t ndim) {
  const edgecore_value *argument = value(index);
  if (argument == nullptr || argument->tag == EDGECORE_TAG_NONE) return {};
  return tensor(index, name, dtype, ndim);
}

Tensor Call::tensor_of_any_dtype(uint64_t index, const char *name, int64_t ndim) {
  const edgecore_value *argument = value(index);
  if (argument == nullptr) return {&kNoTensor};
  if (argument->tag != EDGECORE_TAG_TENSOR) {
    fail("must be a tensor", name);
    return {&kNoTensor};
  }
  edgecore_tensor *tensor = argument->as.tensor;
  if (ndim >= 0 && tensor->dl.ndim != ndim) {
    char text[80];
    snprintf(text, sizeof(text), "must have %d dims, not %d", static_cast<int>(ndim), tensor->dl.ndim);
    fail(text, name);
  } else if (!is_contiguous(tensor->dl)) {
    fail("must be contiguous", name);
  } else {
    return {tensor};
  }
  return {&kNoTensor};
}

bool Call::has_dtype(uint64_t index, Dtype dtype) {
  const edgecore_value *argument = value(index);
  return argument != nullptr && argument->tag == EDGECORE_TAG_TENSOR &&
         argument->as.tensor->scalar_type == static_cast<int32_t>(dtype);
}

Tensor Call::tensor(uint64_t index, const char *name, Dtype dtype, int64_t ndim) {
  const Tensor tensor = tensor_of_any_dtype(index, name, ndim);
  if (failed() || tensor.t->scalar_type == static_cast<int32_t>(dtype)) return tensor;
  char text[80];
  snprintf(text, sizeof(text), "must be %s", dtype_name(dtype));
  fail(text, name);
  return {&kNoTensor};
}

bool Call::is_none(uint64_t index) {
  const edgecore_value *argument = value(index);
  return argument == nullptr || argument->tag == EDGECORE_TAG_NONE;
}

bool Call::boolean(uint64_t index, const char *name) {
  const edgecore_value *argument = value(index);
  if (argument == nullptr) return false;
  if (argument->tag != EDGECORE_TAG_BOOL) {
    fail("must be a boolean", name);
    return false;
  }
  return argument->as.b != 0;
}

int64_t Call::integer(uint64_t index, const char *name) {
  const edgecore_value *argument = value(index);
  if (argument == nullptr) return 0;
  if (argument->tag != EDGECORE_TAG_INT) {
    fail("must be an integer", name);
    return 0;
  }
  return argument->as.i;
}

double Call::number(uint64_t index, const char *name) {
  const edgecore_value *argument = value(index);
  if (argument == nullptr) return 0;
  if (argument->tag == EDGECORE_TAG_INT) return static_cast<double>(argument->as.i);
  if (argument->tag != EDGECORE_TAG_DOUBLE) {
    fail("must be a number", name);
    return 0;
  }
  return argument->as.d;
}

edgecore_list Call::string(uint64_t index, const char *name) {
  const edgecore_value *argument = value(index);
  if (argument == nullptr) return {{""}, 0};
  if (argument->tag != EDGECORE_TAG_STRING) {
    fail("must be a string", name);
    return {{""}, 0};
  }
  return *argument->as.list;
}

int32_t Call::fail(const char *text, const char *name) {
  if (failed()) return status_;
  char message[240];
  const int size = name[0] == 0 ? snprintf(message, sizeof(message), "%s::%s: %s", library_, op_, text)
                                : snprintf(message, sizeof(message), "%s::%s: %s %s", library_, op_, name, text);
  const uint64_t length = size < static_cast<int>(sizeof(message)) ? static_cast<uint64_t>(size) : sizeof(message) - 1;
  status_ = call_->host->fail(call_->error, EDGECORE_INVALID_ARGUMENT, {message, length});
  return status_;
}

bool Call::check(bool ok, const char *text) {
  if (!failed() && !ok) fail(text);
  return !failed();
}

bool Call::resize(Tensor out, const int64_t *shape, int64_t ndim) {
  if (failed()) return false;
  if (out.ndim() != ndim) {
    fail("the output has another number of dims");
    return false;
  }
  status_ = call_->host->resize(call_->scope, out.t, shape, static_cast<int32_t>(ndim), call_->error);
  return !failed();
}

void *Call::scratch_bytes(int64_t bytes) {
  if (failed()) return nullptr;
  void *memory = call_->host->scratch(call_->scope, static_cast<uint64_t>(bytes), 64);
  if (memory == nullptr) {
    const char text[] = "edgecore_llm: no memory for intermediate values";
    status_ = call_->host->fail(call_->error, EDGECORE_MEMORY_ALLOCATION_FAILED, {text, sizeof(text) - 1});
  }
  return memory;
}

}  // namespace edgecore::llm
