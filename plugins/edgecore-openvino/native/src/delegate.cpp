// The OpenVINO backend: passes the model in a delegate's blob to OpenVINO, and runs it. OpenVINO accesses the runtime's
// own buffers ("host memory") without copies.
#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "blob.h"
#include "edgecore/backend.hpp"
#include "node_times.h"
#include "openvino_api.h"

#ifndef EDGECORE_OPENVINO_VERSION
#define EDGECORE_OPENVINO_VERSION "0"
#endif

namespace edgecore::openvino {
namespace {

using edgecore::backend::Arguments;
using edgecore::backend::Event;
using edgecore::backend::fail;
using edgecore::backend::Host;
using edgecore::backend::Memory;
using edgecore::backend::Options;

// An element type: its number in OpenVINO, its DLPack code (EDGECORE_DL_*), and its size in bits.
struct ElementType {
  uint32_t number;
  uint8_t code, bits;
};
constexpr uint32_t kOpenVinoU8 = 16;
constexpr ElementType kElementTypes[] = {{1, EDGECORE_DL_BOOL, 8},   {2, EDGECORE_DL_BFLOAT, 16},
                                         {3, EDGECORE_DL_FLOAT, 16}, {4, EDGECORE_DL_FLOAT, 32},
                                         {5, EDGECORE_DL_FLOAT, 64}, {7, EDGECORE_DL_INT, 8},
                                         {8, EDGECORE_DL_INT, 16},   {9, EDGECORE_DL_INT, 32},
                                         {10, EDGECORE_DL_INT, 64},  {kOpenVinoU8, EDGECORE_DL_UINT, 8}};

// The first bytes of models that OpenVINO has compiled for the CPU. ExecuTorch's backend writes such models without a
// header.
constexpr std::string_view kCompiledForCpu = "RR_UPCVO";

using SharedCore = std::shared_ptr<ov_core>;
using Properties = std::vector<std::pair<std::string, std::string>>;

// Returns properties as OpenVINO's C interface reads them; the result points into `properties`.
std::vector<ov_property> to_ov(const Properties &properties) {
  std::vector<ov_property> result;
  for (const auto &[key, value] : properties) result.push_back({key.c_str(), value.c_str()});
  return result;
}

// Returns the number of cores that this process may use. OpenVINO gets at most this many threads.
uint32_t core_count() {
#ifdef __linux__
  cpu_set_t cores;  // std::thread::hardware_concurrency counts all cores of the machine, with glibc 2.35 and newer
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return static_cast<uint32_t>(CPU_COUNT(&cores));
#endif
  return std::max(std::thread::hardware_concurrency(), 1U);
}

// Makes an OpenVINO tensor that uses the runtime's buffer `data` without a copy; the buffer must outlive the tensor.
Tensor make_tensor(uint32_t type, const int64_t *sizes, int64_t rank, void *data, uint64_t bytes) {
  static char nothing;  // OpenVINO needs a pointer even for an empty tensor
  ov_tensor *created = nullptr;
  const ov_shape shape = {rank, const_cast<int64_t *>(sizes)};
  api().check(api().ov_tensor_create_from_host_ptr(type, shape, data == nullptr ? &nothing : data, &created),
              EDGECORE_INTERNAL, "OpenVINO cannot make a tensor over memory of the host");
  Tensor tensor(created);
  size_t tensor_bytes = 0;
  api().check(api().ov_tensor_get_byte_size(created, &tensor_bytes), EDGECORE_INTERNAL,
              "OpenVINO cannot tell the size of a tensor");
  if (tensor_bytes != bytes) {  // fail, because OpenVINO would access memory beyond the buffer
    fail(EDGECORE_INTERNAL, "OpenVINO expects %zu bytes for a tensor, but the host has %llu", tensor_bytes,
         static_cast<unsigned long long>(bytes));
  }
  return tensor;
}

// Returns OpenVINO's port (input or output) for argument `index`. Inputs come first: there are `inputs` of them.
Port port_of(const ov_compiled *compiled, size_t index, size_t inputs) {
  ov_port *port = nullptr;
  api().check(index < inputs ? api().ov_compiled_model_input_by_index(compiled, index, &port)
                             : api().ov_compiled_model_output_by_index(compiled, index - inputs, &port),
              EDGECORE_INTERNAL, "the compiled model lacks an argument");
  return Port(port);
}

bool is_auto(const std::string &device) { return device.compare(0, 4, "AUTO") == 0; }

// Checks that this machine has a device, or each device in a list such as AUTO:GPU,CPU.
void check_device(ov_core *core, const std::string &device) {
  if (device == "CPU") return;
  ov_available_devices found = {};
  api().check(api().ov_core_get_available_devices(core, &found), EDGECORE_NOT_SUPPORTED, "OpenVINO finds no devices");
  const std::vector<std::string> available(found.devices, found.devices + found.size);
  api().ov_available_devices_free(&found);
  std::string known;
  for (const std::string &name : available) known += (known.empty() ? "" : ", ") + name;
  std::string rest = device;
  if (is_auto(device)) rest.erase(0, std::min<size_t>(rest.size(), 5));  // remove "AUTO:"
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string name = rest.substr(0, end);
    rest.erase(0, end + 1);
    const bool is_available = std::any_of(available.begin(), available.end(), [&](const std::string &other) {
      return other == name || other.compare(0, name.size() + 1, name + ".") == 0;  // "GPU" matches "GPU.0", "GPU.1" ...
    });
    if (is_available) continue;
    fail(EDGECORE_NOT_SUPPORTED,
         "the device %s is not available on this machine; OpenVINO has: %s. The load option device chooses one for "
         "models with payload=\"portable\"",
         name.c_str(), known.c_str());
  }
}

// Returns the content of a blob. A blob without a header is a compiled model; Delegate later reads its arguments from
// the model.
Payload payload_of(const edgecore_delegate_info &info) {
  const edgecore_bytes blob = info.blob;
  const std::string_view bytes(reinterpret_cast<const char *>(blob.data), blob.size);
  if (bytes.substr(0, kCompiledForCpu.size()) != kCompiledForCpu) return read_blob(blob);
  Payload payload = {};
  payload.kind = Kind::kBare;
  payload.is_static = true;
  payload.device = "CPU";
  payload.model = blob;
  payload.properties = {{"INFERENCE_PRECISION_HINT", "f32"}};  // CPUs with bf16 would compute in bf16
  return payload;
}

// State that is shared by all .pte files of this process: OpenVINO's "core" objects (ov_core), which read, compile and
// import models.
struct Driver {
  explicit Driver(const Host &) {}

  // Checks the compatibility string that lowering.py writes: "openvino-ir 1" for a portable model, which every release
  // of OpenVINO reads, or "openvino-blob 1 DEVICE BUILD" for a compiled model, which only the build BUILD imports.
  int32_t check_compatibility(std::string_view text) const {
    if (text == "openvino-ir 1") return EDGECORE_COMPATIBLE;
    edgecore::backend::check_format(text, "openvino-blob 1", "edgecore-openvino");
    const std::string_view build = text.substr(text.rfind(' ') + 1);
    if (build == api().version) return EDGECORE_COMPATIBLE;
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
         "it was compiled by OpenVINO %.*s and %s is installed: compile it again, or with payload=\"portable\"",
         static_cast<int>(build.size()), build.data(), api().version.c_str());
  }

  // Returns the ov_core for a device and properties. Each combination needs its own ov_core, because an imported
  // compiled model has the properties of the ov_core. An ov_core lives as long as a delegate uses it; OpenVINO's
  // threads end with the last ov_core.
  SharedCore core(const std::string &device, const Properties &properties) {
    std::string key = device;
    for (const auto &[name, value] : properties) key += '\0' + name + '\0' + value;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::weak_ptr<ov_core> &cached = cores_[key];
    if (SharedCore core = cached.lock()) return core;
    ov_core *created = nullptr;
    api().check(api().ov_core_create(&created), EDGECORE_INTERNAL, "OpenVINO cannot create a core");
    SharedCore core(created, api().ov_core_free);
    const ov_property ends_threads = {"FORCE_TBB_TERMINATE", "YES"};
    api().check(api().ov_core_set_properties(created, "", 1, &ends_threads), EDGECORE_INTERNAL,
                "OpenVINO does not support FORCE_TBB_TERMINATE, which ends its threads");
    check_device(created, device);
    const std::vector<ov_property> list = to_ov(properties);
    if (!list.empty()) {
      // The device AUTO passes properties on to its devices only in compile_model. An imported model is not compiled,
      // so set the properties of the device CPU directly.
      const std::string target = is_auto(device) ? "CPU" : device;
      api().check(api().ov_core_set_properties(created, target.c_str(), list.size(), list.data()),
                  EDGECORE_NOT_SUPPORTED,
                  ("OpenVINO does not support the properties of the file for " + device).c_str());
    }
    cached = core;
    return core;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<ov_core>> cores_;
};

// The load options of one loaded .pte file.
struct Program {
  Program(Driver &owner, const Host &, const Options &options) : driver(owner), device(options.text("device", "")) {
    open_library(options.path("library"));
  }

  Driver &driver;
  const std::string device;  // the load option that replaces the device of the blob; empty: not set
};

// The model of one blob, and its compiled models: one for each number of threads.
struct Delegate {
  Delegate(Program &owner, const Host &, const edgecore_delegate_info &info)
      : program_(owner), payload(payload_of(info)) {
    if (!owner.device.empty()) {
      if (payload.kind != Kind::kPortable && owner.device != payload.device) {
        fail(EDGECORE_INVALID_ARGUMENT,
             "the load option device is %s, but the file was compiled for %s: compile it with payload=\"portable\"",
             owner.device.c_str(), payload.device.c_str());
      }
      payload.device = owner.device;
    }
    if (payload.weights.size != 0) {
      const auto size = static_cast<int64_t>(payload.weights.size);
      weights_ = make_tensor(kOpenVinoU8, &size, 1, const_cast<uint8_t *>(payload.weights.data), payload.weights.size);
    }
    if (payload.kind == Kind::kBare) read_arguments();
    if (payload.is_static) return;
    core_ = owner.driver.core(payload.device, payload.properties);
    model_ = read_model(core_.get());
  }

  uint64_t argument_count() const noexcept { return payload.inputs.size() + payload.outputs.size(); }

  // A compiled model, and the ov_core that must outlive it.
  struct Executable {
    SharedCore core;
    Compiled compiled;
  };

  // Returns the model compiled for `threads` threads. All instances with this number of threads share the model.
  ov_compiled *compiled(uint32_t threads) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Executable &entry = compiled_[threads];
    if (entry.compiled == nullptr) entry = compile(threads, false);
    return entry.compiled.get();
  }

  // Returns a new compiled model whose inference request reports the times of nodes.
  Executable profiled(uint32_t threads) const { return compile(threads, true); }

  // Returns true if OpenVINO lists the nodes and their times in execution order; only the device CPU is known to do so.
  bool tells_times() const { return payload.device == "CPU"; }

  // Computes the output shapes from the input shapes, by reshaping model_, which is not compiled.
  std::vector<std::vector<int64_t>> output_shapes(const std::vector<std::vector<int64_t>> &inputs) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::vector<ov_dimension>> dims(inputs.size());
    std::vector<size_t> indexes(inputs.size());
    std::vector<ov_partial_shape> shapes(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (const int64_t size : inputs[i]) dims[i].push_back({size, size});
      const auto rank = static_cast<int64_t>(inputs[i].size());
      shapes[i] = {{rank, rank}, dims[i].data()};
      indexes[i] = i;
    }
    api().check(api().ov_model_reshape_by_port_indexes(model_.get(), indexes.data(), shapes.data(), shapes.size()),
                EDGECORE_INVALID_ARGUMENT, "the model does not support inputs of these shapes");
    std::vector<std::vector<int64_t>> result;
    for (size_t i = 0; i < payload.outputs.size(); ++i) {
      ov_port *port_handle = nullptr;
      api().check(api().ov_model_const_output_by_index(model_.get(), i, &port_handle), EDGECORE_INTERNAL,
                  "the model lacks an output");
      const Port port(port_handle);
      ov_shape shape = {};
      api().check(api().ov_const_port_get_shape(port_handle, &shape), EDGECORE_INTERNAL,
                  "the shape of an output is unknown");
      result.emplace_back(shape.dims, shape.dims + shape.rank);
      api().ov_shape_free(&shape);
    }
    return result;
  }

 private:
  Model read_model(ov_core *core) const {
    ov_model *created = nullptr;
    api().check(api().ov_core_read_model_from_memory_buffer(core, reinterpret_cast<const char *>(payload.model.data),
                                                            payload.model.size, weights_.get(), &created),
                EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "OpenVINO cannot read the model");
    return Model(created);
  }

  // Reads the arguments of a model without a header from the model itself.
  void read_arguments() {
    const Executable model = import_or_compile(1, false);
    size_t inputs = 0, outputs = 0;
    api().ov_compiled_model_inputs_size(model.compiled.get(), &inputs);
    api().ov_compiled_model_outputs_size(model.compiled.get(), &outputs);
    for (size_t i = 0; i < inputs + outputs; ++i) {
      const Port port = port_of(model.compiled.get(), i, inputs);
      uint32_t number = 0;
      ov_shape shape = {};
      api().check(api().ov_port_get_element_type(port.get(), &number), EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
                  "the element type of an argument is unknown");
      api().check(api().ov_const_port_get_shape(port.get(), &shape), EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
                  "a compiled model without a header has symbolic sizes");
      const std::vector<int64_t> sizes(shape.dims, shape.dims + shape.rank);
      api().ov_shape_free(&shape);
      const auto *type = std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                                      [&](const ElementType &known) { return known.number == number; });
      if (type == std::end(kElementTypes) || sizes.size() > kMaxRank) {
        fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "argument %zu has OpenVINO's element type %u and rank %zu", i,
             number, sizes.size());
      }
      (i < inputs ? payload.inputs : payload.outputs).push_back({type->code, type->bits, sizes, sizes});
    }
  }

  Executable compile(uint32_t threads, bool is_profiled) const {
    Executable made = import_or_compile(threads, is_profiled);
    size_t inputs = 0, outputs = 0;
    api().ov_compiled_model_inputs_size(made.compiled.get(), &inputs);
    api().ov_compiled_model_outputs_size(made.compiled.get(), &outputs);
    if (inputs != payload.inputs.size() || outputs != payload.outputs.size()) {
      fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
           "the blob is damaged: its model has %zu inputs and %zu outputs, its header %zu and %zu", inputs, outputs,
           payload.inputs.size(), payload.outputs.size());
    }
    return made;
  }

  Executable import_or_compile(uint32_t threads, bool is_profiled) const {
    Properties properties = payload.properties;
    // Unless the group size of dynamic quantization is 0, OpenVINO rounds inputs of layers with integer weights to
    // int8.
    if (payload.device == "CPU" || is_auto(payload.device)) {
      properties.emplace_back("DYNAMIC_QUANTIZATION_GROUP_SIZE", "0");
    }
    // Only the device CPU has the property INFERENCE_NUM_THREADS.
    if (payload.device == "CPU") {
      properties.emplace_back("INFERENCE_NUM_THREADS", std::to_string(threads));
      // OpenVINO 2026.4 crashes while fusing some two-layer perceptrons for a stream of one thread. With one thread,
      // fused code is not faster than separate operators: 0.97 to 1.02 of the time in 12 networks.
      if (std::min(threads, core_count()) <= streams()) properties.emplace_back("SNIPPETS_MODE", "DISABLE");
    }
    if (is_profiled) properties.emplace_back("PERF_COUNT", "YES");
    SharedCore shared = program_.driver.core(payload.device, properties);
    ov_core *core = shared.get();
    ov_compiled *created = nullptr;
    if (payload.kind == Kind::kPortable) {
      const Model model = read_model(core);  // read a copy, because output_shapes changes the shapes of model_
      const std::vector<ov_property> list = to_ov(properties);
      api().check(api().ov_core_compile_model_props(core, model.get(), payload.device.c_str(), list.size(), list.data(),
                                                    &created),
                  EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
                  ("OpenVINO cannot compile the model for " + payload.device).c_str());
    } else {
      api().check(api().ov_core_import_model(core, reinterpret_cast<const char *>(payload.model.data),
                                             payload.model.size, payload.device.c_str(), &created),
                  EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
                  ("OpenVINO " + api().version + " cannot import the compiled model").c_str());
    }
    return {std::move(shared), Compiled(created)};
  }

  // Returns the number of OpenVINO's streams (parallel requests), among which a method's threads are divided.
  uint32_t streams() const {
    for (const auto &[name, value] : payload.properties) {
      if (name == "NUM_STREAMS") return static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    }
    return 1;
  }

  Program &program_;

 public:
  Payload payload;

 private:
  SharedCore core_;  // the core of model_
  Tensor weights_;
  Model model_;  // uncompiled model for output_shapes; null if all sizes are static
  std::mutex mutex_;
  std::map<uint32_t, Executable> compiled_;
};

// The execution state of a delegate in one method: an inference request of OpenVINO.
class Instance {
 public:
  Instance(Delegate &delegate, const Host &host, const edgecore_instance_info &info)
      : delegate_(delegate),
        payload_(delegate.payload),
        host_(host),
        types_(delegate.argument_count()),
        shapes_(delegate.argument_count()),
        bound_(delegate.argument_count(), nullptr) {
    const uint32_t threads = std::max<uint32_t>(host.worker_count(), 1);
    ov_compiled *compiled;
    if ((info.flags & EDGECORE_INSTANCE_PROFILED) != 0 && delegate.tells_times()) {
      profiled_ = delegate.profiled(threads);
      compiled = profiled_.compiled.get();
    } else {
      compiled = delegate.compiled(threads);
    }
    ov_request *created = nullptr;
    api().check(api().ov_compiled_model_create_infer_request(compiled, &created), EDGECORE_MEMORY_ALLOCATION_FAILED,
                "OpenVINO cannot create an inference request");
    request_.reset(created);
    for (size_t i = 0; i < types_.size(); ++i) {
      const Port port = port_of(compiled, i, payload_.inputs.size());
      api().check(api().ov_port_get_element_type(port.get(), &types_[i]), EDGECORE_INTERNAL,
                  "the element type of an argument is unknown");
    }
  }

  std::vector<edgecore_memory_need> prepare(const Arguments &args) {
    prepared_ = false;
    std::vector<std::vector<int64_t>> inputs;
    for (size_t i = 0; i < payload_.inputs.size(); ++i) inputs.push_back(checked_shape(args, i, payload_.inputs[i]));
    std::vector<std::vector<int64_t>> outputs;
    if (!payload_.is_static) {
      outputs = delegate_.output_shapes(inputs);
    } else {
      for (const Argument &output : payload_.outputs) outputs.push_back(output.min_shape);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Argument &output = payload_.outputs[i];
      const size_t index = inputs.size() + i;
      args.tensor(index, output.code, output.bits, static_cast<int32_t>(outputs[i].size()));
      args.resize(index, outputs[i].data(), static_cast<int32_t>(outputs[i].size()));
    }
    shapes_ = std::move(inputs);
    shapes_.insert(shapes_.end(), outputs.begin(), outputs.end());
    std::fill(bound_.begin(), bound_.end(), nullptr);
    prepared_ = true;
    return {};  // request no memory from the host: OpenVINO allocates its own
  }

  void execute(const Arguments &args, const Memory &) {
    const bool is_profiled = profiled_.compiled != nullptr;
    const auto start = is_profiled ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    if (!prepared_) fail(EDGECORE_INVALID_STATE, "execute was called without a successful prepare");
    for (size_t i = 0; i < shapes_.size(); ++i) {
      void *data = args.data<void>(i);
      // Bind only memory that has changed: a request keeps the pointers, and accesses the memory only in infer.
      if (data != bound_[i] || data == nullptr) bind(i, data);
    }
    if (!is_profiled) {
      const Event event(host_, "OpenVINO", 0);
      infer();
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    infer();
    const std::chrono::nanoseconds length = std::chrono::steady_clock::now() - begin;
    const std::chrono::nanoseconds before = begin - start;
    times_.add(request_.get());
    times_.report(host_, static_cast<uint64_t>(before.count()), static_cast<uint64_t>(length.count()));
  }

 private:
  static std::vector<int64_t> checked_shape(const Arguments &args, size_t index, const Argument &expected) {
    const edgecore_tensor &tensor = args.tensor(index, expected.code, expected.bits, expected.rank());
    for (int32_t d = 0; d < expected.rank(); ++d) {
      const int64_t size = tensor.dl.shape[d];
      if (size >= expected.min_shape[d] && size <= expected.max_shape[d]) continue;
      fail(EDGECORE_INVALID_ARGUMENT, "argument %zu has size %lld in dim %d, which must be %lld to %lld", index,
           static_cast<long long>(size), d, static_cast<long long>(expected.min_shape[d]),
           static_cast<long long>(expected.max_shape[d]));
    }
    return {tensor.dl.shape, tensor.dl.shape + expected.rank()};
  }

  void infer() const {
    api().check(api().ov_infer_request_infer(request_.get()), EDGECORE_INTERNAL, "OpenVINO cannot run the model");
  }

  void bind(size_t index, void *data) {
    bound_[index] = nullptr;
    const size_t inputs = payload_.inputs.size();
    const Argument &argument = index < inputs ? payload_.inputs[index] : payload_.outputs[index - inputs];
    const std::vector<int64_t> &shape = shapes_[index];
    uint64_t bytes = argument.bits / 8;
    for (const int64_t size : shape) bytes *= static_cast<uint64_t>(size);
    const Tensor tensor = make_tensor(types_[index], shape.data(), static_cast<int64_t>(shape.size()), data, bytes);
    api().check(index < inputs
                    ? api().ov_infer_request_set_input_tensor_by_index(request_.get(), index, tensor.get())
                    : api().ov_infer_request_set_output_tensor_by_index(request_.get(), index - inputs, tensor.get()),
                EDGECORE_INTERNAL, "OpenVINO does not accept a tensor");
    bound_[index] = data;
  }

  Delegate &delegate_;
  const Payload &payload_;
  Host host_;
  Delegate::Executable profiled_;  // traced model; empty unless the method is traced and OpenVINO tells times of nodes
  Request request_;
  NodeTimes times_;
  std::vector<uint32_t> types_;               // OpenVINO's number of each argument's element type
  std::vector<std::vector<int64_t>> shapes_;  // each argument's shape in the last prepare
  std::vector<void *> bound_;                 // for each argument, the memory bound to the request, or null
  bool prepared_ = false;
};

}  // namespace
}  // namespace edgecore::openvino

extern "C" EDGECORE_BACKEND(openvino) {
  using namespace edgecore::openvino;
  static const edgecore_option_spec options[] = {
      edgecore::backend::option(
          "device", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
          "Device that runs portable models instead of the device in the file: CPU, GPU, NPU, AUTO, AUTO:GPU,CPU."),
      edgecore::backend::option(
          "library", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
          "Absolute path of OpenVINO's libopenvino_c; in Python the default is the one in the package openvino.")};
  static const edgecore_backend table = edgecore::backend::make_table<Driver, Program, Delegate, Instance>(
      {"OpenvinoBackend", "edgecore-openvino", EDGECORE_OPENVINO_VERSION,
       EDGECORE_OWN_THREADS | EDGECORE_NEEDS_TRUSTED_BLOBS | EDGECORE_OWN_HEAP},
      options);
  return &table;
}
