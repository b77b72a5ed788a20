// ONNX Runtime's objects: one environment with the QNN provider for the process, and one session for each delegate.
#ifndef EDGECORE_QNN_SESSION_H_
#define EDGECORE_QNN_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "blob.h"
#include "ort_api.h"

namespace edgecore::qnn {

// Settings of sessions: the load options of one .pte file.
struct Settings {
  std::string ort;               // absolute path of libonnxruntime
  std::string provider;          // absolute path of libonnxruntime_providers_qnn
  std::string profile;           // path of ONNX Runtime's profile, without the suffix; empty: no profile
  std::string performance_mode;  // performance mode of the NPU (its clock rates); empty: the provider's default
};

// A context binary that QNN has loaded. Several threads may call `run` at the same time.
class Session {
 public:
  // Opens ONNX Runtime's libraries if this is the first session, and passes the context to QNN. `payload` must outlive
  // the session; its context binary is used only here.
  Session(const Settings &settings, const Payload &payload);

  // Runs the model on the caller's memory, without copies. Inputs and outputs have the order of the payload.
  void run(const std::vector<Value> &inputs, const std::vector<Value> &outputs) const;

 private:
  struct Close {
    void operator()(OrtSession *session) const;
  };
  std::unique_ptr<OrtSession, Close> session_;
  std::vector<const char *> input_names_, output_names_;
};

// Makes an ONNX Runtime tensor that uses the caller's memory.
Value make_value(const Argument &argument, void *data);

}  // namespace edgecore::qnn

#endif  // EDGECORE_QNN_SESSION_H_
