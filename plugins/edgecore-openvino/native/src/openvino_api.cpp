#include "openvino_api.h"

#include <dirent.h>
#include <dlfcn.h>

#include <cstdlib>

namespace edgecore_openvino {
namespace {

using edgecore::backend::fail;

constexpr const char *kVariable = "EDGECORE_OPENVINO_LIBRARY";
constexpr const char *kCommand = "pip install \"openvino>=2026.4,<2027\"";
#if defined(__APPLE__)
constexpr std::string_view kPrefix = "libopenvino_c.", kInfix = ".dylib";
#else
constexpr std::string_view kPrefix = "libopenvino_c.so", kInfix = "";
#endif

// The C library in a folder: its name ends with a version that grows with every release. The last in order is taken.
std::string library_in(const std::string &folder) {
  DIR *entries = opendir(folder.c_str());
  if (entries == nullptr) return {};
  std::string best;
  while (const dirent *entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name.compare(0, kPrefix.size(), kPrefix) == 0 && name.find(kInfix) != std::string::npos && name > best) {
      best = name;
    }
  }
  closedir(entries);
  return best.empty() ? best : folder + "/" + best;
}

// The folder of this library, from the loader; empty where it has no absolute path.
std::string own_folder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void *>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  return path.empty() || path[0] != '/' ? std::string() : path.substr(0, path.rfind('/'));
}

Api open_library() {
  const std::string path = find_library();
  if (path.empty()) {
    fail(EDGECORE_NOT_FOUND,
         "OpenVINO is not installed where edgecore-openvino looks for it: %s, or name its libopenvino_c by an absolute "
         "path in %s",
         kCommand, kVariable);
  }
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

std::string find_library() {
#if defined(__GLIBC__)
  const char *named = secure_getenv(kVariable);  // nothing in a program that runs with another's rights
#else
  const char *named = std::getenv(kVariable);
#endif
  if (named != nullptr && named[0] == '/') return named;
  const std::string folder = own_folder();  // site-packages/edgecore_openvino/lib
  return folder.empty() ? std::string() : library_in(folder + "/../../openvino/libs");
}

const Api &api() {
  static const Api found = open_library();  // tried again by the next call if it throws
  return found;
}

}  // namespace edgecore_openvino
