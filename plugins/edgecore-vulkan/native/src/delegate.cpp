// The backend as edgecore/backend.hpp's four classes.
#include <algorithm>
#include <map>
#include <mutex>

#include "devices.h"
#include "instance.h"

#ifndef EDGECORE_VULKAN_VERSION
#define EDGECORE_VULKAN_VERSION "0"
#endif

namespace edgecore::vulkan {
namespace {

using backend::fail;
using backend::Host;
using backend::Options;

constexpr int64_t kDefaultTimeoutMs = 60'000, kMaxTimeoutMs = 24 * 3600 * 1000;

const edgecore_option_spec kOptions[] = {
    backend::option("device", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
                    "index or part of the name of the device; without it the first GPU, else the first device"),
    backend::option("validation", EDGECORE_OPTION_BOOL, EDGECORE_OPTION_AT_LOAD,
                    "check each use of Vulkan by the Khronos validation layer, which must be installed"),
    backend::option("timeout_ms", EDGECORE_OPTION_INT, EDGECORE_OPTION_AT_LOAD,
                    "milliseconds after which a run that has not finished is an error"),
};

// Vulkan is started by the first program: finding out that a machine has no driver takes a file that needs one.
class Driver {
 public:
  explicit Driver(const Host &) : state_(std::make_unique<State>()) {}

  static void probe(const Host &) { Vulkan(false); }

  Device &device(bool validation, const std::string &choice) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    std::unique_ptr<Vulkan> &vulkan = validation ? state_->validated : state_->plain;
    if (vulkan == nullptr) vulkan = std::make_unique<Vulkan>(validation);
    std::unique_ptr<Device> &device = state_->devices[{validation, choice}];
    if (device == nullptr) device = std::make_unique<Device>(*vulkan, choice);
    return *device;
  }

 private:
  struct State {
    std::mutex mutex;
    std::unique_ptr<Vulkan> plain, validated;
    std::map<std::pair<bool, std::string>, std::unique_ptr<Device>> devices;
  };
  std::unique_ptr<State> state_;
};

struct Program {
  Program(Driver &driver, const Host &, const Options &options)
      : device(driver.device(options.integer("validation", 0) != 0, std::string(options.text("device", "")))),
        weights(std::make_unique<Weights>(device)) {
    const int64_t timeout = options.integer("timeout_ms", kDefaultTimeoutMs);
    if (timeout < 1 || timeout > kMaxTimeoutMs) {
      fail(EDGECORE_INVALID_ARGUMENT, "the option timeout_ms is at least 1 and at most %lld; got %lld",
           static_cast<long long>(kMaxTimeoutMs), static_cast<long long>(timeout));
    }
    timeout_ns = static_cast<uint64_t>(timeout) * 1'000'000;
  }
  Device &device;
  std::unique_ptr<Weights> weights;
  uint64_t timeout_ns = 0;
};

struct Delegate {
  Delegate(Program &owner, const Host &host, const edgecore_delegate_info &info)
      : program(owner), graph(read_blob(info.blob, host)) {}
  uint64_t argument_count() const noexcept { return graph.inputs.size() + graph.outputs.size(); }
  Program &program;
  Graph graph;
};

struct Instance {
  Instance(Delegate &delegate, const Host &)
      : execution(std::make_unique<Execution>(delegate.graph, delegate.program.device, *delegate.program.weights,
                                              delegate.program.timeout_ns)) {}
  std::vector<edgecore_memory_need> prepare(const backend::Arguments &arguments) {
    execution->prepare(arguments);
    return {};
  }
  void execute(const backend::Arguments &arguments, const backend::Memory &) { execution->execute(arguments); }
  std::unique_ptr<Execution> execution;
};

// The object that this library exports: the runtime reads only `table`, the backend's functions. devices.py knows that
// the function list_devices follows, and calls it.
struct Exported {
  edgecore_backend table;
  uint64_t (*list_devices)(char *text, uint64_t size);
};

}  // namespace
}  // namespace edgecore::vulkan

extern "C" EDGECORE_BACKEND(vulkan) {
  using namespace edgecore::vulkan;
  static const Exported exported = [] {
    edgecore_backend table = edgecore::backend::make_table<Driver, Program, Delegate, Instance>(
        {"VulkanBackend", "edgecore-vulkan", EDGECORE_VULKAN_VERSION,
         EDGECORE_NO_THREADS | EDGECORE_VALIDATES_BLOBS | EDGECORE_OWN_HEAP});
    table.options = kOptions;
    table.option_count = std::size(kOptions);
    table.option_stride = sizeof(edgecore_option_spec);
    return Exported{table, list_devices};
  }();
  return &exported.table;
}
