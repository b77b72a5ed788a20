// How often a prediction runs.
#ifndef EDGECORE_COREML_PREDICTION_H_
#define EDGECORE_COREML_PREDICTION_H_

namespace edgecore::coreml {

// Returns what `run` returns, null if the prediction has failed. `run(true)` asks the engine to write into the caller's
// memory, which it may refuse; then `run(false)` lets it use memory of its own. With `only_own_memory` it does so at
// once: a prediction that updates states must not run twice, and one without memory of the caller's cannot be refused.
template <typename Run>
auto predict_once(bool only_own_memory, const Run &run) {
  if (only_own_memory) return run(false);
  auto results = run(true);
  return results ? results : run(false);
}

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_PREDICTION_H_
