// Reads and checks the header of a blob; src/edgecore_openvino/blob/format.py writes blobs and describes the format.
// OpenVINO itself reads the model after the header. Its parsers are not made for damaged input, so the backend declares
// EDGECORE_NEEDS_TRUSTED_BLOBS.
#ifndef EDGECORE_OPENVINO_BLOB_H_
#define EDGECORE_OPENVINO_BLOB_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore::openvino {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxRank = 8;

// Kind of the model. kPortable: compiled when the file is loaded. kDevice: already compiled for a device. kBare: a
// compiled model that is the whole blob, without a header.
enum class Kind : uint32_t { kPortable = 0, kDevice = 1, kBare = 2 };

// An input or output of the delegate.
struct Argument {
  uint8_t code, bits;  // the dtype: its DLPack code (EDGECORE_DL_*) and size in bits
  std::vector<int64_t> min_shape, max_shape;

  int32_t rank() const { return static_cast<int32_t>(min_shape.size()); }
};

// The content of a blob; `model` and `weights` point into the blob.
struct Payload {
  Kind kind;
  std::vector<Argument> inputs, outputs;
  std::string device;
  std::vector<std::pair<std::string, std::string>> properties;
  bool is_static;        // true if no argument has a symbolic size
  edgecore_bytes model;  // the XML text of a portable model, or a compiled model
  edgecore_bytes weights;
};

// Reads a blob. Throws edgecore::backend::Failure if the bytes are not a blob of this version, or the header is
// damaged.
Payload read_blob(edgecore_bytes blob);

}  // namespace edgecore::openvino

#endif  // EDGECORE_OPENVINO_BLOB_H_
