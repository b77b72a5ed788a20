// Runs the model once. input.bin and output.bin contain the elements of its first input and output in memory order.
#include <string.h>

#include "board/semihosting.h"
#include "edgecore/kernels.h"
#include "edgecore/log.h"
#include "edgecore/method.h"
#include "model.h"

using edgecore::BufferAllocator;
using edgecore::Error;
using edgecore::Method;
using edgecore::Status;

namespace {

// All memory that the model uses: `memory` for the program and the method with its planned tensors, `scratch_memory`
// for temporary data of one kernel at a time.
alignas(64) uint8_t memory[192 * 1024];
alignas(64) uint8_t scratch_memory[128 * 1024];
alignas(64) uint8_t input[16 * 1024];
alignas(64) uint8_t output[16 * 1024];
Error error;

// What the board has of a platform: a console for messages, and an end. A product adds its clock.
void EDGECORE_CALL show(uint64_t, int32_t, edgecore_str text) {
  static char line[1024];
  const size_t size = text.size < sizeof(line) - 2 ? static_cast<size_t>(text.size) : sizeof(line) - 2;
  memcpy(line, text.data, size);
  memcpy(line + size, "\n", 2);
  semihosting_print(line);
}

void EDGECORE_CALL stop() { semihosting_exit(3); }

void register_platform() {
  edgecore_platform platform = {};
  platform.header = edgecore::header_of<edgecore_platform>();
  platform.abort = stop;
  platform.emit_log_message = show;
  (void)edgecore_register_platform(&platform);
  edgecore_set_log_level(EDGECORE_LOG_INFO);
}

Status run() {
  BufferAllocator allocator({memory, sizeof(memory)});
  BufferAllocator scratch({scratch_memory, sizeof(scratch_memory)});
  edgecore::ProgramConfig program_config;
  program_config.allocator = &allocator;
  edgecore::BufferDataLoader loader(edgecore::Bytes(model, model_size));  // in flash: nothing is copied but the tables
  const auto program = edgecore::Program::load(loader, program_config, error);
  EDGECORE_TRY(program.status());

  const edgecore_kernel_library *const libraries[] = {edgecore_kernels_library()};
  edgecore::MethodConfig config;
  config.allocator = &allocator;
  config.scratch = &scratch;
  config.kernels = libraries;
  const auto loaded = Method::load(**program, "forward", config, error);
  EDGECORE_TRY(loaded.status());
  Method &method = **loaded;

  const edgecore::TensorInfo info = method.info().input(0).tensor;
  int64_t shape[8];
  if (info.bytes > sizeof(input) || info.sizes.size() > 8 ||
      !semihosting_read("input.bin", input, static_cast<size_t>(info.bytes))) {
    return edgecore::fail(error, EDGECORE_INVALID_ARGUMENT, "input.bin with ", info.bytes, " bytes is needed.");
  }
  for (size_t i = 0; i < info.sizes.size(); ++i) shape[i] = info.sizes[i];
  edgecore::TensorArgument argument;
  argument.data = input;
  argument.scalar_type = info.scalar_type;
  argument.shape = {shape, info.sizes.size()};
  argument.readable_bytes = sizeof(input);
  EDGECORE_TRY(method.set_input(0, argument, error));
  if (method.output_needs_memory(0)) EDGECORE_TRY(method.set_output(0, output, sizeof(output), error));
  EDGECORE_TRY(method.execute(error));

  const edgecore_tensor &result = *method.output(0).as.tensor;
  const auto *data = static_cast<const uint8_t *>(result.dl.data) + result.dl.byte_offset;
  uint64_t bytes = result.dl.dtype.bits / 8u;
  for (int32_t i = 0; i < result.dl.ndim; ++i) bytes *= static_cast<uint64_t>(result.dl.shape[i]);
  if (!semihosting_write("output.bin", data, static_cast<size_t>(bytes))) {
    return edgecore::fail(error, EDGECORE_ACCESS_FAILED, "output.bin cannot be written.");
  }
  EDGECORE_LOG(EDGECORE_LOG_INFO, "memory used: ", allocator.used(), " bytes and at most ", scratch.peak(),
               " of scratch, of which tensors ", method.planned_bytes(), ".");
  method.destroy();
  return {};
}

}  // namespace

int main() {
  register_platform();
  if (run().ok()) return 0;
  EDGECORE_LOG(EDGECORE_LOG_ERROR, error.sentence());
  return 1;
}
