#include "options.h"

#include <cstdlib>

namespace edgecore::xnnpack {

namespace {

using backend::fail;

constexpr int64_t kMiB = 1 << 20;

constexpr edgecore_option_spec at_load(const char *name, uint32_t type, const char *help) {
  return backend::option(name, type, EDGECORE_OPTION_AT_LOAD, help);
}

Sharing read_sharing(std::string_view name) {
  constexpr std::string_view kNames[] = {"disabled", "per_model", "global"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<Sharing>(i);
  }
  fail(EDGECORE_INVALID_ARGUMENT, "the option workspace_sharing is 'disabled', 'per_model' or 'global'; got '%.*s'",
       static_cast<int>(std::min<size_t>(name.size(), 100)), name.data());
}

}  // namespace

const edgecore_option_spec kOptions[] = {
    at_load("workspace_sharing", EDGECORE_OPTION_STRING,
            "which delegates share memory for intermediate values, and run one after the other: disabled, per_model, "
            "global"),
    at_load("weight_cache", EDGECORE_OPTION_BOOL, "share packed weights within the process"),
    at_load("weight_cache_folder", EDGECORE_OPTION_STRING, "store packed weights in files of this folder, too"),
    at_load("weight_cache_limit", EDGECORE_OPTION_INT,
            "max size of the folder in MiB; the least recently used files are removed"),
};
const uint64_t kOptionCount = std::size(kOptions);

LoadOptions read_options(const backend::Options &options) {
  LoadOptions result;
  result.workspace_sharing = read_sharing(options.text("workspace_sharing", "disabled"));
  result.weight_cache = options.integer("weight_cache", 1) != 0;
  const bool has_folder = options.has("weight_cache_folder");
  const char *folder = secure_getenv("EDGECORE_XNNPACK_CACHE");
  result.weight_cache_folder = options.text("weight_cache_folder", folder == nullptr ? "" : folder);
  if (has_folder && !result.weight_cache) {
    fail(EDGECORE_INVALID_ARGUMENT, "the option weight_cache_folder needs weight_cache");
  }
  if (options.has("weight_cache_limit")) {
    const int64_t limit = options.integer("weight_cache_limit", 0);
    if (limit < 1 || limit > INT64_MAX / kMiB) {
      fail(EDGECORE_INVALID_ARGUMENT, "the option weight_cache_limit is at least 1 MiB and at most %lld; got %lld",
           static_cast<long long>(INT64_MAX / kMiB), static_cast<long long>(limit));
    }
    result.weight_cache_limit = static_cast<uint64_t>(limit * kMiB);
  }
  return result;
}

}  // namespace edgecore::xnnpack
