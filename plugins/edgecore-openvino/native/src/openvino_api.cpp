#include "openvino_api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

namespace edgecore_openvino {
namespace {

using edgecore::backend::fail;

constexpr const char *kCommand = "pip install \"openvino>=2026.4,<2027\"";

// What open_library opened; never destroyed, as threads of OpenVINO's may outlive static objects.
struct Opened {
  std::string path;
  Api api;
};
Opened *opened = nullptr;

Api load(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(EDGECORE_NOT_FOUND, "OpenVINO cannot be loaded: %s. To install it anew: %s --force-reinstall", dlerror(),
         kCommand);
  }
  Api made = {};
  const auto find = [&](auto &member, const char *name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, name));
    if (member == nullptr) {
      fail(EDGECORE_NOT_SUPPORTED, "%s has no function %s: %s", path.c_str(), name, kCommand);
    }
  };
#define EDGECORE_OPENVINO_FIND(name, ...) find(made.name, #name);
  EDGECORE_OPENVINO_FUNCTIONS(EDGECORE_OPENVINO_FIND)
  EDGECORE_OPENVINO_RELEASES(EDGECORE_OPENVINO_FIND)
  find(made.ov_get_last_err_msg, "ov_get_last_err_msg");
#undef EDGECORE_OPENVINO_FIND

  ov_version version = {};
  made.check(made.ov_get_openvino_version(&version), EDGECORE_NOT_SUPPORTED, "OpenVINO does not say its version");
  made.version = version.build_number;
  made.ov_version_free(&version);
  char *rest = nullptr;
  const long year = std::strtol(made.version.c_str(), &rest, 10);
  const long release = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
  if (year != 2026 || release < 4) {
    fail(EDGECORE_NOT_SUPPORTED, "%s is OpenVINO %s; edgecore-openvino is made for 2026.4 and later of that year: %s",
         path.c_str(), made.version.c_str(), kCommand);
  }
  return made;
}

}  // namespace

void Api::check(int status, int32_t code, const char *what) const {
  if (status == 0) return;
  const char *text = ov_get_last_err_msg();
  std::string reason = text == nullptr ? "" : text;
  if (text != nullptr) ov_free(text);
  // Its sentences come after lines such as "Exception from src/inference/src/cpp/core.cpp:109:".
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
         "OpenVINO was not found: %s, or give the load option library the absolute path of its libopenvino_c",
         kCommand);
  }
  if (path[0] != '/') {
    fail(EDGECORE_INVALID_ARGUMENT, "the load option library is no absolute path: %s", std::string(path).c_str());
  }
  if (opened != nullptr) {
    fail(EDGECORE_NOT_SUPPORTED, "this process has opened OpenVINO in %s and cannot open %s as well",
         opened->path.c_str(), std::string(path).c_str());
  }
  opened = new Opened{std::string(path), load(std::string(path))};
}

const Api &api() { return opened->api; }

}  // namespace edgecore_openvino
