#include "simulator.h"

#include <dlfcn.h>

namespace edgecore::ethosu {
namespace {

using edgecore::backend::fail;

constexpr uint32_t kVersion = 1;  // EDGECORE_TOSA_SIMULATOR_VERSION in simulator.h
constexpr char kInstall[] = "pip install edgecore-tosa";
constexpr size_t kErrorSize = 400;

// Returns the DLPack dtype for a DType of the TOSA schema; its `bits` are 0 if edgecore's tensors cannot have the
// dtype.
edgecore_dl_dtype to_dlpack(uint32_t dtype) {
  switch (dtype) {
    case 1:  // BOOL
      return {EDGECORE_DL_BOOL, 8, 1};
    case 3:  // INT8
      return {EDGECORE_DL_INT, 8, 1};
    case 4:  // INT16
      return {EDGECORE_DL_INT, 16, 1};
    case 5:  // INT32
      return {EDGECORE_DL_INT, 32, 1};
    case 7:  // FP32
      return {EDGECORE_DL_FLOAT, 32, 1};
    case 8:  // FP16
      return {EDGECORE_DL_FLOAT, 16, 1};
    default:
      return {0, 0, 1};
  }
}

}  // namespace

Simulator open_simulator(const std::string &path) {
  if (path.empty())
    fail(EDGECORE_NOT_FOUND, "the TOSA simulator, which runs Ethos-U files here, is missing: %s", kInstall);
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(EDGECORE_NOT_FOUND, "the TOSA simulator cannot be loaded: %s. To reinstall it: %s --force-reinstall --no-deps",
         dlerror(), kInstall);
  }
  Simulator result = {};
  const auto find = [&](auto &member, const char *name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, name));
    if (member == nullptr) fail(EDGECORE_NOT_SUPPORTED, "%s is no TOSA simulator: it has no %s", path.c_str(), name);
  };
  find(result.version, "edgecore_tosa_simulator_version");
  if (const uint32_t version = result.version(); version != kVersion) {
    fail(EDGECORE_NOT_SUPPORTED,
         "the TOSA simulator has the interface %u, and this edgecore-ethosu uses %u: pip install --upgrade "
         "edgecore-tosa edgecore-ethosu",
         version, kVersion);
  }
  find(result.load, "edgecore_tosa_load");
  find(result.destroy, "edgecore_tosa_destroy");
  find(result.input_count, "edgecore_tosa_input_count");
  find(result.output_count, "edgecore_tosa_output_count");
  find(result.input, "edgecore_tosa_input");
  find(result.output, "edgecore_tosa_output");
  find(result.run, "edgecore_tosa_run");
  return result;
}

Graph::Graph(const Simulator &simulator, edgecore_bytes tosa)
    : simulator_(simulator), model_(nullptr, simulator.destroy) {
  edgecore_tosa_model *loaded = nullptr;
  char error[kErrorSize] = "";
  if (simulator_.load(tosa.data, static_cast<size_t>(tosa.size), &loaded, error, sizeof(error)) != 0) {
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the simulator cannot load the TOSA graph of the file: %s", error);
  }
  model_.reset(loaded);
  inputs_ = arguments(simulator_.input, simulator_.input_count(loaded));
  outputs_ = arguments(simulator_.output, simulator_.output_count(loaded));
}

std::vector<Argument> Graph::arguments(Describe describe, size_t count) const {
  std::vector<Argument> result;
  for (size_t i = 0; i < count; ++i) {
    uint32_t dtype = 0;
    const int32_t *dims = nullptr;
    size_t rank = 0, bytes = 0;
    if (describe(model_.get(), i, &dtype, &dims, &rank, &bytes) != 0) {
      fail(EDGECORE_INTERNAL, "the simulator cannot describe argument %zu of the TOSA graph", i);
    }
    const edgecore_dl_dtype dl = to_dlpack(dtype);
    uint64_t expected = dl.bits / 8;
    for (size_t d = 0; d < rank; ++d) expected *= static_cast<uint64_t>(dims[d]);
    if (expected == 0 || expected != bytes) {
      fail(EDGECORE_NOT_SUPPORTED, "an argument of the TOSA graph has the dtype %u and %zu bytes", dtype, bytes);
    }
    result.push_back({dl.code, dl.bits, std::vector<int64_t>(dims, dims + rank), bytes});
  }
  return result;
}

void Graph::run(const std::vector<const void *> &inputs, const std::vector<void *> &outputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  char error[kErrorSize] = "";
  if (simulator_.run(model_.get(), inputs.data(), outputs.data(), error, sizeof(error)) != 0) {
    fail(EDGECORE_INTERNAL, "the simulator cannot run the TOSA graph: %s", error);
  }
}

}  // namespace edgecore::ethosu
