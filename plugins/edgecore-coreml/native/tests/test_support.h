// Shared helpers of the C++ tests.
#ifndef EDGECORE_COREML_TEST_SUPPORT_H_
#define EDGECORE_COREML_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "edgecore/backend.hpp"

namespace edgecore::coreml::test {

inline edgecore_bytes view(const std::string &text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

// Expects that `body` throws a Failure whose message contains `part`.
inline void expect_failure(const std::string &part, const std::function<void()> &body) {
  try {
    body();
    ADD_FAILURE() << "nothing failed: " << part;
  } catch (const edgecore::backend::Failure &failure) {
    EXPECT_NE(failure.text.find(part), std::string::npos) << failure.text;
  }
}

// Returns the bytes of a folder: contents, then the tree as JSON in reverse.
inline std::string folder(const std::string &contents, const std::string &tree) {
  return contents + std::string(tree.rbegin(), tree.rend());
}

inline std::string node(int kind, size_t offset, size_t size, const std::string &children = "") {
  return R"({"kind":)" + std::to_string(kind) + R"(,"dataRegion":{"offset":)" + std::to_string(offset) + R"(,"size":)" +
         std::to_string(size) + R"(},"children":{)" + children + "}}";
}

// Returns a folder with the file metadata.json.
inline std::string with_metadata(const std::string &metadata) {
  const std::string root = node(1, 0, 0, R"("metadata.json":0)");
  return folder(metadata, R"({"nodes":[)" + node(0, 0, metadata.size()) + "," + root + "]}");
}

}  // namespace edgecore::coreml::test

#endif  // EDGECORE_COREML_TEST_SUPPORT_H_
