// Readers of a backend's options and compile specs. edgecore/backend.hpp includes this file.
#ifndef EDGECORE_LOAD_OPTIONS_HPP_
#define EDGECORE_LOAD_OPTIONS_HPP_

#include <cstdint>
#include <string>
#include <string_view>

#include "edgecore/byte_reader.hpp"

namespace edgecore::backend {

// Returns the declaration of an option of a backend, for edgecore_backend.options. `type` is EDGECORE_OPTION_BOOL etc.,
// `when` is EDGECORE_OPTION_AT_LOAD, EDGECORE_OPTION_AT_RUN or both. The texts are not copied: pass string literals.
constexpr edgecore_option_spec option(const char *name, uint32_t type, uint32_t when, const char *help) {
  return {header<edgecore_option_spec>(), to_str(name), type, when, to_str(help)};
}

// The options that the application set for a backend when it loaded a file. The host has checked their names and types.
// Each member returns `fallback` for an option that was not set.
class Options {
 public:
  explicit Options(const edgecore_options &options) : options_(options) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }

  int64_t integer(std::string_view name, int64_t fallback) const {  // returns 0 or 1 for an option of type bool
    const edgecore_option *option = find(name);
    return option == nullptr ? fallback : option->value.i;
  }
  double number(std::string_view name, double fallback) const {
    const edgecore_option *option = find(name);
    return option == nullptr ? fallback : option->value.d;
  }
  std::string_view text(std::string_view name, std::string_view fallback) const {
    const edgecore_option *option = find(name);
    if (option == nullptr) return fallback;
    const edgecore_bytes &bytes = option->value.bytes;
    return {reinterpret_cast<const char *>(bytes.data), static_cast<size_t>(bytes.size)};
  }
  // Returns a text option whose value is an absolute path. Throws a Failure for a relative path.
  std::string path(std::string_view name, std::string_view fallback = "") const {
    const std::string path(text(name, fallback));
    if (path.empty() || path[0] == '/') return path;
    fail(EDGECORE_INVALID_ARGUMENT, "the load option %.*s is no absolute path: %s", static_cast<int>(name.size()),
         name.data(), path.c_str());
  }

 private:
  const edgecore_option *find(std::string_view name) const {
    const char *item = reinterpret_cast<const char *>(options_.items);
    for (uint64_t i = 0; i < options_.count; ++i, item += options_.stride) {
      const auto *option = reinterpret_cast<const edgecore_option *>(item);
      if (to_view(option->name) == name) return option;
    }
    return nullptr;
  }
  edgecore_options options_;
};

// Returns the value of a delegate's compile spec, or an empty text if the file has none with this key. The text is
// valid until the constructor of Delegate returns.
inline std::string_view compile_spec(const edgecore_delegate_info &info, std::string_view key) {
  const auto *item = reinterpret_cast<const char *>(info.compile_specs);
  for (uint64_t i = 0; i < info.compile_spec_count; ++i, item += info.compile_spec_stride) {
    const auto *spec = reinterpret_cast<const edgecore_compile_spec *>(item);
    if (to_view(spec->key) != key) continue;
    return {reinterpret_cast<const char *>(spec->value.data), static_cast<size_t>(spec->value.size)};
  }
  return {};
}

}  // namespace edgecore::backend

#endif  // EDGECORE_LOAD_OPTIONS_HPP_
