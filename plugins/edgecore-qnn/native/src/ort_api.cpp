#include "ort_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

namespace edgecore::qnn {
namespace {

using edgecore::backend::fail;

constexpr const char *kCommand = "pip install onnxruntime onnxruntime-qnn";
constexpr long kMinor = 22;  // release 1.22 is the first with API version 22

struct OrtApiBase {
  const void *const *(*api)(uint32_t version);
  const char *(*version)();
};

// The ONNX Runtime library that open_ort has opened. Never destroyed: sessions may outlive static objects.
struct Opened {
  std::string path;
  OrtApi api;
};
Opened *opened = nullptr;

// Disables ONNX Runtime's telemetry, unless the application has set ORT_DISABLE_TELEMETRY. From 1.29 on, ONNX Runtime
// sends events to Microsoft and stores an identifier of the device. Only this environment variable prevents all events:
// OrtApi::DisableTelemetryEvents needs an ONNX Runtime environment, and creating one already sends an event.
void disable_telemetry() { setenv("ORT_DISABLE_TELEMETRY", "1", /*overwrite=*/0); }

OrtApi load(const std::string &path) {
  disable_telemetry();
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(EDGECORE_NOT_FOUND, "ONNX Runtime cannot be loaded: %s. To reinstall it: %s --force-reinstall", dlerror(),
         kCommand);
  }
  const auto get_base = reinterpret_cast<const OrtApiBase *(*)()>(dlsym(library, "OrtGetApiBase"));
  if (get_base == nullptr) {
    fail(EDGECORE_NOT_SUPPORTED, "%s is not ONNX Runtime, it has no OrtGetApiBase: %s", path.c_str(), kCommand);
  }
  const OrtApiBase *base = get_base();
  OrtApi result = {};
  result.version = base->version();
  char *rest = nullptr;
  const long major = std::strtol(result.version.c_str(), &rest, 10);
  const long minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
  const void *const *table = major == 1 && minor >= kMinor ? base->api(kOrtApiVersion) : nullptr;
  if (table == nullptr) {
    fail(EDGECORE_NOT_SUPPORTED, "%s is ONNX Runtime %s; edgecore-qnn needs 1.%ld or later: %s --upgrade", path.c_str(),
         result.version.c_str(), kMinor, kCommand);
  }
  const auto get = [table](auto &member, size_t index) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(const_cast<void *>(table[index]));
  };
#define EDGECORE_QNN_GET(index, name, ...) get(result.name, index);
  EDGECORE_QNN_ORT_FUNCTIONS(EDGECORE_QNN_GET)
  EDGECORE_QNN_ORT_RELEASES(EDGECORE_QNN_GET)
#undef EDGECORE_QNN_GET
  get(result.GetErrorMessage, 2);
  get(result.EpDevice_EpName, 312);
  return result;
}

}  // namespace

void OrtApi::check(OrtStatus *status, int32_t code, const std::string &what, const char *remedy) const {
  if (status == nullptr) return;
  std::string reason = GetErrorMessage(status);
  ReleaseStatus(status);
  reason = reason.substr(0, reason.find('\n'));
  while (!reason.empty() && (reason.back() == '.' || reason.back() == ' ')) reason.pop_back();
  fail(code, "%s: %.300s. %s", what.c_str(), reason.c_str(), remedy);
}

const OrtApi &open_ort(std::string_view path) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (opened != nullptr && path == opened->path) return opened->api;
  if (opened != nullptr) {
    fail(EDGECORE_NOT_SUPPORTED, "this process has opened ONNX Runtime in %s and cannot open %s as well",
         opened->path.c_str(), std::string(path).c_str());
  }
  opened = new Opened{std::string(path), load(std::string(path))};
  return opened->api;
}

const OrtApi &ort() { return opened->api; }

}  // namespace edgecore::qnn
