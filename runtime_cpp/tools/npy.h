// Reads and writes arrays in numpy's .npy files, version 1.0 to 3.0, row-major, little-endian
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
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

// Errors: ACCESS_FAILED; of read_npy also INVALID_ARGUMENT (not such a file, or a dtype that edgecore does not
// support).
Status read_file(const char *path, std::vector<uint8_t> &bytes, Error &error);
Status read_npy(const char *path, Array &array, Error &error);

// Writes row-major `data`. Errors: ACCESS_FAILED, NOT_SUPPORTED (a dtype that numpy lacks).
Status write_npy(const std::string &path, int32_t scalar_type, Span<const int64_t> shape, Bytes data, Error &error);

}  // namespace edgecore::tools

#endif  // EDGECORE_TOOLS_NPY_H_
