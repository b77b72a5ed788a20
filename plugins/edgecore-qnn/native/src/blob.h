// Reads the blob of a delegate: a context binary in the layout of ExecuTorch's Qualcomm delegate, followed by
// edgecore-qnn's header. src/edgecore_qnn/blob.py writes blobs and describes the format. QNN's own parser is not made
// for damaged input, so the backend declares EDGECORE_NEEDS_TRUSTED_BLOBS, and read_blob compares the context's SHA-256
// before passing it to QNN.
#ifndef EDGECORE_QNN_BLOB_H_
#define EDGECORE_QNN_BLOB_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore::qnn {

// An element type that both edgecore and ONNX support.
struct ElementType {
  std::string_view name;
  int32_t onnx;        // ONNX's number of the type, also used by ONNX Runtime's C interface
  uint8_t code, bits;  // the type in DLPack: its code (EDGECORE_DL_*) and the bits of an element
};

// An input or output of the delegate: a tensor of the ONNX model.
struct Argument {
  std::string name;
  ElementType type;
  std::vector<int64_t> shape;
  uint64_t bytes;
  float largest;  // for an input: finite numbers are clamped to this magnitude; 0: no limit

  int32_t rank() const { return static_cast<int32_t>(shape.size()); }
};

struct Payload {
  std::string sdk_build;  // the QNN SDK that compiled the context, such as v2.51.0.260929181845
  std::string soc;
  uint32_t soc_id;
  std::string partition_name;
  std::vector<Argument> inputs, outputs;
  edgecore_bytes context;  // the context binary, whose bytes are in the blob
};

// Reads a blob. Throws edgecore::backend::Failure if the bytes are not a blob of this version, or are damaged.
Payload read_blob(edgecore_bytes blob);

// Throws edgecore::backend::Failure if the SDK `installed` cannot load a context that the SDK `built` has compiled: QNN
// loads contexts of its own version and of older ones. Versions are dotted numbers, such as v2.51.0 or
// 2.51.0.260929181845. Only the numbers that both versions have are compared.
void check_sdk(std::string_view built, std::string_view installed);

}  // namespace edgecore::qnn

#endif  // EDGECORE_QNN_BLOB_H_
