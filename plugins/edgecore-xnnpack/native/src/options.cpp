#include "options.h"

#include <cstdlib>

namespace edgecore::xnnpack {

namespace {

constexpr int64_t kMiB = 1 << 20;

constexpr edgecore_str Text(const char *text) { return {text, __builtin_strlen(text)}; }

constexpr edgecore_option_spec Spec(const char *name, uint32_t type, const char *help) {
  return {{sizeof(edgecore_option_spec), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},
          Text(name),
          type,
          EDGECORE_OPTION_AT_LOAD,
          Text(help)};
}

bool ReadSharing(const std::string &value, Sharing *sharing, Failure *failure) {
  constexpr const char *kNames[] = {"disabled", "per_model", "global"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (value != kNames[i]) continue;
    *sharing = static_cast<Sharing>(i);
    return true;
  }
  return failure->Set(EDGECORE_INVALID_ARGUMENT,
                      "the option workspace_sharing is 'disabled', 'per_model' or 'global'; got '%.100s'",
                      value.c_str());
}

}  // namespace

const edgecore_option_spec kOptions[] = {
    Spec("workspace_sharing", EDGECORE_OPTION_STRING,
         "delegates that share memory for intermediate values, and take turns: disabled, per_model, global"),
    Spec("weight_cache", EDGECORE_OPTION_BOOL, "keep packed weights once in the process"),
    Spec("weight_cache_folder", EDGECORE_OPTION_STRING, "keep packed weights in files of this folder, too"),
    Spec("weight_cache_limit", EDGECORE_OPTION_INT, "MiB that the folder may hold; what was not used longest goes"),
};
const uint64_t kOptionCount = std::size(kOptions);

bool ReadOptions(const edgecore_options &given, Options *options, Failure *failure) {
  const auto *at = reinterpret_cast<const uint8_t *>(given.items);
  const char *folder = secure_getenv("EDGECORE_XNNPACK_CACHE");
  if (folder != nullptr) options->weight_cache_folder = folder;
  bool has_folder = false;
  for (uint64_t i = 0; i < given.count; ++i, at += given.stride) {
    const auto &option = *reinterpret_cast<const edgecore_option *>(at);
    const std::string name(option.name.data, option.name.size);
    const auto text = [&] {
      return std::string(reinterpret_cast<const char *>(option.value.bytes.data), option.value.bytes.size);
    };
    if (name == "workspace_sharing") {
      if (!ReadSharing(text(), &options->workspace_sharing, failure)) return false;
    } else if (name == "weight_cache") {
      options->weight_cache = option.value.i != 0;
    } else if (name == "weight_cache_folder") {
      options->weight_cache_folder = text();
      has_folder = true;
    } else if (name == "weight_cache_limit") {
      if (option.value.i < 1 || option.value.i > INT64_MAX / kMiB) {
        return failure->Set(EDGECORE_INVALID_ARGUMENT,
                            "the option weight_cache_limit is at least 1 MiB and at most %lld; got %lld",
                            static_cast<long long>(INT64_MAX / kMiB), static_cast<long long>(option.value.i));
      }
      options->weight_cache_limit = static_cast<uint64_t>(option.value.i * kMiB);
    }
  }
  if (has_folder && !options->weight_cache) {
    return failure->Set(EDGECORE_INVALID_ARGUMENT, "the option weight_cache_folder needs weight_cache");
  }
  return true;
}

}  // namespace edgecore::xnnpack
