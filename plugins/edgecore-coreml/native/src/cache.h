// A cache of folders on disk, each named after the SHA-256 of the blob that it was made of.
#ifndef EDGECORE_COREML_CACHE_H_
#define EDGECORE_COREML_CACHE_H_

#include <functional>
#include <string>
#include <vector>

#include "blob.h"

namespace edgecore::coreml {

// Returns the folder `cache`/DIGEST. If it does not exist, writes `files` to a new folder, calls `finish` with its
// path, and renames it: other threads and processes see the whole folder or none, and one that was cut off leaves no
// half of it. Throws edgecore::backend::Failure if a file cannot be written.
std::string cached_folder(const std::string &cache, edgecore_bytes blob, const std::vector<File> &files,
                          const std::function<void(const std::string &folder)> &finish);

// Returns the folder for caches of the user: ~/Library/Caches/edgecore-coreml on Apple's systems, which an application
// has in its own container; $XDG_CACHE_HOME or ~/.cache elsewhere. Throws edgecore::backend::Failure if the environment
// names neither.
std::string default_cache();

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_CACHE_H_
