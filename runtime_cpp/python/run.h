// edgecore.Run: a call of a method that Method.start has started and that may still be running.
#ifndef EDGECORE_PYTHON_RUN_H_
#define EDGECORE_PYTHON_RUN_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "method.h"

namespace edgecore::python {

// The native class of edgecore.Run. The PyMethod outlives the PyRun. If a PyRun is destroyed before the run has
// finished, the results are lost.
class PyRun {
 public:
  using Slots = std::vector<OutputSlot>;
  PyRun(std::shared_ptr<ExecutionLock> lock, std::shared_ptr<Run> run, std::shared_ptr<Slots> slots,
        const ArrayType *kind, nanobind::object unflatten)
      : lock_(std::move(lock)),
        run_(std::move(run)),
        slots_(std::move(slots)),
        kind_(kind),
        unflatten_(std::move(unflatten)) {}

  // Advances the run without blocking. Returns true once it has finished.
  bool done();
  // Waits for the run. Returns the run's results (each call returns the same objects), or throws the run's error. Runs
  // Python's signal handlers while waiting.
  nanobind::object wait();

 private:
  std::shared_ptr<ExecutionLock> lock_;
  std::shared_ptr<Run> run_;
  std::shared_ptr<Slots> slots_;
  const ArrayType *kind_;
  nanobind::object unflatten_;  // see PyMethod
  nanobind::object outputs_;    // the results of the run, set by the first wait() that succeeds
};

void bind_run(nanobind::module_ &module);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_RUN_H_
