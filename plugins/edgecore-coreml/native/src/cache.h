// A cache of folders on disk, each named by the SHA-256 of the blob from which it was made.
#ifndef EDGECORE_COREML_CACHE_H_
#define EDGECORE_COREML_CACHE_H_

#include <functional>
#include <string>
#include <vector>

#include "blob.h"

namespace edgecore::coreml {

// Returns the folder `cache`/DIGEST. If it does not exist, writes `files` to a temporary folder, calls `finish` with
// the path of this folder, and renames it to DIGEST. So other threads and processes see the complete folder or none,
// even if this process is killed. Throws edgecore::backend::Failure if a file cannot be written.
std::string cached_folder(const std::string &cache, edgecore_bytes blob, const std::vector<File> &files,
                          const std::function<void(const std::string &folder)> &finish);

// Returns the user's folder for caches: ~/Library/Caches/edgecore-coreml on Apple's systems, where each application has
// its own; $XDG_CACHE_HOME or ~/.cache elsewhere. Throws edgecore::backend::Failure if the environment names neither.
std::string default_cache();

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_CACHE_H_
