// A run that Python started and has not waited for.
#ifndef EDGECORE_PYTHON_RUN_H_
#define EDGECORE_PYTHON_RUN_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "runner.h"

namespace edgecore::python {

// Belongs to a Runner, which outlives it. When it is dropped before the run has ended, the results are dropped as well.
class Run {
 public:
  using Results = std::vector<Made>;
  Run(std::shared_ptr<Turn> turn, std::shared_ptr<StartedRun> started, std::shared_ptr<Results> results,
      const ArrayType *kind)
      : turn_(std::move(turn)), started_(std::move(started)), results_(std::move(results)), kind_(kind) {}

  bool done();
  // The results, the same objects each time; or the run's error is thrown. Signals are heard meanwhile.
  nanobind::object wait();

 private:
  std::shared_ptr<Turn> turn_;
  std::shared_ptr<StartedRun> started_;
  std::shared_ptr<Results> results_;
  const ArrayType *kind_;
  nanobind::object outputs_;  // of the first wait
};

void bind_run(nanobind::module_ &module);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_RUN_H_
