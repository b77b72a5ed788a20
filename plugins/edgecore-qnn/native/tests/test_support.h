// Shared helpers of the C++ tests: blobs, and the files that tests/native_files.py writes.
#ifndef EDGECORE_QNN_TEST_SUPPORT_H_
#define EDGECORE_QNN_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "edgecore/backend.hpp"
#include "qnn_header_generated.h"

namespace edgecore::qnn::test {

using Bytes = std::vector<uint8_t>;

inline edgecore_bytes view(const Bytes &bytes) { return {bytes.data(), bytes.size()}; }

// Returns the header of a context with the input "x", float32 [1, 3], and the output "y", uint8 [1, 2].
wire::HeaderT small_header();

// Returns a blob. Sets the header's SHA-256 of the context if it has none.
Bytes make_blob(wire::HeaderT header, const Bytes &context);
Bytes small_blob();

// The files for tests with the libraries of ONNX Runtime and QNN.
struct Files {
  std::string ort, provider;  // paths of the libraries
  Bytes blob;                 // y = relu(x), float32 [1, 4, 4, 8], for SM8650
};

// Reads the files. If there are none, skips the test and returns false.
bool find_files(Files *out);

std::string read_file(const std::string &path);

// Expects that `body` throws a Failure with this code and a message that contains `part`.
void expect_failure(int32_t code, const std::string &part, const std::function<void()> &body);

}  // namespace edgecore::qnn::test

#endif  // EDGECORE_QNN_TEST_SUPPORT_H_
