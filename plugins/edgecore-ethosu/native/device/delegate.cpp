// The Ethos-U backend on a device: passes a delegate's command stream, and the addresses of its weights and arena, to
// Arm's driver. Uses neither a heap nor exceptions: the table of functions is read-only, and delegates and instances
// come from static pools.
//
// Only one thread may load and destroy models, because the pools have no locks. Several threads may run models: the
// driver lets them share an NPU.
#include <ethosu_driver.h>

#include "blob.h"
#include "edgecore/backend.h"
#include "edgecore_ethosu.h"

#ifndef EDGECORE_ETHOSU_VERSION
#define EDGECORE_ETHOSU_VERSION "0"
#endif

using edgecore::ethosu::ArenaTensor;
using edgecore::ethosu::Blob;
using edgecore::ethosu::Problem;
using edgecore::ethosu::Sentence;

struct edgecore_driver {
  const edgecore_host *host;
};
struct edgecore_program {};
struct edgecore_delegate {
  bool used;
  Blob blob;
  edgecore_memory_block fast;
};
struct edgecore_instance {
  bool used;
  bool profiled;
  edgecore_scope *scope;
  const Blob *blob;
  edgecore_memory_block fast;
  edgecore_memory_need need;
};

namespace {

constexpr uint64_t kAlignment = 16;  // alignment in bytes of all addresses that the NPU receives
constexpr uint64_t kCacheLine = 32;  // cache line in bytes (Cortex-M55, M85): the driver flushes whole lines

edgecore_driver driver;
edgecore_program program;
edgecore_delegate delegates[EDGECORE_ETHOSU_DELEGATES];
edgecore_instance instances[EDGECORE_ETHOSU_DELEGATES];
edgecore_memory_block fast_scratch;

template <size_t size>
constexpr edgecore_str str(const char (&text)[size]) {
  return {text, size - 1};
}

template <typename... Pieces>
int32_t fail(edgecore_error *error, int32_t code, const Pieces &...pieces) {
  Sentence sentence;
  (sentence << ... << pieces) << ".";
  return driver.host->fail(error, code, sentence.text());
}

template <typename Handle>
int32_t take(Handle (&pool)[EDGECORE_ETHOSU_DELEGATES], Handle **out, edgecore_error *error) {
  for (Handle &handle : pool) {
    if (handle.used) continue;
    handle = Handle();
    handle.used = true;
    *out = &handle;
    return EDGECORE_OK;
  }
  return fail(error, EDGECORE_OUT_OF_RESOURCES, "the firmware has room for ", uint64_t{EDGECORE_ETHOSU_DELEGATES},
              " delegates: build it with a larger EDGECORE_ETHOSU_DELEGATES");
}

// Removes the prefix `start` from a text. Returns false if the text does not begin with it.
template <size_t size>
bool skip(edgecore_str &text, const char (&start)[size]) {
  if (text.size < size - 1 || memcmp(text.data, start, size - 1) != 0) return false;
  text = {text.data + size - 1, text.size - (size - 1)};
  return true;
}

// Returns true for the compatibility string that lowering.py writes: "ethosu-vela 1 TARGET", followed by " fast BYTES"
// if the command stream uses BYTES of fast scratch (SRAM as a cache).
bool has_format(edgecore_str text) { return skip(text, "ethosu-vela 1 "); }

uint64_t fast_bytes_of(edgecore_str text) {
  while (text.size != 0 && !skip(text, " fast ")) text = {text.data + 1, text.size - 1};
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < text.size && text.data[i] >= '0' && text.data[i] <= '9' && bytes <= UINT32_MAX; ++i) {
    bytes = bytes * 10 + static_cast<uint64_t>(text.data[i] - '0');
  }
  return bytes;
}

uint64_t address_of(const void *data) { return reinterpret_cast<uintptr_t>(data); }

int32_t EDGECORE_CALL driver_create(const edgecore_host *host, edgecore_scope *, edgecore_driver **out,
                                    edgecore_error *) {
  driver.host = host;
  *out = &driver;
  return EDGECORE_OK;
}
void EDGECORE_CALL driver_destroy(edgecore_driver *) {}

int32_t EDGECORE_CALL check_compatibility(edgecore_driver *, edgecore_str text, edgecore_error *error) {
  if (has_format(text)) return EDGECORE_COMPATIBLE;
  (void)fail(error, EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "'", text,
             "' is not a format that this release of edgecore-ethosu reads: install the release that compiled it");
  return EDGECORE_INCOMPATIBLE;
}

int32_t EDGECORE_CALL program_open(edgecore_driver *, const edgecore_program_info *, edgecore_program **out,
                                   edgecore_error *) {
  *out = &program;
  return EDGECORE_OK;
}
void EDGECORE_CALL program_close(edgecore_program *) {}

int32_t EDGECORE_CALL delegate_load(edgecore_program *, const edgecore_delegate_info *info, edgecore_delegate **out,
                                    edgecore_error *error) {
  Blob blob = {};
  Problem problem;
  if (!edgecore::ethosu::read_blob(info->blob, blob, problem)) {
    return fail(error, problem.code, problem.sentence.text());
  }
  if (address_of(info->blob.data) % kAlignment != 0) {
    return fail(
        error, EDGECORE_INVALID_ARGUMENT, "the blob lies at the address ", address_of(info->blob.data),
        ", which is no multiple of 16, as the NPU needs it: align the file in memory, and its segments, to 16 bytes");
  }
  // A file of another toolchain does not state how much fast scratch (SRAM) it needs: give it the whole fast scratch.
  uint64_t fast_bytes = fast_scratch.bytes;
  if (info->compatibility.size != 0) fast_bytes = fast_bytes_of(info->compatibility);
  if (fast_bytes > fast_scratch.bytes) {
    return fail(error, EDGECORE_DELEGATE_MEMORY_ALLOCATION_FAILED, "the model needs ", fast_bytes,
                " bytes of fast scratch, and the application has given ", fast_scratch.bytes,
                ": call edgecore_ethosu_set_fast_scratch, or compile with the memory mode Shared_Sram");
  }
  if (fast_bytes != 0 && (address_of(fast_scratch.data) % kCacheLine != 0 || fast_scratch.bytes % kCacheLine != 0)) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "the fast scratch has ", fast_scratch.bytes, " bytes at the address ",
                address_of(fast_scratch.data), ": both must be multiples of 32, the size of a cache line");
  }
  const int32_t code = take(delegates, out, error);
  if (code != EDGECORE_OK) return code;
  (*out)->blob = blob;  // the NPU reads command stream and weights in the file's own memory
  (*out)->fast = {fast_scratch.data, fast_bytes};
  return EDGECORE_OK;
}
void EDGECORE_CALL delegate_destroy(edgecore_delegate *delegate) { delegate->used = false; }

uint64_t EDGECORE_CALL argument_count(edgecore_delegate *delegate) {
  return uint64_t{delegate->blob.inputs.count} + delegate->blob.outputs.count;
}

int32_t EDGECORE_CALL instance_create(edgecore_delegate *delegate, const edgecore_instance_info *info,
                                      edgecore_instance **out, edgecore_error *error) {
  const int32_t code = take(instances, out, error);
  if (code != EDGECORE_OK) return code;
  (*out)->profiled = (info->flags & EDGECORE_INSTANCE_PROFILED) != 0;
  (*out)->scope = info->scope;
  (*out)->blob = &delegate->blob;
  (*out)->fast = delegate->fast;
  return EDGECORE_OK;
}
void EDGECORE_CALL instance_destroy(edgecore_instance *instance) { instance->used = false; }

edgecore_tensor *tensor_of(const edgecore_value *args, uint32_t stride, uint64_t index) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(args) + index * stride;
  const auto *value = reinterpret_cast<const edgecore_value *>(bytes);
  return value->tag == EDGECORE_TAG_TENSOR ? value->as.tensor : nullptr;
}

uint8_t *data_of(const edgecore_tensor &tensor) {
  return static_cast<uint8_t *>(tensor.dl.data) + static_cast<size_t>(tensor.dl.byte_offset);
}

// Checks that a tensor has the integer width and the total number of bytes that the command stream expects.
int32_t check_tensor(const edgecore_tensor *tensor, const ArenaTensor &expected, uint64_t index,
                     edgecore_error *error) {
  if (tensor == nullptr || tensor->buffer != nullptr || tensor->dl.device_type != EDGECORE_DEVICE_CPU) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "argument ", index, " must be a tensor in memory of the processor");
  }
  const edgecore_dl_dtype dtype = tensor->dl.dtype;
  const bool is_integer =
      dtype.code == EDGECORE_DL_INT || dtype.code == EDGECORE_DL_UINT || dtype.code == EDGECORE_DL_BOOL;
  if (!is_integer || dtype.bits != 8 * expected.element_size || dtype.lanes != 1) {
    return fail(error, EDGECORE_INVALID_TYPE, "argument ", index, " must have integers of ", expected.element_size,
                " bytes");
  }
  uint64_t bytes = expected.element_size;
  for (int32_t d = 0; d < tensor->dl.ndim; ++d) bytes *= static_cast<uint64_t>(tensor->dl.shape[d]);
  if (bytes == expected.bytes) return EDGECORE_OK;
  return fail(error, EDGECORE_INVALID_ARGUMENT, "argument ", index, " has ", bytes, " bytes, and the command stream ",
              expected.bytes);
}

int32_t EDGECORE_CALL prepare(edgecore_instance *instance, const edgecore_value *args, uint64_t count, uint32_t stride,
                              edgecore_prepared *out, edgecore_error *error) {
  const Blob &blob = *instance->blob;
  const uint64_t expected = uint64_t{blob.inputs.count} + blob.outputs.count;
  if (count != expected) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, count, " arguments instead of ", expected);
  }
  for (uint32_t i = 0; i < blob.inputs.count; ++i) {
    const int32_t code = check_tensor(tensor_of(args, stride, i), blob.inputs[i], i, error);
    if (code != EDGECORE_OK) return code;
  }
  for (uint32_t i = 0; i < blob.outputs.count; ++i) {
    const uint64_t index = uint64_t{blob.inputs.count} + i;
    edgecore_tensor *tensor = tensor_of(args, stride, index);
    int32_t code = check_tensor(tensor, blob.outputs[i], index, error);
    if (code != EDGECORE_OK) return code;
    code = driver.host->resize(instance->scope, tensor, tensor->dl.shape, tensor->dl.ndim, error);
    if (code != EDGECORE_OK) return code;
  }
  instance->need.header = {sizeof(edgecore_memory_need), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  instance->need.kind = EDGECORE_MEMORY_SCRATCH;
  instance->need.bytes = (blob.arena_bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  instance->need.alignment = kCacheLine;
  out->needs = &instance->need;
  out->need_count = 1;
  out->need_stride = sizeof(edgecore_memory_need);
  return EDGECORE_OK;
}

// Runs the command stream of a blob. Region 0 is the weights, 1 the arena, 2 the fast scratch.
int run(const Blob &blob, const uint8_t *arena, const edgecore_memory_block &fast) {
  uint64_t addresses[] = {address_of(blob.weights.data), address_of(arena), address_of(fast.data)};
  const size_t sizes[] = {static_cast<size_t>(blob.weights.size), blob.arena_bytes, static_cast<size_t>(fast.bytes)};
  ethosu_driver *npu = ethosu_reserve_driver();
#ifndef ETHOSU_MULTI_VARIANT  // with this macro, the driver returns NULL and reserves an NPU in ethosu_invoke_v3
  if (npu == nullptr) return -1;
#endif
  const int code = ethosu_invoke_v3(npu, blob.commands.data, static_cast<int>(blob.commands.size), addresses, sizes,
                                    fast.bytes == 0 ? 2 : 3, nullptr);
  if (npu != nullptr) ethosu_release_driver(npu);
  return code;
}

int32_t EDGECORE_CALL execute(edgecore_instance *instance, const edgecore_execute_info *info,
                              const edgecore_value *args, uint64_t, uint32_t stride, edgecore_error *error) {
  const Blob &blob = *instance->blob;
  if (info->memory_count != 1) return fail(error, EDGECORE_INTERNAL, "the host gave no memory for the arena");
  auto *arena = static_cast<uint8_t *>(info->memory[0].data);
  for (uint32_t i = 0; i < blob.inputs.count; ++i) {
    const ArenaTensor input = blob.inputs[i];
    memcpy(arena + input.offset, data_of(*tensor_of(args, stride, i)), input.bytes);
  }
  const uint64_t event = instance->profiled ? driver.host->event_begin(instance->scope, str("NPU"), -1) : 0;
  const int code = run(blob, arena, instance->fast);
  if (instance->profiled) driver.host->event_end(instance->scope, event);
  if (code != 0) {
    return fail(error, EDGECORE_ACCESS_FAILED, "Arm's driver has not run the command stream (it returned ", code,
                "): its log says why");
  }
  for (uint32_t i = 0; i < blob.outputs.count; ++i) {
    const ArenaTensor output = blob.outputs[i];
    memcpy(data_of(*tensor_of(args, stride, uint64_t{blob.inputs.count} + i)), arena + output.offset, output.bytes);
  }
  return EDGECORE_OK;
}

constexpr edgecore_backend make_table() {
  edgecore_backend table = {};
  table.header = {sizeof(edgecore_backend), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  table.min_host_major = EDGECORE_ABI_MAJOR;
  table.min_host_minor = EDGECORE_ABI_MINOR;
  // Set NEEDS_TRUSTED_BLOBS, because a malformed command stream can make the NPU access any memory.
  table.flags = EDGECORE_NO_THREADS | EDGECORE_NEEDS_TRUSTED_BLOBS;
  table.backend_id = str("EthosUBackend");
  table.distribution = str("edgecore-ethosu");
  table.version = str(EDGECORE_ETHOSU_VERSION);
  table.driver_create = driver_create;
  table.driver_destroy = driver_destroy;
  table.check_compatibility = check_compatibility;
  table.program_open = program_open;
  table.program_close = program_close;
  table.delegate_load = delegate_load;
  table.delegate_destroy = delegate_destroy;
  table.argument_count = argument_count;
  table.instance_create = instance_create;
  table.instance_destroy = instance_destroy;
  table.prepare = prepare;
  table.execute = execute;
  return table;
}

constexpr edgecore_backend kTable = make_table();

}  // namespace

void edgecore_ethosu_set_fast_scratch(void *data, size_t size) { fast_scratch = {data, size}; }

extern "C" EDGECORE_BACKEND(ethosu) { return &kTable; }
