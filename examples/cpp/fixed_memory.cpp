// fixed_memory MODEL.pte: runs a model with the core only, which never allocates memory: program, method and scratch
// memory lie in static arrays of this application.
#include <cstdio>

#include "edgecore/kernels.h"
#include "edgecore/method.h"

using edgecore::BufferAllocator;
using edgecore::Error;
using edgecore::Method;
using edgecore::Status;

namespace {

alignas(64) uint8_t file[1 << 20];
alignas(64) uint8_t memory[1 << 20];
alignas(64) uint8_t scratch_memory[1 << 20];
alignas(64) float input[1 << 12];
alignas(64) float output[1 << 12];

Status run(size_t size, Error &error) {
  BufferAllocator allocator({memory, sizeof(memory)});
  BufferAllocator scratch({scratch_memory, sizeof(scratch_memory)});
  edgecore::ProgramConfig program_config;
  program_config.allocator = &allocator;
  edgecore::BufferDataLoader loader(edgecore::Bytes(file, size));
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
  if (info.bytes > sizeof(input)) return edgecore::fail(error, EDGECORE_OUT_OF_RESOURCES, "The input is too big.");
  for (float &value : input) value = 1;
  int64_t shape[8];
  for (size_t i = 0; i < info.sizes.size() && i < 8; ++i) shape[i] = info.sizes[i];
  edgecore::TensorArgument argument;
  argument.data = input;
  argument.scalar_type = info.scalar_type;
  argument.shape = {shape, info.sizes.size()};
  argument.readable_bytes = sizeof(input);
  EDGECORE_TRY(method.set_input(0, argument, error));
  if (method.output_needs_memory(0)) EDGECORE_TRY(method.set_output(0, output, sizeof(output), error));
  EDGECORE_TRY(method.execute(error));

  const edgecore_tensor &result = *method.output(0).as.tensor;
  int64_t count = 1;
  for (int32_t i = 0; i < result.dl.ndim; ++i) count *= result.dl.shape[i];
  const auto *values = static_cast<const float *>(result.dl.data);
  for (int64_t i = 0; i < count; ++i) std::printf("%.6g ", static_cast<double>(values[i]));
  std::printf("\n");
  method.destroy();  // destroy the method before the allocators whose memory it uses
  return {};
}

}  // namespace

int main(int argc, char **argv) {
  Error error;
  std::FILE *opened = argc == 2 ? std::fopen(argv[1], "rb") : nullptr;
  if (opened != nullptr && run(std::fread(file, 1, sizeof(file), opened), error).ok()) return 0;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(error.size), error.text);
  return 1;
}
