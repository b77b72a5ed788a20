// Writes the ONNX model by which ONNX Runtime's QNN provider loads a context binary. The model is one EPContext node of
// the domain com.microsoft, as in ONNX Runtime's documentation ("EPContext design") and in its output for
// session.ep.context_enable.
#ifndef EDGECORE_QNN_CONTEXT_MODEL_H_
#define EDGECORE_QNN_CONTEXT_MODEL_H_

#include <string>

#include "blob.h"

namespace edgecore::qnn {

// The name under which ONNX Runtime's QNN provider must be registered: EPContext nodes must store it in their attribute
// `source`.
constexpr const char *kProvider = "QNNExecutionProvider";

// Returns the ONNX model as a protobuf, with a copy of the context binary.
std::string context_model(const Payload &payload);

}  // namespace edgecore::qnn

#endif  // EDGECORE_QNN_CONTEXT_MODEL_H_
