// The table of edgecore/backend.h over XNNPACK.
//
// driver: XNNPACK's process-wide state. program: the host's services for one file. delegate: a checked graph.
// instance: an XNNPACK runtime of its own with workspace and threads; packed weights are the process's.
#include <xnnpack.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "blob.h"
#include "build.h"
#include "check.h"
#include "edgecore/backend.h"
#include "hardware.h"
#include "memory.h"
#include "nodes.h"
#include "options.h"
#include "profile.h"
#include "threadpool.h"
#include "trial/families.h"
#include "xnnpack_generated.h"

#ifndef EDGECORE_XNNPACK_VERSION
#define EDGECORE_XNNPACK_VERSION "0"
#endif

using edgecore::xnnpack::Elements;
using edgecore::xnnpack::Failure;
using edgecore::xnnpack::Graph;
using edgecore::xnnpack::kNone;
using edgecore::xnnpack::Node;
using edgecore::xnnpack::Role;
using edgecore::xnnpack::Shape;
using edgecore::xnnpack::Type;
using edgecore::xnnpack::Value;
using edgecore::xnnpack::Weights;

struct edgecore_driver {
  const edgecore_host *host;
};

struct edgecore_program {
  edgecore_driver *driver;
  edgecore_scope *scope;
  edgecore::xnnpack::Options options = {};
  edgecore::xnnpack::Store *weights = nullptr;
  std::shared_ptr<edgecore::xnnpack::Workspace> workspace = nullptr;  // that delegates share
};

struct edgecore_delegate {
  const edgecore_host *host;
  const edgecore_program *program;
  Graph graph;
};

struct edgecore_instance {
  const edgecore_host *host;
  const Graph *graph;
  edgecore_scope *scope;
  pthreadpool pool;
  edgecore::xnnpack::Runtime runtime;
  bool prepared = false;
  uint64_t failures = 0;                           // of the workspace, at the last plan
  std::vector<Shape> shapes = {};                  // of every value, at the last prepare
  std::vector<xnn_external_value> externals = {};  // with the pointers that XNNPACK has
  edgecore_memory_need need = {};
  std::unique_ptr<edgecore::xnnpack::Profile> profile = nullptr;  // when somebody listens
};

namespace {

// Numbers of the .pte's ScalarType.
constexpr int32_t kByte = 0, kChar = 1, kInt = 3, kLong = 4, kHalf = 5, kFloat = 6, kQint8 = 12, kQuint8 = 13;

constexpr uint64_t kAlignment = 16;

edgecore_str Str(const char *text) { return {text, std::strlen(text)}; }

int32_t Fail(const edgecore_host *host, edgecore_error *error, const Failure &failure) {
  return host->fail(error, failure.code, failure.str());
}

int32_t Fail(const edgecore_host *host, edgecore_error *error, int32_t code, const char *text) {
  return host->fail(error, code, Str(text));
}

// Fills in `failure` where XNNPACK cannot be used in this process; the first call decides.
bool Initialize(Failure *failure) {
  static const Failure first = [] {
    Failure problem;
    const char *hardware = secure_getenv("EDGECORE_XNNPACK_HARDWARE");
    if (hardware != nullptr && !edgecore::xnnpack::RestrictHardware(hardware, &problem)) return problem;
    if (xnn_initialize(edgecore::xnnpack::Allocator()) != xnn_status_success) {
      problem.Set(EDGECORE_NOT_SUPPORTED, "XNNPACK has no kernels for this processor");
    }
    return problem;
  }();
  *failure = first;
  return first.code == EDGECORE_OK;
}

const edgecore_value &Argument(const edgecore_value *args, uint32_t stride, uint64_t index) {
  return *reinterpret_cast<const edgecore_value *>(reinterpret_cast<const char *>(args) + index * stride);
}

bool TypeFits(const Value &value, int32_t scalar) {
  switch (value.type) {
    case Type::kFp32:
      return scalar == kFloat;
    case Type::kFp16:
      return scalar == kHalf;
    case Type::kQint8:
      return scalar == kChar || scalar == kQint8;
    case Type::kQuint8:
      return scalar == kByte || scalar == kQuint8;
    case Type::kInt32:
      return scalar == kInt || (scalar == kLong && value.role == Role::kOutput);
    default:
      return false;
  }
}

// The tensor of an external value, its type and layout checked.
edgecore_tensor *Tensor(const Value &value, const edgecore_value &argument, Failure *failure) {
  edgecore_tensor *tensor = argument.tag == EDGECORE_TAG_TENSOR ? argument.as.tensor : nullptr;
  if (tensor == nullptr || tensor->buffer != nullptr || tensor->dl.device_type != EDGECORE_DEVICE_CPU) {
    failure->Set(EDGECORE_INVALID_ARGUMENT, "argument %u must be a tensor in host memory", value.argument);
    return nullptr;
  }
  if (!TypeFits(value, tensor->scalar_type)) {
    failure->Set(EDGECORE_INVALID_TYPE, "argument %u has scalar type %d where the graph has %s", value.argument,
                 tensor->scalar_type, edgecore::xnnpack::TypeName(value.type));
    return nullptr;
  }
  const bool is_number = tensor->dl.ndim == 0 && value.shape.rank == 1 && Elements(value.shape) == 1;
  if (is_number) return tensor;  // executorch's graphs write a tensor without dims as one of one element
  if (static_cast<uint32_t>(tensor->dl.ndim) != value.shape.rank) {
    failure->Set(EDGECORE_INVALID_ARGUMENT, "argument %u has %d dims instead of %u", value.argument, tensor->dl.ndim,
                 value.shape.rank);
    return nullptr;
  }
  uint32_t seen = 0;
  for (uint32_t i = 0; i < value.shape.rank; ++i) {
    if (tensor->dim_order[i] >= value.shape.rank) break;
    seen |= 1u << tensor->dim_order[i];
  }
  if (seen != (1u << value.shape.rank) - 1) {
    failure->Set(EDGECORE_INVALID_ARGUMENT, "argument %u has no valid dim order", value.argument);
    return nullptr;
  }
  return tensor;
}

void *Data(const edgecore_tensor &tensor) {
  return tensor.dl.data == nullptr ? nullptr : static_cast<char *>(tensor.dl.data) + tensor.dl.byte_offset;
}

// --- Driver and program ----------------------------------------------------------------------------------------------

int32_t EDGECORE_CALL Probe(const edgecore_host *host, edgecore_scope *, edgecore_error *error) {
  Failure failure;
  return Initialize(&failure) ? EDGECORE_OK : Fail(host, error, failure);
}

int32_t EDGECORE_CALL DriverCreate(const edgecore_host *host, edgecore_scope *scope, edgecore_driver **out,
                                   edgecore_error *error) {
  const int32_t code = Probe(host, scope, error);
  if (code != EDGECORE_OK) return code;
  *out = new (std::nothrow) edgecore_driver{host};
  if (*out == nullptr) return Fail(host, error, EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for a driver");
  return EDGECORE_OK;
}

void EDGECORE_CALL DriverDestroy(edgecore_driver *driver) { delete driver; }

bool OpenProgram(const edgecore_options &given, edgecore_program *program, Failure *failure) {
  using edgecore::xnnpack::Sharing;
  using edgecore::xnnpack::Workspace;
  edgecore::xnnpack::Options &options = program->options;
  if (!edgecore::xnnpack::ReadOptions(given, &options, failure)) return false;
  program->weights = edgecore::xnnpack::FindStore(options.weight_cache ? options.weight_cache_folder : std::string());
  if (options.workspace_sharing == Sharing::kDisabled) return true;
  program->workspace = options.workspace_sharing == Sharing::kGlobal ? Workspace::OfProcess() : Workspace::Make();
  if (program->workspace != nullptr) return true;
  return failure->Set(EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for a workspace");
}

int32_t EDGECORE_CALL ProgramOpen(edgecore_driver *driver, const edgecore_program_info *info, edgecore_program **out,
                                  edgecore_error *error) {
  auto *program = new (std::nothrow) edgecore_program{driver, info->scope};
  if (program == nullptr)
    return Fail(driver->host, error, EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for a program");
  Failure failure;
  if (!OpenProgram(info->options, program, &failure)) {
    delete program;
    return Fail(driver->host, error, failure);
  }
  *out = program;
  return EDGECORE_OK;
}

void EDGECORE_CALL ProgramClose(edgecore_program *program) { delete program; }

// --- Delegate --------------------------------------------------------------------------------------------------------

int32_t EDGECORE_CALL DelegateLoad(edgecore_program *program, const edgecore_delegate_info *info,
                                   edgecore_delegate **out, edgecore_error *error) {
  const edgecore_host *host = program->driver->host;
  auto *delegate = new (std::nothrow) edgecore_delegate{host, program, {}};
  if (delegate == nullptr) {
    return Fail(host, error, EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for a delegate");
  }
  Failure failure;
  if (!edgecore::xnnpack::ReadBlob(info->blob, host, info->scope, &delegate->graph, &failure) ||
      !edgecore::xnnpack::CheckGraph(&delegate->graph, &failure)) {
    delete delegate;
    return Fail(host, error, failure);
  }
  *out = delegate;
  return EDGECORE_OK;
}

void EDGECORE_CALL DelegateDestroy(edgecore_delegate *delegate) { delete delegate; }

uint64_t EDGECORE_CALL ArgumentCount(edgecore_delegate *delegate) { return delegate->graph.externals.size(); }

// Whether kernels read the bytes after an argument's last element. Each reads whole vectors of its input; and a maximum
// over more pixels than the kernels' first pass takes is finished from what that pass wrote to the output.
bool ReadsPastEnd(const Graph &graph, uint32_t value) {
  constexpr uint64_t kPixelsOfFirstPass = 9;  // first_pass_tile_size in XNNPACK's maxpool-config.c, on every processor
  if (graph.values[value].role == Role::kInput) return true;
  for (const edgecore::xnnpack::Node &node : graph.nodes) {
    if (std::find(node.in.begin(), node.in.end(), value) != node.in.end()) return true;
    // XNNPACK lets the pooling write what a node after it, that only limits its range, would have written.
    const uint64_t pixels = uint64_t{node.window.height} * node.window.width;
    if (node.kind->id == edgecore::xnnpack::wire::NodeUnion_MaxPooling2d && pixels > kPixelsOfFirstPass) return true;
  }
  return false;
}

void EDGECORE_CALL BufferRequirement(edgecore_delegate *delegate, uint64_t index, edgecore_buffer_requirement *out) {
  const std::vector<uint32_t> &externals = delegate->graph.externals;
  const bool tail =
      index < externals.size() && externals[index] != kNone && ReadsPastEnd(delegate->graph, externals[index]);
  out->alignment = kAlignment;
  out->tail_padding = tail ? XNN_EXTRA_BYTES : 0;
  out->granule = 1;
  out->memory_kind = 0;
}

// --- Instance --------------------------------------------------------------------------------------------------------

int32_t EDGECORE_CALL InstanceCreate(edgecore_delegate *delegate, const edgecore_instance_info *info,
                                     edgecore_instance **out, edgecore_error *error) {
  const edgecore_host *host = delegate->host;
  const edgecore_program &program = *delegate->program;
  auto *instance =
      new (std::nothrow) edgecore_instance{host,
                                           &delegate->graph,
                                           info->scope,
                                           {host, info->scope},
                                           {Weights(program.weights), program.options.weight_cache, program.workspace}};
  if (instance == nullptr) {
    return Fail(host, error, EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for an instance");
  }
  Failure failure;
  const bool profiled = (info->flags & EDGECORE_INSTANCE_PROFILED) != 0;
  if (!edgecore::xnnpack::BuildRuntime(delegate->graph, &instance->pool, profiled ? XNN_FLAG_BASIC_PROFILING : 0,
                                       &instance->runtime, &failure)) {
    delete instance;
    return Fail(host, error, failure);
  }
  if (profiled) {
    instance->profile = std::make_unique<edgecore::xnnpack::Profile>(delegate->graph, instance->runtime.handle);
  }
  if (instance->runtime.weights.saved()) Prune(program.weights, program.options.weight_cache_limit);
  const std::string problem = TakeProblem(program.weights);
  if (!problem.empty()) host->log(info->scope, EDGECORE_LOG_WARNING, {problem.data(), problem.size()});
  const Graph &graph = delegate->graph;
  for (uint32_t value : graph.externals) {
    if (value != kNone) instance->externals.push_back({graph.values[value].argument, nullptr});
  }
  *out = instance;
  return EDGECORE_OK;
}

void EDGECORE_CALL InstanceDestroy(edgecore_instance *instance) { delete instance; }

// The call's input shapes in dim order, and the shapes that follow from them.
bool ShapesOf(const edgecore_instance *instance, const edgecore_value *args, uint32_t stride,
              std::vector<Shape> *shapes, uint64_t *peak, Failure *failure) {
  const Graph &graph = *instance->graph;
  shapes->resize(graph.values.size());
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value &value = graph.values[i];
    Shape &shape = (*shapes)[i];
    shape = value.shape;
    if (value.role != Role::kInput) continue;
    const edgecore_tensor *tensor = Tensor(value, Argument(args, stride, value.argument), failure);
    if (tensor == nullptr) return false;
    for (int32_t d = 0; d < tensor->dl.ndim; ++d) {
      shape[static_cast<uint32_t>(d)] = static_cast<uint64_t>(tensor->dl.shape[tensor->dim_order[d]]);
    }
    if (!InLimits(shape)) {
      return failure->Set(EDGECORE_NOT_SUPPORTED, "argument %u: a tensor of %s is empty or too large", value.argument,
                          Text(shape));
    }
  }
  return InferShapes(graph, shapes->data(), peak, failure);
}

// Tells XNNPACK the shapes; it plans its workspace. The pointers come with execute.
bool Plan(edgecore_instance *instance, Failure *failure) {
  const Graph &graph = *instance->graph;
  edgecore::xnnpack::Workspace *shared = instance->runtime.workspace.get();
  for (xnn_external_value &external : instance->externals) {
    const Shape &shape = instance->shapes[graph.externals[external.id]];
    xnn_reshape_external_value(instance->runtime.handle, external.id, shape.rank, edgecore::xnnpack::Sizes(shape));
    // A place of its own: XNNPACK drops a copy, for good, whose source is its destination when it is set up.
    external.data = &external;
  }
  // xnn_setup_runtime plans the workspace anew each time. xnn_reshape_runtime does so only when some tensor grew past
  // its own greatest size, with the sizes of the moment for all others, which may have been greater before.
  edgecore::xnnpack::ClearAllocationFailure();
  const xnn_status status =
      xnn_setup_runtime(instance->runtime.handle, instance->externals.size(), instance->externals.data());
  const bool no_memory = status == xnn_status_out_of_memory || edgecore::xnnpack::AllocationFailed();
  const bool failed = no_memory || status != xnn_status_success;
  if (shared != nullptr && failed) ++shared->failures;
  if (shared != nullptr && !failed) instance->failures = shared->failures;
  if (no_memory) {
    return failure->Set(EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for XNNPACK's workspace");
  }
  if (status != xnn_status_success) {
    return failure->Set(EDGECORE_NOT_SUPPORTED, "XNNPACK refused the shapes: %s",
                        edgecore::xnnpack::StatusName(status));
  }
  return true;
}

int32_t ResizeOutputs(const edgecore_instance *instance, const std::vector<Shape> &shapes, const edgecore_value *args,
                      uint32_t stride, edgecore_error *error) {
  const Graph &graph = *instance->graph;
  for (uint32_t index : graph.externals) {
    if (index == kNone || graph.values[index].role != Role::kOutput) continue;
    Failure failure;
    edgecore_tensor *tensor =
        Tensor(graph.values[index], Argument(args, stride, graph.values[index].argument), &failure);
    if (tensor == nullptr) return Fail(instance->host, error, failure);
    int64_t shape[edgecore::xnnpack::kMaxRank] = {};
    for (int32_t d = 0; d < tensor->dl.ndim; ++d) {
      shape[tensor->dim_order[d]] = static_cast<int64_t>(shapes[index][static_cast<uint32_t>(d)]);
    }
    // With the same shape too: the host refuses what may not be written.
    const int32_t code = instance->host->resize(instance->scope, tensor, shape, tensor->dl.ndim, error);
    if (code != EDGECORE_OK) return code;
  }
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL Prepare(edgecore_instance *instance, const edgecore_value *args, uint64_t arg_count,
                              uint32_t arg_stride, edgecore_prepared *out, edgecore_error *error) {
  Failure failure;
  if (arg_count != instance->graph->externals.size()) {
    failure.Set(EDGECORE_INVALID_ARGUMENT, "%llu arguments instead of %zu", static_cast<unsigned long long>(arg_count),
                instance->graph->externals.size());
    return Fail(instance->host, error, failure);
  }
  std::vector<Shape> shapes;
  uint64_t peak = 0;
  if (!ShapesOf(instance, args, arg_stride, &shapes, &peak, &failure)) return Fail(instance->host, error, failure);
  const int32_t code = ResizeOutputs(instance, shapes, args, arg_stride, error);
  if (code != EDGECORE_OK) return code;

  if (!instance->prepared || shapes != instance->shapes) {
    instance->prepared = false;
    instance->shapes = shapes;
    const std::unique_lock<std::mutex> turn = TakeTurn(instance->runtime.workspace);
    if (!Plan(instance, &failure)) return Fail(instance->host, error, failure);
    instance->prepared = true;
    // The library allocates for itself; this is an estimate of its workspace.
    instance->need = {{sizeof(edgecore_memory_need), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},
                      EDGECORE_MEMORY_PERSISTENT,
                      0,
                      peak,
                      kAlignment,
                      {nullptr, 0}};
  }
  out->needs = &instance->need;
  out->need_count = 1;
  out->need_stride = sizeof(instance->need);
  return EDGECORE_OK;
}

// XNNPACK writes 32-bit indices; a Long output is widened in place, back to front.
void Widen(void *data, uint64_t count) {
  auto *bytes = static_cast<char *>(data);
  for (uint64_t i = count; i-- > 0;) {
    int32_t narrow;
    std::memcpy(&narrow, bytes + i * sizeof(int32_t), sizeof(narrow));
    const int64_t wide = narrow;
    std::memcpy(bytes + i * sizeof(int64_t), &wide, sizeof(wide));
  }
}

int32_t EDGECORE_CALL Execute(edgecore_instance *instance, const edgecore_execute_info *, const edgecore_value *args,
                              uint64_t arg_count, uint32_t arg_stride, edgecore_error *error) {
  const Graph &graph = *instance->graph;
  if (!instance->prepared || arg_count != graph.externals.size()) {
    return Fail(instance->host, error, EDGECORE_INVALID_STATE, "execute without a successful prepare before");
  }
  if (instance->profile != nullptr) instance->profile->Start();
  const std::shared_ptr<edgecore::xnnpack::Workspace> &shared = instance->runtime.workspace;
  const std::unique_lock<std::mutex> turn = TakeTurn(shared);
  if (shared != nullptr && instance->failures != shared->failures) {
    Failure failure;
    if (!Plan(instance, &failure)) return Fail(instance->host, error, failure);
  }
  bool moved = false;
  for (xnn_external_value &external : instance->externals) {
    const edgecore_value &argument = Argument(args, arg_stride, external.id);
    void *data = argument.tag == EDGECORE_TAG_TENSOR ? Data(*argument.as.tensor) : nullptr;
    if (data == nullptr) {
      Failure failure;
      failure.Set(EDGECORE_INVALID_ARGUMENT, "argument %u has no memory", external.id);
      return Fail(instance->host, error, failure);
    }
    moved = moved || external.data != data;
    external.data = data;
  }
  xnn_status status = xnn_status_success;
  if (moved) {
    status = xnn_setup_runtime_v2(instance->runtime.handle, instance->externals.size(), instance->externals.data());
  }
  if (instance->profile != nullptr) instance->profile->StartOperators();
  if (status == xnn_status_success) status = xnn_invoke_runtime(instance->runtime.handle);
  if (status != xnn_status_success) {
    for (xnn_external_value &external : instance->externals) external.data = nullptr;  // to be set up anew
    Failure failure;
    failure.Set(EDGECORE_INTERNAL, "XNNPACK failed: %s", edgecore::xnnpack::StatusName(status));
    return Fail(instance->host, error, failure);
  }
  if (instance->profile != nullptr) {
    instance->profile->Report(instance->runtime.handle, instance->host, instance->scope);
  }
  for (const xnn_external_value &external : instance->externals) {
    const uint32_t index = graph.externals[external.id];
    if (graph.values[index].type == Type::kInt32 && graph.values[index].role == Role::kOutput &&
        Argument(args, arg_stride, external.id).as.tensor->scalar_type == kLong) {
      Widen(external.data, Elements(instance->shapes[index]));
    }
  }
  return EDGECORE_OK;
}

// Tries every kind of kernel that this processor selects, in a second. Writes a line for each, "NAME\tright\tDETAIL\n"
// with "wrong" or "none" (no such kernels here) for "right", as far as `size` goes. Returns the size of the text.
uint64_t TryKernels(char *text, uint64_t size) {
  Failure failure;
  const std::string lines = Initialize(&failure)
                                ? edgecore::xnnpack::trial::Lines(edgecore::xnnpack::trial::Extent::kShort)
                                : std::string("XNNPACK\twrong\t") + failure.text + "\n";
  if (size != 0) std::memcpy(text, lines.data(), std::min<uint64_t>(size, lines.size()));
  return lines.size();
}

// What the symbol points to. The host reads the table; after it, as its size says, stands what kernels.py calls.
struct Exported {
  edgecore_backend table;
  uint64_t (*try_kernels)(char *text, uint64_t size);
};

edgecore_backend MakeTable() {
  edgecore_backend table = {};
  table.header = {sizeof(edgecore_backend), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
  table.least_host_major = EDGECORE_ABI_MAJOR;
  table.least_host_minor = EDGECORE_ABI_MINOR;
  table.flags = EDGECORE_HOST_THREADS | EDGECORE_VALIDATES_BLOBS | EDGECORE_OWN_HEAP;
#if defined(__SANITIZE_ADDRESS__)
  table.features |= EDGECORE_FEATURE_ASAN;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  table.features |= EDGECORE_FEATURE_ASAN;
#endif
#if __has_feature(thread_sanitizer)
  table.features |= EDGECORE_FEATURE_TSAN;
#endif
#endif
  table.backend_id = Str("XnnpackBackend");
  table.distribution = Str("edgecore-xnnpack");
  table.version = Str(EDGECORE_XNNPACK_VERSION);
  table.options = edgecore::xnnpack::kOptions;
  table.option_count = edgecore::xnnpack::kOptionCount;
  table.option_stride = sizeof(edgecore_option_spec);
  table.probe = Probe;
  table.driver_create = DriverCreate;
  table.driver_destroy = DriverDestroy;
  table.program_open = ProgramOpen;
  table.program_close = ProgramClose;
  table.delegate_load = DelegateLoad;
  table.delegate_destroy = DelegateDestroy;
  table.argument_count = ArgumentCount;
  table.buffer_requirement = BufferRequirement;
  table.instance_create = InstanceCreate;
  table.instance_destroy = InstanceDestroy;
  table.prepare = Prepare;
  table.execute = Execute;
  return table;
}

}  // namespace

extern "C" EDGECORE_BACKEND(xnnpack) {
  static const Exported exported = {MakeTable(), TryKernels};
  return &exported.table;
}
