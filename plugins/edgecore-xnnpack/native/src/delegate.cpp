// The XNNPACK backend for edgecore's runtime, built on the C++ interface edgecore/backend.hpp.
//
// The class Driver initializes XNNPACK for the process, Program holds the load options of a .pte file, Delegate holds a
// checked graph, and Instance holds an XNNPACK runtime with its workspace and threads. All instances of the process
// share packed weights.
#include <xnnpack.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "blob.h"
#include "build.h"
#include "check.h"
#include "convolution_forms.h"
#include "edgecore/backend.hpp"
#include "exposed.h"
#include "hardware.h"
#include "memory.h"
#include "nodes.h"
#include "options.h"
#include "padding.h"
#include "profile.h"
#include "scalar_types.h"
#include "threadpool.h"
#include "tile_trial.h"
#include "trial/families.h"
#include "watch.h"

#ifndef EDGECORE_XNNPACK_VERSION
#define EDGECORE_XNNPACK_VERSION "0"
#endif

namespace edgecore::xnnpack {

namespace {

using backend::Arguments;
using backend::fail;
using backend::Failure;
using backend::Host;
using backend::Memory;

constexpr uint64_t kAlignment = 16;
// XNNPACK gets this placeholder as the address of the first argument until the real address is known. No 64-bit process
// has memory at this address: x86 processors refuse it as non-canonical, and on Arm it belongs to the kernel, even if
// the processor ignores the top byte (the tag).
constexpr uintptr_t kPlaceholders = sizeof(uintptr_t) == 8 ? static_cast<uintptr_t>(0x0180'0000'0000'0000) : kAlignment;

// Initializes XNNPACK once in the process. If the first call fails, it and every later call throw the same Failure.
void initialize() {
  static const std::optional<Failure> failure = []() -> std::optional<Failure> {
    try {
      const char *hardware = secure_getenv("EDGECORE_XNNPACK_HARDWARE");
      if (hardware != nullptr) restrict_hardware(hardware);
      if (xnn_initialize(allocator()) == xnn_status_success) return std::nullopt;
      return Failure{EDGECORE_NOT_SUPPORTED, "XNNPACK has no kernels for this processor"};
    } catch (const Failure &caught) {
      return caught;
    }
  }();
  if (failure) throw *failure;
}

bool type_fits(const Value &value, int32_t scalar) {
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
    case Type::kInt64:
      return scalar == kLong;
    default:
      return false;
  }
}

// Returns the call's argument for `value`, an input or output of the graph. Throws if its dtype or rank differs from
// the graph's, or if its dim order (outermost to innermost in memory) is not a permutation of the dims.
edgecore_tensor &checked_tensor(const Arguments &args, const Value &value) {
  edgecore_tensor &tensor = args.tensor(value.argument);
  if (!type_fits(value, tensor.scalar_type)) {
    fail(EDGECORE_INVALID_TYPE, "argument %u has scalar type %d where the graph has %s", value.argument,
         tensor.scalar_type, type_name(value.type));
  }
  // Accept a tensor without dims where the graph has the shape [1]: ExecuTorch's compiler declares it as [1].
  if (tensor.dl.ndim == 0 && value.shape.rank == 1 && element_count(value.shape) == 1) return tensor;
  if (static_cast<uint32_t>(tensor.dl.ndim) != value.shape.rank) {
    fail(EDGECORE_INVALID_ARGUMENT, "argument %u has %d dims instead of %u", value.argument, tensor.dl.ndim,
         value.shape.rank);
  }
  uint32_t seen = 0;
  for (uint32_t i = 0; i < value.shape.rank; ++i) {
    if (tensor.dim_order[i] >= value.shape.rank) break;
    seen |= 1u << tensor.dim_order[i];
  }
  if (seen != (1u << value.shape.rank) - 1) {
    fail(EDGECORE_INVALID_ARGUMENT, "argument %u has no valid dim order", value.argument);
  }
  return tensor;
}

// Widens `count` 32-bit indices that XNNPACK wrote at `data` to 64 bits, in place. Works from back to front, so that no
// index is overwritten before it is read.
void widen_indices(void *data, uint64_t count) {
  auto *bytes = static_cast<char *>(data);
  for (uint64_t i = count; i-- > 0;) {
    int32_t narrow;
    std::memcpy(&narrow, bytes + i * sizeof(int32_t), sizeof(narrow));
    const int64_t wide = narrow;
    std::memcpy(bytes + i * sizeof(int64_t), &wide, sizeof(wide));
  }
}

struct Driver {
  explicit Driver(const Host &) { initialize(); }
  static void probe(const Host &) { initialize(); }
};

struct Program {
  Program(Driver &, const Host &, const backend::Options &load_options)
      : options(read_options(load_options)),
        weights(find_store(options.weight_cache ? options.weight_cache_folder : std::string())) {
    if (options.workspace_sharing == Sharing::kPerModel) workspace = Workspace::create();
    if (options.workspace_sharing == Sharing::kGlobal) workspace = Workspace::of_process();
  }

  const LoadOptions options;
  Store *const weights;
  // XNNPACK's memory for intermediate values, shared by all delegates; null if each runtime has its own.
  std::shared_ptr<Workspace> workspace;
};

struct Delegate {
  Delegate(Program &owner, const Host &host, const edgecore_delegate_info &info)
      : program(owner), graph(read_blob(info.blob, host)), tile(owner.options.tile) {
    check_graph(&graph);
    if (tile.rows == 0 && tile.columns == 0) {
      std::string report;
      tile = tried_tile(graph, program.weights, &report);
      if (!report.empty()) host.log(EDGECORE_LOG_INFO, report);
    }
    const ForcedTile forced(tile);
    for (const std::string &line : choose_winograd(program.options.winograd, program.options.winograd_memory, &graph)) {
      host.log(EDGECORE_LOG_INFO, line);
    }
  }

  uint64_t argument_count() const noexcept { return graph.externals.size(); }

  void buffer_requirement(uint64_t index, edgecore_buffer_requirement &out) const noexcept {
    const uint32_t value = index < graph.externals.size() ? graph.externals[static_cast<size_t>(index)] : kNone;
    const bool reads_past_end = value != kNone && kernels_read_past_end(graph, value);
    out.alignment = kAlignment;
    out.tail_padding = reads_past_end ? XNN_EXTRA_BYTES : 0;
    out.granule = 1;
    out.memory_kind = 0;
  }

  const Program &program;
  Graph graph;
  Tile tile;  // output rows x columns that a kernel of fp32 layers computes at a time; {}: XNNPACK chooses
};

class Instance {
 public:
  Instance(Delegate &delegate, const Host &host, const edgecore_instance_info &info)
      : graph_(delegate.graph),
        host_(host),
        pool_{host},
        runtime_{Weights(delegate.program.weights), delegate.program.options.weight_cache, delegate.program.workspace,
                 delegate.tile},
        watches_((info.flags & EDGECORE_INSTANCE_VALUES) != 0),
        exposed_(exposed_values(graph_, watches_ ? watched_values(graph_) : std::vector<uint32_t>())),
        memory_(graph_, exposed_, add_states(graph_, info), watches_) {
    const bool is_profiled = (info.flags & EDGECORE_INSTANCE_PROFILED) != 0;
    build_runtime(graph_, exposed_, &pool_, is_profiled ? XNN_FLAG_BASIC_PROFILING : 0, &runtime_);
    if (is_profiled) profile_.emplace(graph_, runtime_);
    Store *store = delegate.program.weights;
    if (runtime_.weights.saved()) prune(store, delegate.program.options.weight_cache_limit);
    const std::string problem = take_problem(store);
    if (!problem.empty()) host.log(EDGECORE_LOG_WARNING, problem);
    for (uint32_t value : graph_.externals) {
      if (value != kNone && is_in_xnnpack(graph_.values[value])) {
        externals_.push_back({graph_.values[value].argument, nullptr});
      }
    }
    for (size_t i = 0; i < exposed_.size(); ++i) {
      externals_.push_back({static_cast<uint32_t>(graph_.externals.size() + i), nullptr});
    }
    data_.resize(graph_.values.size());
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = const_cast<void *>(runtime_.constant_data[i]);
  }

  std::vector<edgecore_memory_need> prepare(const Arguments &args) {
    if (prepared_ && has_same_inputs(args)) {
      resize_outputs(args, shapes_);
      return {};
    }
    std::vector<Shape> shapes = input_shapes(args);
    infer_shapes(graph_, shapes.data());
    check_sums(graph_, runtime_.sums, shapes.data());
    resize_outputs(args, shapes);
    if (!prepared_ || shapes != shapes_) {
      prepared_ = false;
      shapes_ = std::move(shapes);
      memory_.allocate(shapes_, runtime_.sums, runtime_.tables);
      allocate_scratch();
      const std::unique_lock<std::mutex> lock = lock_workspace(runtime_.workspace);
      plan();
      prepared_ = true;
    }
    return {};  // edgecore need not plan memory for this delegate, because XNNPACK allocates its workspace itself
  }

  void execute(const Arguments &args, const Memory &) {
    if (!prepared_ || args.size() != graph_.externals.size()) {
      fail(EDGECORE_INVALID_STATE, "execute without a successful prepare before");
    }
    if (profile_) profile_->start();
    const std::shared_ptr<Workspace> &shared = runtime_.workspace;
    const std::unique_lock<std::mutex> lock = lock_workspace(shared);
    if (shared != nullptr && failures_ != shared->failures) plan();
    xnn_status status = set_pointers(args);
    if (profile_) profile_->start_operators();
    if (status == xnn_status_success) status = run_steps();
    if (status != xnn_status_success) {
      // Forget the addresses of all arguments, so that the next run passes them to XNNPACK again.
      for (xnn_external_value &external : externals_) external.data = nullptr;
      fail(EDGECORE_INTERNAL, "XNNPACK failed: %s", status_name(status));
    }
    if (profile_) profile_->report(runtime_.handle, host_);
    if (watches_) report_values();
    for (const xnn_external_value &external : externals_) {
      const uint32_t index = value_of(external);
      if (graph_.values[index].type == Type::kInt32 && graph_.values[index].role == Role::kOutput &&
          args.tensor(external.id).scalar_type == kLong) {
        widen_indices(external.data, element_count(shapes_[index]));
      }
    }
  }

 private:
  // Returns the shape of an input tensor in this call, in memory order: the outermost dim first, as XNNPACK expects.
  static Shape input_shape(const Arguments &args, const Value &value) {
    Shape shape = value.shape;
    const edgecore_tensor &tensor = checked_tensor(args, value);
    for (int32_t d = 0; d < tensor.dl.ndim; ++d) {
      shape[static_cast<uint32_t>(d)] = static_cast<uint64_t>(tensor.dl.shape[tensor.dim_order[d]]);
    }
    return shape;
  }

  // Returns true if the inputs have the shapes of the last successful prepare().
  bool has_same_inputs(const Arguments &args) const {
    for (uint32_t index : graph_.externals) {
      if (index == kNone || graph_.values[index].role != Role::kInput) continue;
      if (!(input_shape(args, graph_.values[index]) == shapes_[index])) return false;
    }
    return true;
  }

  // Returns a shape for each value of the graph. This call's arguments give the shapes of inputs, and the blob gives
  // the shapes of other values.
  std::vector<Shape> input_shapes(const Arguments &args) const {
    std::vector<Shape> shapes(graph_.values.size());
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const Value &value = graph_.values[i];
      shapes[i] = value.shape;
      if (value.role != Role::kInput) continue;
      shapes[i] = input_shape(args, value);
      if (in_limits(shapes[i])) continue;
      fail(EDGECORE_NOT_SUPPORTED, "argument %u: a tensor of %s is empty or too large", value.argument,
           shape_text(shapes[i]));
    }
    return shapes;
  }

  // Asks the host to resize each output tensor. Does so even for outputs whose shape does not change, because the
  // host's resize function also refuses read-only outputs.
  void resize_outputs(const Arguments &args, const std::vector<Shape> &shapes) const {
    for (uint32_t index : graph_.externals) {
      if (index == kNone || graph_.values[index].role != Role::kOutput) continue;
      const edgecore_tensor &tensor = checked_tensor(args, graph_.values[index]);
      int64_t shape[kMaxRank] = {};
      for (int32_t d = 0; d < tensor.dl.ndim; ++d) {
        shape[tensor.dim_order[d]] = static_cast<int64_t>(shapes[index][static_cast<uint32_t>(d)]);
      }
      args.resize(graph_.values[index].argument, shape, tensor.dl.ndim);
    }
  }

  // Makes XNNPACK plan its workspace for the shapes of the last prepare(). The caller holds the workspace's lock.
  // execute() sets the addresses of arguments later.
  void plan() {
    Workspace *shared = runtime_.workspace.get();
    uintptr_t placeholder = kPlaceholders;
    for (xnn_external_value &external : externals_) {
      const uint32_t index = value_of(external);
      const Shape &shape = shapes_[index];
      xnn_reshape_external_value(runtime_.handle, external.id, shape.rank, xnn_dims(shape).data());
      // Pass placeholder addresses, because XNNPACK needs addresses now. Like real arguments, placeholders must not
      // overlap: XNNPACK drops a copy whose source and target seem to have the same address.
      external.data = reinterpret_cast<void *>(placeholder);
      const uint64_t bytes = (element_count(shape) * type_bits(graph_.values[index].type) + 7) / 8;
      placeholder += static_cast<uintptr_t>((bytes / kAlignment + 2) * kAlignment);
    }
    // Call xnn_setup_runtime, which plans the workspace in each call. xnn_reshape_runtime would plan only if a tensor
    // exceeds its own previous maximum, and then only for the current sizes of the other tensors: if these grew back to
    // their maximum, the workspace would be too small.
    clear_allocation_failure();
    const xnn_status status = xnn_setup_runtime(runtime_.handle, externals_.size(), externals_.data());
    const bool no_memory = status == xnn_status_out_of_memory || allocation_failed();
    const bool failed = no_memory || status != xnn_status_success;
    if (shared != nullptr && failed) ++shared->failures;
    if (shared != nullptr && !failed) failures_ = shared->failures;
    if (no_memory) fail(EDGECORE_MEMORY_ALLOCATION_FAILED, "no memory for XNNPACK's workspace");
    if (failed) fail(EDGECORE_NOT_SUPPORTED, "XNNPACK refused the shapes: %s", status_name(status));
  }

  // Maps an external value of XNNPACK to the index of the same value in Graph::values.
  uint32_t value_of(const xnn_external_value &external) const {
    const size_t arguments = graph_.externals.size();
    return external.id < arguments ? graph_.externals[external.id] : exposed_[external.id - arguments];
  }

  // Allocates scratch memory for the nodes that the delegate computes itself, for the shapes of the last prepare().
  void allocate_scratch() {
    uint64_t bytes = 0;
    for (const Node &node : graph_.nodes) {
      if (is_own(node) && node.kind->scratch_bytes != nullptr) {
        bytes = std::max(bytes, node.kind->scratch_bytes(node, shapes_.data(), host_.worker_count()));
      }
    }
    scratch_memory_.clear();
    scratch_ = bytes == 0 ? nullptr : allocate_copy(bytes, &scratch_memory_);
  }

  // Runs the nodes in graph order, alternating between XNNPACK's nodes and nodes that the delegate computes itself.
  xnn_status run_steps() {
    for (const Step &step : runtime_.steps) {
      const xnn_status status = run_nodes(runtime_, step.first, step.last);
      if (status != xnn_status_success) return status;
      if (step.own == nullptr) continue;
      const uint64_t begin = profile_ ? profile_->now() : 0;
      step.own->kind->run(graph_, *step.own, shapes_.data(), data_.data(), host_, scratch_);
      if (profile_) profile_->add_own(*step.own, begin, profile_->now());
    }
    return xnn_status_success;
  }

  // Passes the outputs of all nodes, in graph order, to the host for debugging.
  void report_values() const {
    for (const Node &node : graph_.nodes) {
      for (uint32_t index : node.out) {
        if (index == kNone || data_[index] == nullptr) continue;
        report_value(host_, node, graph_.values[index], shapes_[index], data_[index]);
      }
    }
  }

  // Collects the addresses of arguments and exposed values, and passes them to XNNPACK if any address changed since the
  // last run.
  xnn_status set_pointers(const Arguments &args) {
    for (uint32_t index : graph_.externals) {
      if (index == kNone) continue;
      const uint32_t argument = graph_.values[index].argument;
      data_[index] = args.data<void>(argument);
      if (data_[index] == nullptr) fail(EDGECORE_INVALID_ARGUMENT, "argument %u has no memory", argument);
    }
    for (size_t i = 0; i < exposed_.size(); ++i) data_[exposed_[i]] = memory_[i];
    bool moved = false;
    for (xnn_external_value &external : externals_) {
      moved = moved || external.data != data_[value_of(external)];
      external.data = data_[value_of(external)];
    }
    return moved ? xnn_setup_runtime_v2(runtime_.handle, externals_.size(), externals_.data()) : xnn_status_success;
  }

  const Graph &graph_;
  Host host_;
  pthreadpool pool_;  // the threads of runtime_
  Runtime runtime_;
  bool prepared_ = false;
  uint64_t failures_ = 0;                      // the workspace's count of failed plans at the last successful plan()
  std::vector<Shape> shapes_;                  // the shape of every value in the last prepare()
  std::vector<xnn_external_value> externals_;  // ids and addresses of external values, as last passed to XNNPACK
  std::optional<Profile> profile_;             // times of operators; set if the host profiles this instance
  const bool watches_;                         // true if the host wants the values of all nodes
  const Exposed exposed_;
  ExposedMemory memory_;
  std::vector<void *> data_;  // for each value: its address, or null if it is in XNNPACK's workspace
  Copies scratch_memory_;
  uint8_t *scratch_ = nullptr;
};

// Tests every kind of kernel that XNNPACK selects on this processor (src/trial), which takes a second. Writes a line
// "NAME\tRESULT\tDETAIL\n" for each kind, where RESULT is "right", "wrong" or "none" (no such kernels for this
// processor). Stores at most `size` bytes of these lines in `text`, and returns the size of all lines.
uint64_t try_kernels(char *text, uint64_t size) noexcept {
  std::string lines;
  try {
    initialize();
    lines = trial::run_all(trial::Extent::kShort);
  } catch (const Failure &failure) {
    lines = "XNNPACK\twrong\t" + failure.text + "\n";
  }
  if (size != 0) std::memcpy(text, lines.data(), static_cast<size_t>(std::min<uint64_t>(size, lines.size())));
  return lines.size();
}

// Tells how this processor would compute convolutions with the default options, directly or by Winograd's algorithm.
// The first line sums up all convolutions; a line for each follows. `sizes` is a flat array with the fields of `count`
// ConvolutionSizes. Stores at most `size` bytes of the lines in `text`, and returns the size of all lines.
uint64_t describe_forms(const uint64_t *sizes, uint64_t count, char *text, uint64_t size) noexcept {
  std::string lines;
  try {
    initialize();
    std::vector<ConvolutionSize> layers(static_cast<size_t>(count));
    std::memcpy(layers.data(), sizes, layers.size() * sizeof(ConvolutionSize));
    const LoadOptions options;
    const std::vector<ConvolutionForm> forms = choose_forms(layers, options.winograd, options.winograd_memory);
    lines = summary_of(forms, options.winograd_memory) + "\n";
    for (const ConvolutionForm &form : forms) lines += form_text(form) + "\n";
  } catch (const Failure &failure) {
    lines = failure.text + "\n";
  }
  if (size != 0) std::memcpy(text, lines.data(), static_cast<size_t>(std::min<uint64_t>(size, lines.size())));
  return lines.size();
}

// The object that this library exports. edgecore's runtime reads only `table`, the backend's functions. The Python
// module library.py calls the functions that follow, and relies on their order.
struct Exported {
  edgecore_backend table;
  uint64_t (*try_kernels)(char *text, uint64_t size);
  uint64_t (*describe_forms)(const uint64_t *sizes, uint64_t count, char *text, uint64_t size);
};

}  // namespace
}  // namespace edgecore::xnnpack

extern "C" EDGECORE_BACKEND(xnnpack) {
  using namespace edgecore::xnnpack;
  static const Exported exported = [] {
    edgecore_backend table =
        edgecore::backend::make_table<Driver, Program, Delegate, Instance, edgecore::backend::HostState>(
            {"XnnpackBackend", "edgecore-xnnpack", EDGECORE_XNNPACK_VERSION,
             EDGECORE_HOST_THREADS | EDGECORE_VALIDATES_BLOBS | EDGECORE_OWN_HEAP});
    table.options = kOptions;
    table.option_count = kOptionCount;
    table.option_stride = sizeof(edgecore_option_spec);
    return Exported{table, try_kernels, describe_forms};
  }();
  return &exported.table;
}
