#include "null_backend.h"

#include <string.h>

#include <atomic>
#include <cmath>
#include <deque>
#include <mutex>
#include <new>
#include <string>

// The backend interface declares its handles as incomplete structs, and each backend defines them. null_device.h
// defines edgecore_driver.
struct edgecore_program {
  edgecore_driver *driver;
  edgecore_scope *scope;
  double gain;
  float weights;  // 0 until the first delegate needs them
};
struct edgecore_delegate {
  edgecore_program *program;
  NullBlob blob;
};
// The buffers of a state set: float32 of shape [1], each with the sum of all input elements so far.
struct edgecore_state_set {
  struct Buffer {
    const char *name;
    float sum;
  };
  edgecore_program *program;
  std::deque<Buffer> buffers;  // a deque, because instances keep addresses of its elements
};
struct edgecore_instance {
  edgecore_delegate *delegate;
  edgecore_scope *scope;
  float *sum;  // in the state set; NULL without kNullState
  edgecore_memory_need needs[2];
  uint32_t flags;  // EDGECORE_INSTANCE_*
  double gain;
  int64_t number;  // another factor of the outputs
};

namespace {

std::atomic<uint64_t> live_handles{0};
std::atomic<uint64_t> prepares{0};
std::atomic<uint64_t> packed{0};
std::mutex program_mutex;  // methods of a program share its weights

edgecore_str text(const char *chars) { return {chars, strlen(chars)}; }

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
  const std::string made_for(compatibility.data, compatibility.size);
  if (made_for == "null 1") return EDGECORE_COMPATIBLE;
  if (made_for == "null 0") {
    fail(driver->host, error, EDGECORE_OK, "'null 1' computes faster.");
    return EDGECORE_COMPATIBLE_RECOMPILE;
  }
  fail(driver->host, error, EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "this backend runs 'null 1' only.");
  return EDGECORE_INCOMPATIBLE;
}

int32_t EDGECORE_CALL program_open(edgecore_driver *driver, const edgecore_program_info *info, edgecore_program **out,
                                   edgecore_error *) {
  double gain = 1;
  const char *at = reinterpret_cast<const char *>(info->options.items);
  for (uint64_t i = 0; i < info->options.count; ++i, at += info->options.stride) {
    const auto *option = reinterpret_cast<const edgecore_option *>(at);
    if (option->type == EDGECORE_OPTION_FLOAT) gain = option->value.d;
  }
  return make(edgecore_program{driver, info->scope, gain, 0}, out);
}

// Packs the weights once for all methods of the program.
int32_t pack_weights(edgecore_program *program, edgecore_error *error) {
  const std::lock_guard<std::mutex> lock(program_mutex);
  if (program->weights != 0) return EDGECORE_OK;
  edgecore_bytes bytes = {};
  const int32_t code = program->driver->host->named_data(program->scope, {"null.weights", 12}, &bytes, error);
  if (code != EDGECORE_OK) return code;
  if (bytes.size != sizeof(float)) return EDGECORE_INVALID_EXTERNAL_DATA;
  memcpy(&program->weights, bytes.data, sizeof(float));
  ++packed;
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL delegate_load(edgecore_program *program, const edgecore_delegate_info *info,
                                    edgecore_delegate **out, edgecore_error *error) {
  const edgecore_host *host = program->driver->host;
  NullBlob blob;
  if (info->blob.size < sizeof(blob) || memcmp(info->blob.data, blob.magic, sizeof(blob.magic)) != 0) {
    return fail(host, error, EDGECORE_INVALID_PROGRAM, "the blob is not one of the null backend.");
  }
  memcpy(&blob, info->blob.data, sizeof(blob));
  if (blob.inputs == 0 || blob.inputs > 16 || blob.outputs > 16) {
    return fail(host, error, EDGECORE_INVALID_PROGRAM, "the blob has " + std::to_string(blob.inputs) + " inputs.");
  }
  info->release_blob(info->scope);
  if ((blob.flags & kNullWeights) != 0) {
    const int32_t code = pack_weights(program, error);
    if (code != EDGECORE_OK) return code;
  }
  return make(edgecore_delegate{program, blob}, out);
}

uint64_t EDGECORE_CALL argument_count(edgecore_delegate *delegate) {
  return uint64_t{delegate->blob.inputs} + delegate->blob.outputs + ((delegate->blob.flags & kNullNumber) != 0 ? 1 : 0);
}

void EDGECORE_CALL buffer_requirement(edgecore_delegate *delegate, uint64_t, edgecore_buffer_requirement *out) {
  out->alignment = delegate->blob.alignment;
  out->tail_padding = delegate->blob.tail_padding;
  out->memory_kind = delegate->blob.memory_kind;
}

// Returns the buffer of the state set with this name; adds it if the set has none.
float *find_sum(edgecore_state_set &state_set, const char *name) {
  for (edgecore_state_set::Buffer &buffer : state_set.buffers) {
    if (strcmp(buffer.name, name) == 0) return &buffer.sum;
  }
  state_set.buffers.push_back({name, 0});
  return &state_set.buffers.back().sum;
}

int32_t EDGECORE_CALL instance_create(edgecore_delegate *delegate, const edgecore_instance_info *info,
                                      edgecore_instance **out, edgecore_error *error) {
  const uint32_t flags = delegate->blob.flags;
  float *sum = nullptr;
  if ((flags & kNullState) != 0) {
    if (info->state_set == nullptr) {
      return fail(delegate->program->driver->host, error, EDGECORE_INVALID_STATE,
                  "the delegate keeps state, and the host gave no state set.");
    }
    sum = find_sum(*info->state_set, (flags & kNullSecond) != 0 ? "second" : "sum");
  }
  return make(edgecore_instance{delegate, info->scope, sum, {}, info->flags, delegate->program->gain, 1}, out);
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
  if ((blob.flags & kNullNumber) != 0) {
    const edgecore_value &number = argument(args, arg_stride, arg_count - 1);
    if (number.tag != EDGECORE_TAG_INT) return EDGECORE_INVALID_ARGUMENT;
    instance->number = (number.flags & EDGECORE_VALUE_UNKNOWN) != 0 ? -1 : number.as.i;
  }
  for (uint64_t i = 0; i < uint64_t{blob.inputs} + blob.outputs; ++i) {
    const edgecore_value &arg = argument(args, arg_stride, i);
    if (arg.tag != EDGECORE_TAG_TENSOR || arg.as.tensor->dl.dtype.code != EDGECORE_DL_FLOAT ||
        arg.as.tensor->dl.dtype.bits != 32) {
      return fail(host, error, EDGECORE_INVALID_TYPE, "argument " + std::to_string(i) + " is no float32 tensor.");
    }
  }
  for (uint64_t i = 1; i < blob.inputs; ++i) {
    const edgecore_dl_tensor &first = argument(args, arg_stride, 0).as.tensor->dl;
    const edgecore_dl_tensor &other = argument(args, arg_stride, i).as.tensor->dl;
    if (first.ndim == 0 || first.ndim != other.ndim || first.shape[0] == other.shape[0]) continue;
    return fail(host, error, EDGECORE_INVALID_PROGRAM, "argument " + std::to_string(i) + " has another batch.");
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

// Returns the address of a tensor's elements: in device memory if the tensor is in device memory.
float *elements(const edgecore_tensor &tensor) {
  void *data = tensor.buffer == nullptr ? tensor.dl.data : tensor.buffer->memory;
  return reinterpret_cast<float *>(static_cast<char *>(data) + tensor.dl.byte_offset);
}

uint64_t element_count(const edgecore_tensor &tensor) {
  uint64_t count = 1;
  for (int32_t d = 0; d < tensor.dl.ndim; ++d) count *= static_cast<uint64_t>(tensor.dl.shape[d]);
  return count;
}

// Returns the number that the caller adds to each output element: adds the elements of `input` to the sum in the state
// set, and returns the sum; 0 without the flag kNullState.
float next_state(edgecore_instance *instance, const edgecore_tensor &input) {
  if (instance->sum == nullptr) return 0;
  for (uint64_t i = 0; i < element_count(input); ++i) *instance->sum += elements(input)[i];
  return *instance->sum;
}

int32_t compute(edgecore_instance *instance, const edgecore_value *args, uint32_t arg_stride, edgecore_str *sentence) {
  const NullBlob &blob = instance->delegate->blob;
  const float weights = (blob.flags & kNullWeights) == 0 ? 1 : instance->delegate->program->weights;
  const float factor =
      blob.factor * weights * static_cast<float>(instance->gain * static_cast<double>(instance->number));
  if ((blob.flags & kNullFails) != 0) {
    *sentence = text("the device was lost.");
    return EDGECORE_INVALID_STATE;
  }
  for (uint64_t i = 0; i < blob.outputs; ++i) {
    const edgecore_tensor &input = *argument(args, arg_stride, i % blob.inputs).as.tensor;
    const edgecore_tensor &output = *argument(args, arg_stride, blob.inputs + i).as.tensor;
    const uint64_t count = element_count(input);
    const bool on_device = input.buffer != nullptr && output.buffer != nullptr;
    if (count != 0 && on_device != (blob.memory_kind != 0)) {
      *sentence = text("an argument is in the wrong memory.");
      return EDGECORE_INVALID_ARGUMENT;
    }
    const float *from = elements(input);
    float *to = elements(output);
    if (count != 0 && reinterpret_cast<uintptr_t>(from) % blob.alignment != 0) {
      *sentence = text("an input is not aligned as required.");
      return EDGECORE_INVALID_ARGUMENT;
    }
    // Read past the end of the input as far as the blob requires readable memory, like vectorized code. A sanitizer
    // reports memory that the runtime did not provide.
    volatile char padding = 0;
    const char *tail = reinterpret_cast<const char *>(from + count);
    for (uint32_t b = 0; b < blob.tail_padding && count != 0; ++b) padding = static_cast<char>(padding ^ tail[b]);
    const float state = next_state(instance, input);
    if (std::isnan(state)) {
      *sentence = text("the sum is not a number.");
      return EDGECORE_INVALID_STATE;
    }
    const uint64_t written = (blob.flags & kNullKeepsRest) != 0 && count > 1 ? 1 : count;
    for (uint64_t j = 0; j < written; ++j) to[j] = from[j] * factor + state;
  }
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL execute(edgecore_instance *instance, const edgecore_execute_info *info,
                              const edgecore_value *args, uint64_t, uint32_t arg_stride, edgecore_error *error) {
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
  if ((instance->flags & EDGECORE_INSTANCE_PROFILED) != 0) host->event_add(instance->scope, {"multiply", 8}, 7, 10, 20);
  if ((instance->delegate->blob.flags & kNullPending) != 0 && info->completion != nullptr) {
    const edgecore_completion_fn completion = info->completion;
    void *const completion_arg = info->completion_arg;
    null_device::submit(instance, [=] {
      edgecore_str sentence = {};
      const int32_t code = compute(instance, args, arg_stride, &sentence);
      completion(completion_arg, code, sentence);
    });
    return EDGECORE_PENDING;
  }
  edgecore_str sentence = {};
  const int32_t code = compute(instance, args, arg_stride, &sentence);
  if (code != EDGECORE_OK) return host->fail(error, code, sentence);
  if ((instance->flags & EDGECORE_INSTANCE_VALUES) != 0) {
    const edgecore_value &output = argument(args, arg_stride, instance->delegate->blob.inputs);
    host->event_value(instance->scope, {"multiply", 8}, 7, output.as.tensor);
  }
  return code;
}

int32_t EDGECORE_CALL set_option(edgecore_instance *instance, const edgecore_option *option, edgecore_error *) {
  instance->gain = option->value.d;  // "gain" is the only option that can be set at run time
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL state_set_create(edgecore_program *program, const edgecore_state_set_info *,
                                       edgecore_state_set **out, edgecore_error *) {
  return make(edgecore_state_set{program, {}}, out);
}

uint64_t EDGECORE_CALL state_count(edgecore_state_set *state_set) { return state_set->buffers.size(); }

void EDGECORE_CALL state_describe(edgecore_state_set *state_set, uint64_t index, edgecore_state_tensor *out) {
  static const int64_t shape[] = {1};
  out->name = text(state_set->buffers[index].name);
  out->scalar_type = 6;
  out->ndim = 1;
  out->shape = shape;
  out->bytes = sizeof(float);
}

int32_t EDGECORE_CALL reset(edgecore_state_set *state_set, edgecore_error *) {
  for (edgecore_state_set::Buffer &buffer : state_set->buffers) buffer.sum = 0;
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL export_state(edgecore_state_set *state_set, uint64_t index, edgecore_memory_block out,
                                   edgecore_error *) {
  memcpy(out.data, &state_set->buffers[index].sum, sizeof(float));
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL import_state(edgecore_state_set *state_set, uint64_t index, edgecore_bytes in, edgecore_error *) {
  memcpy(&state_set->buffers[index].sum, in.data, sizeof(float));
  return EDGECORE_OK;
}

const edgecore_option_spec *options() {
  constexpr edgecore_header kHeader = {sizeof(edgecore_option_spec), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  static const edgecore_option_spec specs[] = {
      {kHeader, text("gain"), EDGECORE_OPTION_FLOAT, EDGECORE_OPTION_AT_LOAD | EDGECORE_OPTION_AT_RUN,
       text("multiplies every output")},
      {kHeader, text("name"), EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD, text("ignored")}};
  return specs;
}

}  // namespace

extern "C" const edgecore_backend *null_backend(uint32_t flags) {
  static edgecore_backend table;
  table = {};
  table.header = {sizeof(table), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  table.min_host_minor = EDGECORE_ABI_MINOR;
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
  table.instance_destroy = [](edgecore_instance *instance) {
    null_device::cancel(instance);
    end(instance);
  };
  table.prepare = prepare;
  table.execute = execute;
  table.state_set_create = state_set_create;
  table.state_set_destroy = [](edgecore_state_set *state_set) { end(state_set); };
  table.state_count = state_count;
  table.state_describe = state_describe;
  table.reset = reset;
  table.export_state = export_state;
  table.import_state = import_state;
  table.set_option = set_option;
  table.options = options();
  table.option_count = 2;
  table.option_stride = sizeof(edgecore_option_spec);
  null_device::add_members(table);
  return &table;
}

extern "C" uint64_t null_backend_live_handles() { return live_handles; }
extern "C" uint64_t null_backend_prepares() { return prepares; }
extern "C" uint64_t null_backend_packed() { return packed; }

extern "C" EDGECORE_BACKEND(null) { return null_backend(0); }
