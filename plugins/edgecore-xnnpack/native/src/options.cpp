#include "options.h"

#include <cstdlib>

namespace edgecore::xnnpack {

namespace {

using backend::fail;

constexpr int64_t kMiB = 1 << 20;

constexpr edgecore_option_spec at_load(const char *name, uint32_t type, const char *help) {
  return backend::option(name, type, EDGECORE_OPTION_AT_LOAD, help);
}

// Returns the enumerator that a load option names, or `absent` if it is not set. `names` has the enumerators' names.
template <typename Enum>
Enum read_name(const backend::Options &options, const char *option, const std::string_view (&names)[3], Enum absent) {
  const std::string name(options.text(option, names[static_cast<size_t>(absent)]));
  for (size_t i = 0; i < std::size(names); ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
  }
  fail(EDGECORE_INVALID_ARGUMENT, "the option %s is '%s', '%s' or '%s'; got '%.100s'", option, names[0].data(),
       names[1].data(), names[2].data(), name.c_str());
}

// Reads a load option that is a size of at least `min` MiB, and returns it in bytes; returns `absent` if it is not set.
uint64_t read_size(const backend::Options &options, const char *option, int64_t min, uint64_t absent) {
  if (!options.has(option)) return absent;
  const int64_t size = options.integer(option, 0);
  if (size < min || size > INT64_MAX / kMiB) {
    fail(EDGECORE_INVALID_ARGUMENT, "the option %s is at least %lld MiB and at most %lld; got %lld", option,
         static_cast<long long>(min), static_cast<long long>(INT64_MAX / kMiB), static_cast<long long>(size));
  }
  return static_cast<uint64_t>(size * kMiB);
}

// Returns a load option that sets the number of rows or columns of a tile; 0 if the option is not set.
uint32_t read_tile(const backend::Options &options, const char *option) {
  const int64_t number = options.integer(option, 0);
  if (number < 0 || number > UINT8_MAX || (number == 0 && options.has(option))) {
    fail(EDGECORE_INVALID_ARGUMENT, "the option %s is at least 1 and at most %d; got %lld", option, UINT8_MAX,
         static_cast<long long>(number));
  }
  return static_cast<uint32_t>(number);
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
    at_load("winograd", EDGECORE_OPTION_STRING,
            "compute 3x3 convolutions by Winograd's algorithm: off, accurate (2x2 tiles), on (4x4 tiles, too)"),
    at_load("winograd_memory", EDGECORE_OPTION_INT,
            "MiB by which winograd may enlarge the packed weights of a delegate"),
    at_load("tile_columns", EDGECORE_OPTION_INT,
            "outputs that fp32 matrix products compute at a time, instead of a choice for each layer"),
    at_load("tile_rows", EDGECORE_OPTION_INT,
            "the most rows that fp32 matrix products compute at a time, instead of a choice for each layer"),
};
const uint64_t kOptionCount = std::size(kOptions);

LoadOptions read_options(const backend::Options &options) {
  LoadOptions result;
  result.workspace_sharing =
      read_name(options, "workspace_sharing", {"disabled", "per_model", "global"}, result.workspace_sharing);
  result.winograd = read_name(options, "winograd", {"off", "accurate", "on"}, result.winograd);
  result.weight_cache = options.integer("weight_cache", 1) != 0;
  const bool has_folder = options.has("weight_cache_folder");
  const char *folder = secure_getenv("EDGECORE_XNNPACK_CACHE");
  result.weight_cache_folder = options.text("weight_cache_folder", folder == nullptr ? "" : folder);
  if (has_folder && !result.weight_cache) {
    fail(EDGECORE_INVALID_ARGUMENT, "the option weight_cache_folder needs weight_cache");
  }
  result.weight_cache_limit = read_size(options, "weight_cache_limit", 1, result.weight_cache_limit);
  result.winograd_memory = read_size(options, "winograd_memory", 0, result.winograd_memory);
  result.tile = {read_tile(options, "tile_rows"), read_tile(options, "tile_columns")};
  check_tile(result.tile);
  return result;
}

}  // namespace edgecore::xnnpack
