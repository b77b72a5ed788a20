// The engine of systems that have neither Core ML nor the stand-in for tests: make_engine throws an error.
#include "model.h"

namespace edgecore::coreml {

std::shared_ptr<Engine> make_engine(const std::string &) {
  edgecore::backend::fail(
      EDGECORE_NOT_SUPPORTED,
      "the file has a model for Apple's Core ML, which needs macOS, iOS, iPadOS or tvOS: run it on a Mac, or in an app "
      "that links a delegate for CoreMLBackend");
}

}  // namespace edgecore::coreml
