// Implements the four classes of edgecore/backend.hpp for the VGF backend. A delegate is a VGF file, whose graph runs
// on a Vulkan device with the machine learning extensions.
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "edgecore/backend.hpp"
#include "graph.h"
#include "vgf.h"

#ifndef EDGECORE_VGF_VERSION
#define EDGECORE_VGF_VERSION "0"
#endif

namespace edgecore::vgf {
namespace {

using edgecore::backend::Arguments;
using edgecore::backend::Event;
using edgecore::backend::fail;
using edgecore::backend::Host;
using edgecore::backend::Memory;
using edgecore::backend::Options;

// The open Vulkan devices of the process. A device is closed with the last program (open .pte file) that uses it.
class Driver {
 public:
  explicit Driver(const Host &) : state_(std::make_unique<State>()) {}

  int32_t check_compatibility(std::string_view text) const {
    return edgecore::backend::check_format(text, "vgf 1", "edgecore-vgf");
  }

  std::shared_ptr<MlDevice> device(const DeviceSettings &settings) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    auto &devices = state_->devices;
    for (const auto &[key, weak] : devices) {
      if (std::shared_ptr<MlDevice> device = key == settings ? weak.lock() : nullptr) return device;
    }
    std::shared_ptr<MlDevice> device = open_device(settings);
    // Remove weak pointers to closed devices: each prevents the release of its device object's memory.
    devices.erase(
        std::remove_if(devices.begin(), devices.end(), [](const auto &entry) { return entry.second.expired(); }),
        devices.end());
    devices.emplace_back(settings, device);
    return device;
  }

 private:
  struct State {
    std::mutex mutex;
    std::vector<std::pair<DeviceSettings, std::weak_ptr<MlDevice>>> devices;
  };
  std::unique_ptr<State> state_;
};

struct Program {
  Program(Driver &driver, const Host &, const Options &options)
      : device(driver.device({options.path("emulation"), std::string(options.text("device", ""))})) {}

  const std::shared_ptr<MlDevice> device;
};

struct Delegate {
  Delegate(Program &program, const Host &, const edgecore_delegate_info &info)
      : graph(std::make_unique<Graph>(program.device, read_vgf(info.blob))) {
    info.release_blob(info.scope);  // the pipeline has copied its constants from the blob
  }

  uint64_t argument_count() const noexcept { return graph->inputs().size() + graph->results().size(); }

  const std::unique_ptr<Graph> graph;
};

class Instance {
 public:
  Instance(Delegate &delegate, const Host &host)
      : graph_(*delegate.graph), host_(host), session_(std::make_unique<Session>(graph_)) {}

  std::vector<edgecore_memory_need> prepare(const Arguments &args) {
    const size_t inputs = graph_.inputs().size();
    for (size_t i = 0; i < inputs; ++i) {
      const Tensor &expected = graph_.inputs()[i].tensor;
      tensor(args, i, expected);
      args.check_shape(i, expected.shape);
    }
    for (size_t i = 0; i < graph_.results().size(); ++i) {
      const Tensor &expected = graph_.outputs()[graph_.results()[i]].tensor;
      tensor(args, inputs + i, expected);
      args.resize(inputs + i, expected.shape.data(), static_cast<int32_t>(expected.shape.size()));
    }
    return {};  // request no memory from the host: the tensors are in device memory
  }

  void execute(const Arguments &args, const Memory &) {
    const size_t inputs = graph_.inputs().size();
    std::vector<const void *> in;
    std::vector<void *> out;
    for (size_t i = 0; i < inputs; ++i) in.push_back(args.data<void>(i));
    for (size_t i = 0; i < graph_.results().size(); ++i) out.push_back(args.data<void>(inputs + i));
    const Event event(host_, "data graph", 0);
    session_->run(in, out);
  }

 private:
  static const edgecore_tensor &tensor(const Arguments &args, size_t index, const Tensor &expected) {
    return args.tensor(index, expected.dtype.code, expected.dtype.bits, static_cast<int32_t>(expected.shape.size()));
  }

  const Graph &graph_;
  Host host_;
  std::unique_ptr<Session> session_;
};

}  // namespace
}  // namespace edgecore::vgf

extern "C" EDGECORE_BACKEND(vgf) {
  using namespace edgecore::vgf;
  using edgecore::backend::option;
  static const edgecore_option_spec options[] = {
      option("emulation", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
             "Absolute path of the folder of Arm's emulation layer, which is used if no driver has the extensions; in "
             "Python the default is the one in the package ai-ml-emulation-layer-for-vulkan."),
      option("device", EDGECORE_OPTION_STRING, EDGECORE_OPTION_AT_LOAD,
             "Index or part of the name of the Vulkan device; without it the first that has the extensions.")};
  // Set VENDOR_THREADS, because lavapipe, a Vulkan driver for CPUs, starts threads of its own.
  static const edgecore_backend table = edgecore::backend::make_table<Driver, Program, Delegate, Instance>(
      {"VgfBackend", "edgecore-vgf", EDGECORE_VGF_VERSION,
       EDGECORE_VENDOR_THREADS | EDGECORE_NEEDS_TRUSTED_BLOBS | EDGECORE_OWN_HEAP},
      options);
  return &table;
}
