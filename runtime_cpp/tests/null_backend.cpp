#include "null_backend.h"

#include <string.h>

#include <atomic>
#include <new>
#include <string>

// The handles are this backend's own types.
struct edgecore_driver {
  const edgecore_host *host;
};
struct edgecore_program {
  edgecore_driver *driver;
};
struct edgecore_delegate {
  edgecore_program *program;
  NullBlob blob;
};
struct edgecore_instance {
  edgecore_delegate *delegate;
  edgecore_scope *scope;
  edgecore_memory_need needs[2];
  bool profiled;
};

namespace {

std::atomic<uint64_t> live_handles{0};
std::atomic<uint64_t> prepares{0};

int32_t fail(const edgecore_host *host, edgecore_error *error, int32_t code, const std::string &text) {
  return host->fail(error, code, {text.data(), text.size()});
}

template <typename Handle>
int32_t make(Handle handle, Handle **out) {
  *out = new (std::nothrow) Handle(handle);
  if (*out == nullptr) return EDGECORE_DELEGATE_MEMORY_ALLOCATION_FAILED;
  ++live_handles;
  return EDGECORE_OK;
}

template <typename Handle>
void end(Handle *handle) {
  delete handle;
  --live_handles;
}

int32_t EDGECORE_CALL probe(const edgecore_host *, edgecore_scope *, edgecore_error *) { return EDGECORE_OK; }

int32_t EDGECORE_CALL driver_create(const edgecore_host *host, edgecore_scope *, edgecore_driver **out,
                                    edgecore_error *) {
  return make(edgecore_driver{host}, out);
}

int32_t EDGECORE_CALL check_compatibility(edgecore_driver *driver, edgecore_str compatibility, edgecore_error *error) {
  const std::string text(compatibility.data, compatibility.size);
  if (text == "null 1") return EDGECORE_COMPATIBLE;
  fail(driver->host, error, EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "this backend runs 'null 1' only.");
  return EDGECORE_INCOMPATIBLE;
}

int32_t EDGECORE_CALL program_open(edgecore_driver *driver, const edgecore_program_info *, edgecore_program **out,
                                   edgecore_error *) {
  return make(edgecore_program{driver}, out);
}

int32_t EDGECORE_CALL delegate_load(edgecore_program *program, const edgecore_delegate_info *info,
                                    edgecore_delegate **out, edgecore_error *error) {
  const edgecore_host *host = program->driver->host;
  NullBlob blob;
  if (info->blob.size != sizeof(blob) || memcmp(info->blob.data, blob.magic, sizeof(blob.magic)) != 0) {
    return fail(host, error, EDGECORE_INVALID_PROGRAM, "the blob is not one of the null backend.");
  }
  memcpy(&blob, info->blob.data, sizeof(blob));
  if (blob.inputs == 0 || blob.inputs > 16 || blob.outputs > 16) {
    return fail(host, error, EDGECORE_INVALID_PROGRAM, "the blob has " + std::to_string(blob.inputs) + " inputs.");
  }
  info->release_blob(info->scope);
  return make(edgecore_delegate{program, blob}, out);
}

uint64_t EDGECORE_CALL argument_count(edgecore_delegate *delegate) {
  return uint64_t{delegate->blob.inputs} + delegate->blob.outputs;
}

void EDGECORE_CALL buffer_requirement(edgecore_delegate *delegate, uint64_t, edgecore_buffer_requirement *out) {
  out->alignment = delegate->blob.alignment;
  out->tail_padding = delegate->blob.tail_padding;
}

int32_t EDGECORE_CALL instance_create(edgecore_delegate *delegate, const edgecore_instance_info *info,
                                      edgecore_instance **out, edgecore_error *) {
  return make(edgecore_instance{delegate, info->scope, {}, (info->flags & EDGECORE_INSTANCE_PROFILED) != 0}, out);
}

const edgecore_value &argument(const edgecore_value *args, uint32_t stride, uint64_t index) {
  return *reinterpret_cast<const edgecore_value *>(reinterpret_cast<const char *>(args) + index * stride);
}

int32_t EDGECORE_CALL prepare(edgecore_instance *instance, const edgecore_value *args, uint64_t arg_count,
                              uint32_t arg_stride, edgecore_prepared *out, edgecore_error *error) {
  ++prepares;
  const NullBlob &blob = instance->delegate->blob;
  const edgecore_host *host = instance->delegate->program->driver->host;
  if (arg_count != argument_count(instance->delegate)) return EDGECORE_INVALID_ARGUMENT;
  for (uint64_t i = 0; i < arg_count; ++i) {
    const edgecore_value &arg = argument(args, arg_stride, i);
    if (arg.tag != EDGECORE_TAG_TENSOR || arg.as.tensor->dl.dtype.code != EDGECORE_DL_FLOAT ||
        arg.as.tensor->dl.dtype.bits != 32) {
      return fail(host, error, EDGECORE_INVALID_TYPE, "argument " + std::to_string(i) + " is no float32 tensor.");
    }
  }
  for (uint64_t i = 0; i < blob.outputs; ++i) {
    const edgecore_tensor *input = argument(args, arg_stride, i % blob.inputs).as.tensor;
    edgecore_tensor *output = argument(args, arg_stride, blob.inputs + i).as.tensor;
    const int32_t code = host->resize(instance->scope, output, input->dl.shape, input->dl.ndim, error);
    if (code != EDGECORE_OK) return code;
  }
  uint32_t count = 0;
  for (const uint32_t kind : {EDGECORE_MEMORY_SCRATCH, EDGECORE_MEMORY_PERSISTENT}) {
    const uint64_t bytes = kind == EDGECORE_MEMORY_SCRATCH ? blob.scratch_bytes : blob.persistent_bytes;
    if (bytes == 0) continue;
    edgecore_memory_need &need = instance->needs[count++];
    need = {};
    need.header = {sizeof(need), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
    need.kind = kind;
    need.bytes = bytes;
    need.alignment = 128;
  }
  out->needs = instance->needs;
  out->need_count = count;
  out->need_stride = sizeof(edgecore_memory_need);
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL execute(edgecore_instance *instance, const edgecore_execute_info *info,
                              const edgecore_value *args, uint64_t, uint32_t arg_stride, edgecore_error *error) {
  const NullBlob &blob = instance->delegate->blob;
  const edgecore_host *host = instance->delegate->program->driver->host;
  for (uint64_t i = 0; i < info->memory_count; ++i) {
    const edgecore_memory_block &block = info->memory[i];
    if (block.data == nullptr || reinterpret_cast<uintptr_t>(block.data) % 128 != 0) {
      return fail(host, error, EDGECORE_DELEGATE_MEMORY_ALLOCATION_FAILED, "a memory block is missing or misaligned.");
    }
    if (instance->needs[i].kind == EDGECORE_MEMORY_SCRATCH) memset(block.data, 0xab, block.bytes);
    if (instance->needs[i].kind == EDGECORE_MEMORY_PERSISTENT && block.bytes >= 8) {
      ++*static_cast<uint64_t *>(block.data);
    }
  }
  for (uint64_t i = 0; i < blob.outputs; ++i) {
    const edgecore_tensor *input = argument(args, arg_stride, i % blob.inputs).as.tensor;
    const edgecore_tensor *output = argument(args, arg_stride, blob.inputs + i).as.tensor;
    uint64_t count = 1;
    for (int32_t d = 0; d < input->dl.ndim; ++d) count *= static_cast<uint64_t>(input->dl.shape[d]);
    const float *from = static_cast<const float *>(input->dl.data);
    float *to = static_cast<float *>(output->dl.data);
    if (reinterpret_cast<uintptr_t>(from) % blob.alignment != 0) {
      return fail(host, error, EDGECORE_INVALID_ARGUMENT, "an input is not aligned as required.");
    }
    // Reads the padding that it asked for, as vector code does.
    volatile char padding = 0;
    const char *tail = static_cast<const char *>(input->dl.data) + count * sizeof(float);
    for (uint32_t b = 0; b < blob.tail_padding && count != 0; ++b) padding = static_cast<char>(padding ^ tail[b]);
    for (uint64_t j = 0; j < count; ++j) to[j] = from[j] * blob.factor;
  }
  if (instance->profiled) host->event_add(instance->scope, {"multiply", 8}, 7, 10, 20);
  return EDGECORE_OK;
}

edgecore_str text(const char *chars) { return {chars, strlen(chars)}; }

}  // namespace

extern "C" const edgecore_backend *null_backend(uint32_t flags) {
  static edgecore_backend table;
  table = {};
  table.header = {sizeof(table), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  table.least_host_minor = EDGECORE_ABI_MINOR;
  table.flags = flags != 0 ? flags : EDGECORE_NO_THREADS | EDGECORE_VALIDATES_BLOBS;
  table.backend_id = text("NullBackend");
  table.distribution = text("edgecore-null");
  table.version = text("0");
  table.probe = probe;
  table.driver_create = driver_create;
  table.driver_destroy = [](edgecore_driver *driver) { end(driver); };
  table.check_compatibility = check_compatibility;
  table.program_open = program_open;
  table.program_close = [](edgecore_program *program) { end(program); };
  table.delegate_load = delegate_load;
  table.delegate_destroy = [](edgecore_delegate *delegate) { end(delegate); };
  table.argument_count = argument_count;
  table.buffer_requirement = buffer_requirement;
  table.instance_create = instance_create;
  table.instance_destroy = [](edgecore_instance *instance) { end(instance); };
  table.prepare = prepare;
  table.execute = execute;
  return &table;
}

extern "C" uint64_t null_backend_live_handles() { return live_handles; }
extern "C" uint64_t null_backend_prepares() { return prepares; }

EDGECORE_BACKEND(null) { return null_backend(0); }
