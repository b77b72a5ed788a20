// Reads the blob of a delegate: a context binary in the layout of ExecuTorch's Qualcomm delegate, and behind it the
// header of edgecore-qnn. src/edgecore_qnn/blob.py writes blobs and describes the format. QNN's own parser is not made
// for damaged input, so the backend declares EDGECORE_NEEDS_TRUSTED_BLOBS, and read_blob compares the context's SHA-256
// before QNN sees it.
#ifndef EDGECORE_QNN_BLOB_H_
#define EDGECORE_QNN_BLOB_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore::qnn {

// An element type that both edgecore and ONNX have.
struct ElementType {
  std::string_view name;
  int32_t onnx;        // ONNX's number of the type, which ONNX Runtime's C interface uses too
  uint8_t code, bits;  // the same type in DLPack's terms: EDGECORE_DL_*, bits of an element
};

// An input or output of the delegate: a tensor of the ONNX model.
struct Argument {
  std::string name;
  ElementType type;
  std::vector<int64_t> shape;
  uint64_t bytes;
  float largest;  // of an input: the magnitude to which its finite numbers are reduced; 0: none

  int32_t rank() const { return static_cast<int32_t>(shape.size()); }
};

struct Payload {
  std::string sdk_build;  // the QNN SDK that compiled the context, such as v2.51.0.260929181845
  std::string soc;
  uint32_t soc_id;
  std::string partition_name;
  std::vector<Argument> inputs, outputs;
  edgecore_bytes context;  // the context binary, in the blob
};

// Reads a blob. Throws edgecore::backend::Failure if the bytes are not a blob of this version, or are damaged.
Payload read_blob(edgecore_bytes blob);

// Throws edgecore::backend::Failure if a context of the SDK `built` cannot be loaded by the SDK `installed`: QNN loads
// contexts of its own and of older versions. Both are numbers with points between them, such as v2.51.0 or
// 2.51.0.260929181845; numbers that one of them does not have are not compared.
void check_sdk(std::string_view built, std::string_view installed);

}  // namespace edgecore::qnn

#endif  // EDGECORE_QNN_BLOB_H_
