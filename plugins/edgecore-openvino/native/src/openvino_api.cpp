#include "openvino_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

namespace edgecore::openvino {
namespace {

using edgecore::backend::fail;

constexpr const char *kCommand = "pip install \"openvino>=2026.4,<2027\"";

// The OpenVINO library that open_library has opened. Never destroyed: OpenVINO's threads may outlive static objects.
struct Opened {
  std::string path;
  Api api;
};
Opened *opened = nullptr;

Api load(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(EDGECORE_NOT_FOUND, "OpenVINO cannot be loaded: %s. To reinstall it: %s --force-reinstall", dlerror(),
         kCommand);
  }
  Api result = {};
  const auto find = [&](auto &member, const char *name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, name));
    if (member == nullptr) {
      fail(EDGECORE_NOT_SUPPORTED, "%s has no function %s: %s", path.c_str(), name, kCommand);
    }
  };
#define EDGECORE_OPENVINO_FIND(name, ...) find(result.name, #name);
  EDGECORE_OPENVINO_FUNCTIONS(EDGECORE_OPENVINO_FIND)
  EDGECORE_OPENVINO_RELEASES(EDGECORE_OPENVINO_FIND)
  find(result.ov_get_last_err_msg, "ov_get_last_err_msg");
#undef EDGECORE_OPENVINO_FIND

  ov_version version = {};
  result.check(result.ov_get_openvino_version(&version), EDGECORE_NOT_SUPPORTED, "OpenVINO's version is unknown");
  result.version = version.build_number;
  result.ov_version_free(&version);
  char *rest = nullptr;
  const long year = std::strtol(result.version.c_str(), &rest, 10);
  const long release = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
  if (year != 2026 || release < 4) {
    fail(EDGECORE_NOT_SUPPORTED, "%s is OpenVINO %s; edgecore-openvino needs 2026.4 or a later release of 2026: %s",
         path.c_str(), result.version.c_str(), kCommand);
  }
  return result;
}

}  // namespace

void Api::check(int status, int32_t code, const char *what) const {
  if (status == 0) return;
  const char *text = ov_get_last_err_msg();
  std::string reason = text == nullptr ? "" : text;
  if (text != nullptr) ov_free(text);
  // Skip lines before the message itself, such as "Exception from src/inference/src/cpp/core.cpp:109:".
  for (size_t line; reason.compare(0, 15, "Exception from ") == 0 || reason.compare(0, 1, "\n") == 0;) {
    line = reason.find('\n');
    reason = line == std::string::npos ? std::string() : reason.substr(line + 1);
  }
  while (!reason.empty() && reason.back() == '\n') reason.pop_back();
  if (reason.empty()) reason = "status " + std::to_string(status);
  fail(code, "%s: %s", what, reason.c_str());
}

void open_library(std::string_view path) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (opened != nullptr && path == opened->path) return;
  if (path.empty()) {
    fail(EDGECORE_NOT_FOUND,
         "OpenVINO was not found: %s, or set the load option library to the absolute path of its libopenvino_c",
         kCommand);
  }
  if (opened != nullptr) {
    fail(EDGECORE_NOT_SUPPORTED, "this process has opened OpenVINO in %s and cannot open %s as well",
         opened->path.c_str(), std::string(path).c_str());
  }
  opened = new Opened{std::string(path), load(std::string(path))};
}

const Api &api() { return opened->api; }

}  // namespace edgecore::openvino
