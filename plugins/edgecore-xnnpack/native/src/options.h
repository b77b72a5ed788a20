// The options that a user can set when a .pte file is loaded.
#ifndef EDGECORE_XNNPACK_OPTIONS_H_
#define EDGECORE_XNNPACK_OPTIONS_H_

#include <string>

#include "edgecore/backend.hpp"
#include "tiles.h"

namespace edgecore::xnnpack {

enum class Sharing : uint8_t { kDisabled, kPerModel, kGlobal };

// The Winograd algorithms that may compute convolutions. kOff: none; kAccurate: F(2x2); kOn: F(2x2) and F(4x4).
enum class Winograd : uint8_t { kOff, kAccurate, kOn };

struct LoadOptions {
  Winograd winograd = Winograd::kOn;
  uint64_t winograd_memory = 128ull << 20;  // bytes that Winograd's algorithm may add to a delegate's packed weights
  Tile tile;  // output rows x columns that fp32 layers' kernels compute at a time; {}: XNNPACK chooses for each layer
  Sharing workspace_sharing = Sharing::kDisabled;
  bool weight_cache = true;
  std::string weight_cache_folder;           // folder for files of packed weights; empty: none are written
  uint64_t weight_cache_limit = 4ull << 30;  // maximum bytes of files in the weight cache folder
};

// The names, types and help texts of the load options. The backend's function table publishes them, so that edgecore's
// runtime can check the options of a load call.
extern const edgecore_option_spec kOptions[];
extern const uint64_t kOptionCount;

// Reads the options of a load call. If weight_cache_folder is absent, the environment variable EDGECORE_XNNPACK_CACHE
// names the folder. Throws backend::Failure for an invalid option.
LoadOptions read_options(const backend::Options &options);

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_OPTIONS_H_
