// Runs each model on the inputs in the file NAME.in, and writes the outputs of all runs to NAME.out. NAME.in contains
// the inputs of one run after another: the elements of all inputs, in memory order. A model without inputs, or with
// empty inputs only, runs once. If a model fails, the firmware prints one sentence and continues with the next model.
#include <string.h>

#include "backends.h"
#include "board/board.h"
#include "edgecore/kernels.h"
#include "edgecore/log.h"
#include "edgecore/method.h"
#include "models.h"

using edgecore::BufferAllocator;
using edgecore::Error;
using edgecore::Method;
using edgecore::Status;

namespace {

constexpr size_t kMaxInputs = 8;
constexpr size_t kMaxDims = 8;
constexpr size_t kMaxName = 59;  // characters

// Prevents inlining, so that a function's variables occupy the stack only while the function runs.
#define NOT_INLINED __attribute__((noinline))
Error error;

// The platform functions that this board has: a console for messages, and an exit. A product adds its clock.
void EDGECORE_CALL show(uint64_t, int32_t, edgecore_str text) {
  char part[64];
  for (size_t at = 0; at < text.size; at += sizeof(part) - 1) {
    const size_t left = static_cast<size_t>(text.size) - at;
    const size_t size = left < sizeof(part) - 1 ? left : sizeof(part) - 1;
    memcpy(part, text.data + at, size);
    part[size] = 0;
    semihosting_print(part);
  }
  semihosting_print("\n");
}

void EDGECORE_CALL stop() { semihosting_exit(3); }

NOT_INLINED void register_platform() {
  edgecore_platform platform = {};
  platform.header = edgecore::header_of<edgecore_platform>();
  platform.abort = stop;
  platform.emit_log_message = show;
  (void)edgecore_register_platform(&platform);
  edgecore_set_log_level(EDGECORE_LOG_INFO);
}

struct Buffer {
  uint8_t *data;
  size_t size;
};

// Allocates memory for an input or output that the memory plan does not contain, after the memory of the method.
Status allocate(BufferAllocator &memory, uint64_t bytes, Buffer &buffer) {
  buffer.size = static_cast<size_t>(bytes);
  buffer.data = static_cast<uint8_t *>(memory.allocate(buffer.size, 16));
  if (buffer.data != nullptr) return {};
  return edgecore::fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for an input or output of ", bytes,
                        " bytes.");
}

Status not_a_tensor(const char *what, size_t index) {
  return edgecore::fail(error, EDGECORE_NOT_SUPPORTED, what, index,
                        " is not a tensor; this firmware has files of tensors only.");
}

NOT_INLINED Status bind(Method &method, BufferAllocator &memory, Buffer (&inputs)[kMaxInputs]) {
  const edgecore::MethodInfo info = method.info();
  if (info.input_count() > kMaxInputs) {
    return edgecore::fail(error, EDGECORE_NOT_SUPPORTED, "This firmware has room for ", kMaxInputs, " inputs.");
  }
  for (size_t i = 0; i < info.input_count(); ++i) {
    if (info.input(i).tag != EDGECORE_TAG_TENSOR) return not_a_tensor("Input ", i);
    const edgecore::TensorInfo tensor = info.input(i).tensor;
    if (tensor.sizes.size() > kMaxDims) {
      return edgecore::fail(error, EDGECORE_NOT_SUPPORTED, "This firmware has room for ", kMaxDims, " dims.");
    }
    inputs[i] = {static_cast<uint8_t *>(method.planned_input(i)), static_cast<size_t>(tensor.bytes)};
    if (inputs[i].data == nullptr) EDGECORE_TRY(allocate(memory, tensor.bytes, inputs[i]));
  }
  for (size_t i = 0; i < info.output_count(); ++i) {
    if (info.output(i).tag != EDGECORE_TAG_TENSOR) return not_a_tensor("Output ", i);
    if (!method.output_needs_memory(i)) continue;
    Buffer output;
    EDGECORE_TRY(allocate(memory, info.output(i).tensor.bytes, output));
    EDGECORE_TRY(method.set_output(i, output.data, output.size, error));
  }
  return {};
}

// Reads the inputs of a run. `ended` becomes true if the file has no more inputs.
NOT_INLINED Status read_inputs(Method &method, int32_t file, const Buffer (&inputs)[kMaxInputs], bool &ended) {
  bool has_read = false;  // true after an input with data: if the file ends now, it is incomplete
  for (size_t i = 0; i < method.info().input_count(); ++i) {
    const edgecore::TensorInfo tensor = method.info().input(i).tensor;
    const size_t read = inputs[i].size == 0 ? 0 : semihosting_read(file, inputs[i].data, inputs[i].size);
    ended = inputs[i].size != 0 && read == 0 && !has_read;
    if (ended) return {};
    has_read = has_read || read != 0;
    if (read != inputs[i].size) {
      return edgecore::fail(error, EDGECORE_INVALID_ARGUMENT, "The file of inputs ends within input ", i,
                            ", which has ", tensor.bytes, " bytes.");
    }
    int64_t shape[kMaxDims];
    for (size_t dim = 0; dim < tensor.sizes.size(); ++dim) shape[dim] = tensor.sizes[dim];
    edgecore::TensorArgument argument;
    argument.data = inputs[i].data;
    argument.scalar_type = tensor.scalar_type;
    argument.shape = {shape, tensor.sizes.size()};
    EDGECORE_TRY(method.set_input(i, argument, error));
  }
  return {};
}

NOT_INLINED Status write_outputs(const Method &method, int32_t file) {
  for (size_t i = 0; i < method.info().output_count(); ++i) {
    const edgecore_tensor &result = *method.output(i).as.tensor;
    const auto *data = static_cast<const uint8_t *>(result.dl.data) + result.dl.byte_offset;
    size_t bytes = result.dl.dtype.bits / 8u;
    for (int32_t dim = 0; dim < result.dl.ndim; ++dim) bytes *= static_cast<size_t>(result.dl.shape[dim]);
    if (semihosting_write(file, data, bytes) != bytes) {
      return edgecore::fail(error, EDGECORE_ACCESS_FAILED, "The file of outputs cannot be written.");
    }
  }
  return {};
}

// Opens NAME.in or NAME.out.
NOT_INLINED Status open(const char *name, const char *ending, int32_t &file) {
  char path[kMaxName + 5] = "";
  if (strlen(name) > kMaxName) {
    return edgecore::fail(error, EDGECORE_NOT_SUPPORTED, "Its name has more than ", kMaxName,
                          " characters, so this firmware cannot open its files.");
  }
  strcat(path, name);
  strcat(path, ending);
  file = strcmp(ending, ".in") == 0 ? semihosting_open_to_read(path) : semihosting_open_to_write(path);
  return file >= 0 ? Status() : edgecore::fail(error, EDGECORE_ACCESS_FAILED, "The file ", path, " cannot be opened.");
}

NOT_INLINED Status run_all(Method &method, const char *name, const Buffer (&inputs)[kMaxInputs], size_t &runs) {
  bool has_inputs = false;
  for (size_t i = 0; i < method.info().input_count(); ++i) has_inputs = has_inputs || inputs[i].size != 0;
  int32_t in = -1;
  int32_t out = -1;
  if (has_inputs) EDGECORE_TRY(open(name, ".in", in));
  Status status = open(name, ".out", out);
  bool ended = false;
  while (status.ok() && !ended) {
    status = read_inputs(method, in, inputs, ended);  // also sets empty inputs, which are not in the file
    if (!status.ok() || ended) break;
    status = method.execute(error);
    if (status.ok()) status = write_outputs(method, out);
    if (status.ok()) ++runs;
    ended = !has_inputs;
  }
  if (in >= 0) semihosting_close(in);
  if (out >= 0) semihosting_close(out);
  return status;
}

NOT_INLINED edgecore::Result<Method *> load(edgecore::DataLoader &loader, BufferAllocator &memory,
                                            BufferAllocator &scratch) {
  edgecore::ProgramConfig program_config;
  program_config.allocator = &memory;
  program_config.tables_in_place = true;  // the model is in flash
  const auto program = edgecore::Program::load(loader, program_config, error);
  EDGECORE_TRY(program.status());
  const edgecore_kernel_library *const libraries[] = {edgecore_kernels_library()};
  edgecore::MethodConfig config;
  config.allocator = &memory;
  config.scratch = &scratch;
  config.kernels = libraries;
  EDGECORE_TRY(open_backends(**program, config.backends, error));
  return Method::load(**program, "forward", config, error);
}

NOT_INLINED void report(const model &model, size_t runs, const Method &method, size_t of_method,
                        const BufferAllocator &memory, const BufferAllocator &scratch) {
  EDGECORE_LOG(EDGECORE_LOG_INFO, model.name, ": ", runs, " runs; bytes of memory: tensors ", method.planned_bytes(),
               ", delegates ", method.delegate_bytes(), ", program and method ",
               of_method - method.planned_bytes() - method.delegate_bytes(), ", inputs and outputs ",
               memory.used() - of_method, ", scratch ", scratch.peak(), ", stack ", board_stack_bytes(), ", variables ",
               board_variable_bytes(), ".");
}

NOT_INLINED Status run(const model &model) {
  board_memory all = board_free_memory();
#ifdef MEMORY
  if (all.size > MEMORY) all.size = MEMORY;
#endif
  const size_t size = all.size / 4 * 3;  // the last quarter is for temporary data of one operator at a time
  BufferAllocator memory({all.data, size});
  BufferAllocator scratch({all.data + size, all.size - size});
  edgecore::BufferDataLoader loader(edgecore::Bytes(model.pte, model.size));
  const auto loaded = load(loader, memory, scratch);
  EDGECORE_TRY(loaded.status());
  Method &method = **loaded;
  const size_t of_method = memory.used();
  Buffer inputs[kMaxInputs];
  size_t runs = 0;
  Status status = bind(method, memory, inputs);
  if (status.ok()) status = run_all(method, model.name, inputs, runs);
  if (status.ok()) report(model, runs, method, of_method, memory, scratch);
  method.destroy();
  return status;
}

NOT_INLINED void say_what_failed(const model &model) {
  EDGECORE_LOG(EDGECORE_LOG_ERROR, model.name, ": ", error.sentence());
}

}  // namespace

int main() {
  register_platform();
  int failed = 0;
  for (size_t i = 0; i < model_count; ++i) {
    const Status status = run(models[i]);
    close_backends();
    if (status.ok()) continue;
    say_what_failed(models[i]);
    failed = 1;
  }
  return failed;
}
