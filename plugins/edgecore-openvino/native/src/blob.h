// Reads and checks the header that src/edgecore_openvino/blob.py writes before a model. OpenVINO reads the bytes after
// it; its parsers promise nothing about damaged input, hence EDGECORE_NEEDS_TRUSTED_BLOBS.
#ifndef EDGECORE_OPENVINO_BLOB_H_
#define EDGECORE_OPENVINO_BLOB_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore_openvino {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxRank = 8;

enum class Kind : uint32_t { kPortable = 0, kDevice = 1 };

struct Argument {
  uint8_t code, bits;  // EDGECORE_DL_*
  std::vector<int64_t> min_shape, max_shape;

  int32_t rank() const { return static_cast<int32_t>(min_shape.size()); }
};

struct Payload {
  Kind kind;
  std::vector<Argument> inputs, outputs;
  std::string device;
  std::vector<std::pair<std::string, std::string>> properties;
  bool is_static;        // no size of an argument varies
  edgecore_bytes model;  // the text of a portable model, or a compiled one
  edgecore_bytes weights;
};

// Throws edgecore::backend::Failure if the bytes are not a blob of this version.
Payload read_blob(edgecore_bytes blob);

}  // namespace edgecore_openvino

#endif  // EDGECORE_OPENVINO_BLOB_H_
