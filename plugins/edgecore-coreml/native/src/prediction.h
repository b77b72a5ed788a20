// Repeats a prediction with the engine's own memory if the engine refuses to write into the caller's memory.
#ifndef EDGECORE_COREML_PREDICTION_H_
#define EDGECORE_COREML_PREDICTION_H_

namespace edgecore::coreml {

// Returns the result of `run`, which is null if the prediction has failed. Calls `run(true)` first, which asks the
// engine to write into the caller's memory; if the engine refuses, calls `run(false)`, which uses the engine's own
// memory. With `only_own_memory`, calls only run(false). A prediction that updates states needs this, because it must
// not run twice; so does a run to which the caller passes no memory.
template <typename Run>
auto predict_once(bool only_own_memory, const Run &run) {
  if (only_own_memory) return run(false);
  auto results = run(true);
  return results ? results : run(false);
}

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_PREDICTION_H_
