// Reads and writes arrays in numpy's .npy files: versions 1.0 to 3.0, row-major, little-endian
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

// read_file() reads all bytes of a file, read_npy() the array of a .npy file. Errors: ACCESS_FAILED. read_npy() also
// fails with INVALID_ARGUMENT if the array is not row-major, or if edgecore does not support its dtype.
Status read_file(const char *path, std::vector<uint8_t> &bytes, Error &error);
Status read_npy(const char *path, Array &array, Error &error);

// Writes row-major `data` to a .npy file. Errors: ACCESS_FAILED, NOT_SUPPORTED (a dtype that numpy lacks).
Status write_npy(const std::string &path, int32_t scalar_type, Span<const int64_t> shape, Bytes data, Error &error);

}  // namespace edgecore::tools

#endif  // EDGECORE_TOOLS_NPY_H_
