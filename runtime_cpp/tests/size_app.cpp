// A minimal application: loads a program and runs it once. tools/sizes.py links this application to measure how many
// bytes the runtime adds, and never runs it.
#include "edgecore/method.h"

#ifdef EDGECORE_SIZE_KERNELS
extern "C" const edgecore_kernel_library *EDGECORE_SIZE_KERNELS(void);
#endif

namespace edgecore {

extern "C" int32_t edgecore_size_app(const uint8_t *file, size_t size, uint8_t *memory, size_t memory_size,
                                     const TensorArgument *input, void *output, uint64_t output_size, Error *error) {
  BufferAllocator allocator({memory, memory_size / 2});
  BufferAllocator scratch({memory + memory_size / 2, memory_size / 2});
  ProgramConfig program_config;
  program_config.allocator = &allocator;
  BufferDataLoader loader(Bytes(file, size));
  const Result<const Program *> program = Program::load(loader, program_config, *error);
  if (!program.ok()) return program.status().code();
  MethodConfig config;
  config.allocator = &allocator;
  config.scratch = &scratch;
#ifdef EDGECORE_SIZE_KERNELS
  const edgecore_kernel_library *const libraries[] = {EDGECORE_SIZE_KERNELS()};
  config.kernels = libraries;
#endif
  const Result<Method *> loaded = Method::load(**program, "forward", config, *error);
  if (!loaded.ok()) return loaded.status().code();
  Method &method = **loaded;
  Status status = method.set_input(0, *input, *error);
  if (status.ok()) status = method.set_output(0, output, output_size, *error);
  if (status.ok()) status = method.execute(*error);
  const int32_t code = status.ok() ? static_cast<int32_t>(method.output(0).tag) : status.code();
  method.destroy();
  return code;
}

}  // namespace edgecore
