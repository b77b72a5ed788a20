// Arrays in numpy's .npy files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), version 1.0 to
// 3.0, row-major, little-endian.
#ifndef EDGECORE_TOOLS_NPY_H_
#define EDGECORE_TOOLS_NPY_H_

#include <string>
#include <vector>

#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore::tools {

struct Array {
  int32_t scalar_type = 0;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};

// Errors: ACCESS_FAILED, INVALID_ARGUMENT (not such a file, or a dtype that no tensor has).
Status read_file(const char *path, std::vector<uint8_t> &bytes, Error &error);
Status read_npy(const char *path, Array &array, Error &error);

// NOT_SUPPORTED for a dtype that numpy lacks. `data` is row-major.
Status write_npy(const std::string &path, int32_t scalar_type, Span<const int64_t> shape, Bytes data, Error &error);

}  // namespace edgecore::tools

#endif  // EDGECORE_TOOLS_NPY_H_
