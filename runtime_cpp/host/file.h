// Opens files of the operating system.
#ifndef EDGECORE_HOST_FILE_H_
#define EDGECORE_HOST_FILE_H_

#include <cstdint>

#include "edgecore/status.h"

namespace edgecore {

// Opens a regular, non-empty file for reading. Returns its descriptor, which the caller must close, and sets `size`.
// Errors: ACCESS_FAILED (with the system's reason), INVALID_PROGRAM (not a regular file, or empty).
Result<int> open_regular(const char *path, uint64_t &size, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_FILE_H_
