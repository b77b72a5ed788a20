// Reads a blob, which is a folder serialized to bytes. src/edgecore_coreml/package/blob.py writes blobs and describes
// the layout.
#ifndef EDGECORE_COREML_BLOB_H_
#define EDGECORE_COREML_BLOB_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore::coreml {

struct File {
  std::string path;  // path of the file inside of the folder, with '/'
  edgecore_bytes content;
};

// A mutable buffer of the model that Core ML keeps as a state.
struct StateInfo {
  std::string buffer;  // the qualified name of the model's buffer
  std::string name;    // the name of the state in the Core ML model
  int32_t scalar_type = 0;
  std::vector<int64_t> shape;
  bool has_initial = false;     // true: the .pte's named data has initial values under the buffer's name
  edgecore_bytes initial = {};  // initial values of the state in row-major order; if empty, the state starts with zeros
};

// The Core ML model of a delegate.
struct Package {
  edgecore_bytes folder = {};  // bytes of the model's folder: the blob, or named data that several delegates share
  std::vector<File> files;
  std::vector<std::string> inputs, outputs;  // names in the model, in the order of the delegate's arguments
  std::vector<StateInfo> states;
  std::string function;  // function of the ML program to call; empty if the program has only one
};

// Reads the files of the folder that is serialized in `folder`; their contents point into these bytes. Refuses paths
// that would leave the folder (with ".."). Throws edgecore::backend::Failure if the bytes are damaged.
std::vector<File> read_files(edgecore_bytes folder);

// Reads a blob with its metadata. `named_data` returns the bytes under a key. Throws edgecore::backend::Failure if the
// blob is damaged.
Package read_package(edgecore_bytes blob, const std::function<edgecore_bytes(std::string_view)> &named_data);

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_BLOB_H_
