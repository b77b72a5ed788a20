// Writes the ONNX model by which ONNX Runtime's QNN provider takes a context binary: one node EPContext of the domain
// com.microsoft, as ONNX Runtime documents it ("EPContext design") and writes it for session.ep.context_enable.
#ifndef EDGECORE_QNN_CONTEXT_MODEL_H_
#define EDGECORE_QNN_CONTEXT_MODEL_H_

#include <string>

#include "blob.h"

namespace edgecore::qnn {

// The name under which the provider must be registered: it takes only nodes with this name in the attribute `source`.
constexpr const char *kProvider = "QNNExecutionProvider";

// Returns the model as an ONNX protobuf, with a copy of the context binary.
std::string context_model(const Payload &payload);

}  // namespace edgecore::qnn

#endif  // EDGECORE_QNN_CONTEXT_MODEL_H_
