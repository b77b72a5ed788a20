// Implements the five classes of edgecore/backend.hpp for Vulkan, and the functions for device buffers and pending
// runs.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "buffers.h"
#include "devices.h"
#include "execution.h"
#include "state.h"
#include "waiter.h"

#ifndef EDGECORE_VULKAN_VERSION
#define EDGECORE_VULKAN_VERSION "0"
#endif

namespace edgecore::vulkan {
namespace {

using backend::fail;
using backend::Host;
using backend::Options;

constexpr int64_t kDefaultTimeoutMs = 60'000, kMaxTimeoutMs = 24 * 3600 * 1000;
// Buffer sizes are multiples of this number of bytes, because shaders read and write whole vectors of four elements.
constexpr uint64_t kBufferGranule = 16;

const edgecore_option_spec kOptions[] = {
    backend::option("device", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
                    "index or part of the name of the device; without it the first GPU, else the first device"),
    backend::option("validation", EDGECORE_OPTION_BOOL, EDGECORE_OPTION_AT_LOAD,
                    "check each use of Vulkan by the Khronos validation layer, which must be installed"),
    backend::option("gpu_shaders", EDGECORE_OPTION_BOOL, EDGECORE_OPTION_AT_LOAD,
                    "use the shaders for GPUs also on a device that is a processor, to test them"),
    backend::option("timeout_ms", EDGECORE_OPTION_INT, EDGECORE_OPTION_AT_LOAD,
                    "milliseconds after which a run that has not finished is an error"),
    backend::option("pipeline_cache_folder", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
                    "folder of compiled shaders; without it EDGECORE_VULKAN_CACHE, or none"),
    backend::option("tune", EDGECORE_OPTION_BOOL, EDGECORE_OPTION_AT_LOAD,
                    "measure which sizes of shaders are the fastest, or use those stored in that folder"),
};

std::string folder_of(const Options &options) {
  const char *variable = std::getenv("EDGECORE_VULKAN_CACHE");
  return std::string(options.text("pipeline_cache_folder", variable == nullptr ? "" : variable));
}

// The state of the backend in a process. It is created, and starts Vulkan, when the first file that needs the backend
// is loaded; loading fails if the machine has no Vulkan driver. The backend has no function probe(), because probe()
// would start Vulkan a second time. A device is closed with the last program or buffer that uses the device, so that no
// memory or thread of the Vulkan driver remains.
class Driver {
 public:
  explicit Driver(const Host &host) : host_(host), state_(std::make_unique<State>()) {}

  // A device, and the number (memory_kind) by which the host identifies this device's memory.
  struct Numbered {
    std::shared_ptr<ShaderDevice> device;
    uint32_t memory_kind;
  };

  Numbered device(const Options &options) {
    const Key key(options.integer("validation", 0) != 0, options.text("device", ""), folder_of(options),
                  options.integer("gpu_shaders", 0) != 0, options.integer("tune", 0) != 0);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    auto &devices = state_->devices;
    auto at = std::find_if(devices.begin(), devices.end(), [&](const auto &one) { return one.first == key; });
    if (at == devices.end()) {
      // Reuse the number of a closed device: no buffer has its memory_kind any more.
      at = std::find_if(devices.begin(), devices.end(), [](const auto &one) { return one.second.expired(); });
      if (at == devices.end()) at = devices.emplace(at);
      *at = {key, {}};
    }
    std::shared_ptr<ShaderDevice> device = at->second.lock();
    if (device == nullptr) {
      std::shared_ptr<Vulkan> &vulkan = std::get<0>(key) ? state_->validated : state_->plain;
      if (vulkan == nullptr) vulkan = started(std::get<0>(key));
      device = std::make_shared<ShaderDevice>(vulkan, std::get<1>(key), std::get<2>(key), std::get<3>(key));
      if (std::get<4>(key)) tune(*device, std::get<2>(key));
      at->second = device;
    }
    return {std::move(device), static_cast<uint32_t>(at - devices.begin() + 1)};
  }

  std::shared_ptr<ShaderDevice> device_of(uint32_t memory_kind) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    std::shared_ptr<ShaderDevice> device;
    if (memory_kind != 0 && memory_kind <= state_->devices.size())
      device = state_->devices[memory_kind - 1].second.lock();
    if (device == nullptr) fail(EDGECORE_NOT_SUPPORTED, "there is no device memory of kind %u", memory_kind);
    return device;
  }

  const Host &host() const { return host_; }

 private:
  // The load options that select a device: validation, device, cache folder, gpu_shaders, tune.
  using Key = std::tuple<bool, std::string, std::string, bool, bool>;
  static std::shared_ptr<Vulkan> started(bool validation) {
    InstanceSettings settings;
    settings.validation = validation;
    return std::make_shared<Vulkan>(settings);
  }
  struct State {
    std::mutex mutex;
    // Keep both Vulkan instances, with and without the validation layer (`validated`), because each new instance leaks
    // memory in the Vulkan loader.
    std::shared_ptr<Vulkan> plain = started(false), validated;
    std::vector<std::pair<Key, std::weak_ptr<ShaderDevice>>> devices;
  };
  Host host_;
  std::unique_ptr<State> state_;
};

struct Program {
  Program(Driver &owner, const Host &, const Options &options)
      : numbered(owner.device(options)),
        weights(std::make_unique<Weights>(*numbered.device)),
        waiter(std::make_unique<Waiter>()) {
    const int64_t timeout = options.integer("timeout_ms", kDefaultTimeoutMs);
    if (timeout < 1 || timeout > kMaxTimeoutMs) {
      fail(EDGECORE_INVALID_ARGUMENT, "the option timeout_ms is at least 1 and at most %lld; got %lld",
           static_cast<long long>(kMaxTimeoutMs), static_cast<long long>(timeout));
    }
    timeout_ns = static_cast<uint64_t>(timeout) * 1'000'000;
  }
  Driver::Numbered numbered;
  std::unique_ptr<Weights> weights;
  std::unique_ptr<Waiter> waiter;
  uint64_t timeout_ns = 0;
};

struct Delegate {
  Delegate(Program &owner, const Host &host, const edgecore_delegate_info &info)
      : program(owner), graph(read_blob(info.blob, host)) {}
  uint64_t argument_count() const noexcept { return graph.inputs.size() + graph.outputs.size(); }

  // Asks the host to keep float arguments in device buffers. Other arguments (indices, masks) stay in host memory: they
  // are small, and Execution must convert them anyway, to their dtype on the device.
  void buffer_requirement(uint64_t index, edgecore_buffer_requirement &out) const noexcept {
    const size_t inputs = graph.inputs.size();
    const Value &value = graph.values[index < inputs ? graph.inputs[index] : graph.outputs[index - inputs]];
    if (value.kind != Kind::kTensor) return;
    if (value.staging != DataType::kFloat32 && value.staging != DataType::kFloat16) return;
    out.alignment = kArgumentAlignment;
    out.granule = kBufferGranule;
    out.tail_padding = kMaxPadding;
    out.memory_kind = program.numbered.memory_kind;
  }

  Program &program;
  Graph graph;
};

// The mutable buffers (state) of a session.
struct SessionState : State {
  SessionState(Program &program, const Host &) : State(*program.numbered.device) {}
};

// Returns the memory of the session's state buffers that a graph uses. If the named data (for example of a .ptd file)
// has initial values under a buffer's name, these values replace the initial values in the blob.
StateBuffers states_of(const Graph &graph, const Host &host, const edgecore_instance_info &info) {
  StateBuffers buffers;
  for (const OperatorCall &call : graph.calls) {
    if (call.name != "edgecore.state.default") continue;
    if (call.args.size() != 3) backend::damaged("a state has %zu arguments", call.args.size());
    const Value &name = graph.values[call.args[0]], &initial = graph.values[call.args[1]];
    const Value &tensor = graph.values[call.args[2]];
    if (name.kind != Kind::kString || tensor.kind != Kind::kTensor || tensor.constant >= 0) {
      backend::damaged("a state has no name, or is no tensor");
    }
    edgecore_bytes bytes = {nullptr, 0};
    if (const auto stored = host.find_named_data(name.text)) {
      bytes = *stored;
    } else if (initial.kind == Kind::kTensor && initial.constant >= 0) {
      bytes = graph.constants[static_cast<size_t>(initial.constant)].bytes;
    }
    buffers[call.args[2]] = &backend::state_set<SessionState>(info).add(name.text, tensor, bytes);
  }
  return buffers;
}

class Instance {
 public:
  Instance(Delegate &delegate, const Host &host, const edgecore_instance_info &info)
      : host_(host),
        program_(delegate.program),
        is_profiled_((info.flags & EDGECORE_INSTANCE_PROFILED) != 0),
        execution_(std::make_unique<Execution>(delegate.graph, *delegate.program.numbered.device,
                                               *delegate.program.weights, states_of(delegate.graph, host, info),
                                               delegate.program.timeout_ns, is_profiled_)) {}

  std::vector<edgecore_memory_need> prepare(const backend::Arguments &arguments) {
    execution_->prepare(arguments);
    return {};
  }

  // Runs the delegate. Returns EDGECORE_PENDING while the device still computes, if the host allows this and does not
  // profile the run.
  int32_t run(const edgecore_execute_info &info, const backend::Arguments &arguments) {
    execution_->start(arguments);
    // Wait, because profile events may be added only before execute returns.
    if (info.completion == nullptr || is_profiled_) {
      execution_->finish();
      add_events();
      return EDGECORE_OK;
    }
    return pending_.begin(
        info, [this](const backend::PendingRun::Done &done) { program_.waiter->add([done] { done(nullptr); }); },
        [this] { execution_->finish(); });
  }

 private:
  void add_events() const {
    if (!is_profiled_) return;
    for (const DispatchTime &time : execution_->times()) {
      host_.add_event(time.name, time.call == kNoCall ? -1 : int64_t{time.call}, time.begin, time.end);
    }
  }

  Host host_;
  Program &program_;
  bool is_profiled_;
  std::unique_ptr<Execution> execution_;
  backend::PendingRun pending_;
};

// Runs `body`, which may throw, and converts exceptions to the error code that a function of the C table returns.
template <typename Body>
int32_t guard(const Host &host, edgecore_error *error, const Body &body) {
  return backend::detail::guard(host.table(), error, body);
}

void add_buffers(edgecore_backend &table) {
  table.buffer_create = [](edgecore_driver *driver, uint64_t bytes, uint64_t, uint32_t memory_kind,
                           edgecore_buffer **out, edgecore_error *error) -> int32_t {
    Driver &owner = backend::get<Driver>(driver);
    return guard(owner.host(), error, [&] {
      const uint64_t whole = std::max((bytes + kBufferGranule - 1) / kBufferGranule * kBufferGranule, kBufferGranule);
      *out = new edgecore_buffer(owner.host(), owner.device_of(memory_kind), whole);
      return EDGECORE_OK;
    });
  };
  table.buffer_destroy = [](edgecore_buffer *buffer) { delete buffer; };
  table.buffer_map = [](edgecore_buffer *buffer, uint64_t offset, uint64_t bytes, void **out,
                        edgecore_error *error) -> int32_t {
    return guard(buffer->host, error, [&] { return *out = map(*buffer, offset, bytes), EDGECORE_OK; });
  };
  table.buffer_unmap = [](edgecore_buffer *buffer, edgecore_error *) -> int32_t {
    buffer->mapped_bytes = 0;
    return EDGECORE_OK;
  };
  table.buffer_flush = [](edgecore_buffer *buffer, edgecore_error *error) -> int32_t {
    return guard(buffer->host, error, [&] { return flush(*buffer), EDGECORE_OK; });
  };
  table.buffer_invalidate = [](edgecore_buffer *buffer, edgecore_error *error) -> int32_t {
    return guard(buffer->host, error, [&] { return invalidate(*buffer), EDGECORE_OK; });
  };
}

// The object that this library exports. edgecore's runtime reads only `table`, the backend's functions. The Python
// module devices.py calls list_devices, which must therefore be the next member.
struct Exported {
  edgecore_backend table;
  uint64_t (*list_devices)(char *text, uint64_t size);
};

}  // namespace
}  // namespace edgecore::vulkan

extern "C" EDGECORE_BACKEND(vulkan) {
  using namespace edgecore::vulkan;
  static const Exported exported = [] {
    edgecore_backend table = edgecore::backend::make_table<Driver, Program, Delegate, Instance, SessionState>(
        {"VulkanBackend", "edgecore-vulkan", EDGECORE_VULKAN_VERSION,
         EDGECORE_VENDOR_THREADS | EDGECORE_VALIDATES_BLOBS | EDGECORE_OWN_HEAP},
        kOptions);
    add_buffers(table);
    return Exported{table, list_devices};
  }();
  return &exported.table;
}
