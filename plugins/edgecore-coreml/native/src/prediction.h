// Repeats a prediction with the engine's own memory if the engine refuses to write into the caller's memory.
#ifndef EDGECORE_COREML_PREDICTION_H_
#define EDGECORE_COREML_PREDICTION_H_

namespace edgecore::coreml {

// Returns the result of `run`, which is null if the prediction has failed. `run(true)` asks the engine to write into
// the caller's memory, which it may refuse; then `run(false)` lets it use its own memory. With `only_own_memory`, calls
// only run(false): a prediction that updates states must not run twice, and without memory of the caller there is
// nothing to refuse.
template <typename Run>
auto predict_once(bool only_own_memory, const Run &run) {
  if (only_own_memory) return run(false);
  auto results = run(true);
  return results ? results : run(false);
}

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_PREDICTION_H_
