#include "run_program.h"

#include <string.h>

#include <vector>

#include "edgecore/method.h"
#include "heap.h"
#include "null_backend.h"
#include "tally.h"

namespace edgecore {
namespace {

constexpr uint64_t kMaxBytes = 1 << 20;  // limit in bytes for each tensor, and for the total planned memory
constexpr size_t kMaxMethods = 4;

class StateReader final : public StateVisitor {
 public:
  void visit(const StateBuffer &buffer) override {
    for (size_t i = 0; i < buffer.memory.size(); ++i) sum += buffer.memory.data()[i];
  }
  volatile uint64_t sum = 0;
};

// Makes the input and output tensors of a method, each in an allocation of its own.
class Arguments {
 public:
  explicit Arguments(Method &method) : method_(method), info_(method.info()) {}

  void set_inputs(bool halve) {
    for (size_t i = 0; i < info_.input_count(); ++i) {
      const ValueInfo input = info_.input(i);
      (void)info_.find_input(input.name, error_);
      if (input.tag == EDGECORE_TAG_TENSOR && input.tensor.bytes <= kMaxBytes) {
        set_tensor(i, input.tensor, halve);
      } else if (input.tag == EDGECORE_TAG_DOUBLE) {
        (void)method_.set_input(i, 0.5, error_);
      } else if (!method_.set_input(i, int64_t{1}, error_).ok()) {
        (void)method_.set_input_none(i, error_);
      }
    }
  }

  void set_outputs() {
    for (size_t i = 0; i < info_.output_count(); ++i) {
      const TensorInfo tensor = info_.output(i).tensor;
      if (!method_.output_needs_memory(i) || tensor.bytes > kMaxBytes) continue;
      (void)method_.set_output(i, allocate(tensor.bytes), tensor.bytes, error_);
    }
  }

  // Reads all bytes of all outputs, so that the sanitizer detects outputs that exceed their memory.
  void read_outputs() const {
    for (size_t i = 0; i < info_.output_count(); ++i) {
      const edgecore_value &value = method_.output(i);
      if (value.tag != EDGECORE_TAG_TENSOR) continue;
      uint64_t bytes = value.as.tensor->dl.dtype.bits / 8u;
      for (int32_t d = 0; d < value.as.tensor->dl.ndim; ++d) {
        bytes *= static_cast<uint64_t>(value.as.tensor->dl.shape[d]);
      }
      std::vector<uint8_t> copy(static_cast<size_t>(bytes));
      if (bytes != 0) memcpy(copy.data(), value.as.tensor->dl.data, copy.size());
    }
  }

 private:
  void set_tensor(size_t index, const TensorInfo &info, bool halve) {
    std::vector<int64_t> shape(info.sizes.begin(), info.sizes.end());
    for (size_t d = 0; d < shape.size(); ++d) {
      const DimInfo dim = info_.input_dim(index, d);
      const int64_t steps = dim.multiple > 0 ? (dim.max - dim.min) / dim.multiple : 0;
      if (halve && info.shape_kind == EDGECORE_SHAPE_BOUNDED) shape[d] -= (steps - steps / 2) * dim.multiple;
    }
    TensorArgument tensor;
    tensor.data = allocate(info.bytes);
    tensor.scalar_type = info.scalar_type;
    tensor.shape = {shape.data(), shape.size()};
    tensor.writable = true;
    (void)method_.set_input(index, tensor, error_);
  }

  // Returns memory that begins with 16 64-bit integers from 0 to 3, which kernels may use as indices.
  void *allocate(uint64_t bytes) {
    memory_.emplace_back(static_cast<size_t>(bytes) + 1);
    for (size_t i = 0; i < memory_.back().size() && i < 128; i += 8)
      memory_.back()[i] = static_cast<uint8_t>(i / 8 % 4);
    return memory_.back().data();
  }

  Method &method_;
  const MethodInfo info_;
  std::vector<std::vector<uint8_t>> memory_;
  Error error_;
};

// Runs a method three times. Returns true if the first run succeeds.
bool run_method(Method &method, StateStore &state) {
  Error error;
  bool ran = false;
  Arguments arguments(method);
  arguments.set_outputs();
  StateReader reader;
  for (int run = 0; run < 3; ++run) {
    arguments.set_inputs(run == 1);
    if (method.execute(error).ok()) {
      arguments.read_outputs();
      ran = ran || run == 0;
    }
    method.visit_state(reader);
    if (run != 1) continue;
    method.reset();
    (void)state.reset(error);
  }
  return ran;
}

edgecore_driver *null_driver() {
  static const edgecore_host host = core_services();
  static edgecore_scope scope;
  static edgecore_driver *driver = nullptr;
  if (driver == nullptr) (void)null_backend(0)->driver_create(&host, &scope, &driver, nullptr);
  return driver;
}

// Opens the null backend (a test backend) for a program, and closes it in the destructor.
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

Limits fuzz_limits() {
  Limits limits;
  limits.tables = 10000;
  limits.items = 100000;
  limits.planned_bytes = kMaxBytes;
  limits.tensor_bytes = kMaxBytes;
  return limits;
}

bool run_program(DataLoader &loader, Span<const DataFile *const> data,
                 Span<const edgecore_kernel_library *const> kernels) {
  FuzzAllocator program_memory;
  Error error;
  ProgramConfig config;
  config.allocator = &program_memory;
  config.limits = fuzz_limits();
  config.data = data;
  const Result<const Program *> program = Program::load(loader, config, error);
  if (!program.ok()) return false;
  (void)(*program)->check_digests(error);
  const Opened opened(**program);
  FuzzAllocator state_memory;
  StateStore state(&state_memory);
  bool loaded = false, ran = false;
  for (size_t i = 0; i < (*program)->method_count() && i < kMaxMethods; ++i) {
    FuzzAllocator method_memory;
    FuzzAllocator scratch;
    MethodConfig method_config;
    method_config.allocator = &method_memory;
    method_config.scratch = &scratch;
    method_config.kernels = kernels;
    method_config.backends = {&opened.backend, 1};
    method_config.state = &state;
    method_config.devices = device_memory();
    method_config.instruction_limit = 200;
    const Result<Method *> method = Method::load(**program, (*program)->method(i).name(), method_config, error);
    if (!method.ok()) continue;
    loaded = true;
    if (run_method(**method, state)) ran = true;
    (*method)->destroy();
  }
  static fuzz::Tally tally;
  if (ran) tally.add();
  return loaded;
}

}  // namespace edgecore
