// Loads any bytes as a .pte file, then loads and runs its first methods with the kernels and the backend of the tests
// (toy_kernels.h, null_backend.h).
#include <string.h>

#include <vector>

#include "edgecore/method.h"
#include "heap.h"
#include "null_backend.h"
#include "toy_kernels.h"

namespace edgecore {
namespace {

void run_method(Method &method, Error &error) {
  const MethodInfo info = method.info();
  std::vector<std::vector<uint8_t>> buffers;
  for (size_t i = 0; i < info.input_count(); ++i) {
    const ValueInfo input = info.input(i);
    (void)info.find_input(input.name, error);
    for (size_t d = 0; d < input.tensor.sizes.size(); ++d) (void)info.input_dim(i, d);
    if (input.tag == EDGECORE_TAG_TENSOR && input.tensor.bytes < (1u << 20)) {
      buffers.emplace_back(static_cast<size_t>(input.tensor.bytes) + 1);
      std::vector<int64_t> shape(input.tensor.sizes.begin(), input.tensor.sizes.end());
      TensorArgument tensor;
      tensor.data = buffers.back().data();
      tensor.scalar_type = input.tensor.scalar_type;
      tensor.shape = {shape.data(), shape.size()};
      (void)method.set_input(i, tensor, error);
    } else {
      (void)method.set_input(i, int64_t{1}, error);
    }
  }
  for (size_t i = 0; i < info.output_count(); ++i) {
    const ValueInfo output = info.output(i);
    if (!method.output_needs_memory(i) || output.tensor.bytes > (1u << 20)) continue;
    buffers.emplace_back(static_cast<size_t>(output.tensor.bytes) + 1);
    (void)method.set_output(i, buffers.back().data(), output.tensor.bytes, error);
  }
  for (int run = 0; run < 2; ++run) {
    if (!method.execute(error).ok()) return;
    for (size_t i = 0; i < info.output_count(); ++i) {
      const edgecore_value &value = method.output(i);
      if (value.tag != EDGECORE_TAG_TENSOR) continue;
      uint64_t bytes = value.as.tensor->dl.dtype.bits / 8u;
      for (int32_t d = 0; d < value.as.tensor->dl.ndim; ++d)
        bytes *= static_cast<uint64_t>(value.as.tensor->dl.shape[d]);
      std::vector<uint8_t> copy(static_cast<size_t>(bytes));
      if (bytes != 0) memcpy(copy.data(), value.as.tensor->dl.data, copy.size());
    }
  }
}

edgecore_driver *null_driver() {
  static const edgecore_host host = core_services();
  static edgecore_scope scope;
  static edgecore_driver *driver = nullptr;
  if (driver == nullptr) (void)null_backend(0)->driver_create(&host, &scope, &driver, nullptr);
  return driver;
}

// Opens the null backend for a program, and closes it at the end of the scope.
struct Opened {
  edgecore_scope scope;
  LoadedBackend backend;
  explicit Opened(const Program &program) {
    scope.program = &program;
    backend.table = null_backend(0);
    backend.driver = null_driver();
    edgecore_program_info info = {};
    info.scope = &scope;
    (void)backend.table->program_open(backend.driver, &info, &backend.program, nullptr);
  }
  ~Opened() { backend.table->program_close(backend.program); }
  Opened(const Opened &) = delete;
  Opened &operator=(const Opened &) = delete;
};

}  // namespace
}  // namespace edgecore

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace edgecore;
  const FuzzFile file(data, size);
  FuzzAllocator program_memory;
  Error error;
  ProgramConfig config;
  config.allocator = &program_memory;
  config.limits.tables = 10000;
  config.limits.items = 100000;
  config.limits.planned_bytes = 1 << 20;
  config.limits.tensor_bytes = 1 << 20;
  const Result<const Program *> program = Program::load(file.bytes(), config, error);
  if (!program.ok()) return 0;
  (void)(*program)->check_digests(error);
  const Opened opened(**program);
  const edgecore_kernel_library *libraries[] = {toy_kernels()};
  for (size_t i = 0; i < (*program)->method_count() && i < 4; ++i) {
    FuzzAllocator method_memory;
    FuzzAllocator scratch;
    MethodConfig method_config;
    method_config.allocator = &method_memory;
    method_config.scratch = &scratch;
    method_config.kernels = libraries;
    method_config.backends = {&opened.backend, 1};
    method_config.instruction_limit = 200;
    const Result<Method *> method = Method::load(**program, (*program)->method(i).name(), method_config, error);
    if (!method.ok()) continue;
    run_method(**method, error);
    (*method)->destroy();
  }
  return 0;
}
