// The options of loading a program.
#ifndef EDGECORE_XNNPACK_OPTIONS_H_
#define EDGECORE_XNNPACK_OPTIONS_H_

#include <string>

#include "edgecore/backend.h"
#include "failure.h"

namespace edgecore::xnnpack {

enum class Sharing : uint8_t { kDisabled, kPerModel, kGlobal };

struct Options {
  Sharing workspace_sharing = Sharing::kDisabled;
  bool weight_cache = true;
  std::string weight_cache_folder;           // empty: only in the process
  uint64_t weight_cache_limit = 4ull << 30;  // bytes in the folder
};

// What the options are called, for the backend's table.
extern const edgecore_option_spec kOptions[];
extern const uint64_t kOptionCount;

// Names and types are as in kOptions; the host has seen to it. EDGECORE_XNNPACK_CACHE stands for weight_cache_folder
// where that is not given.
bool ReadOptions(const edgecore_options &given, Options *options, Failure *failure);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_OPTIONS_H_
