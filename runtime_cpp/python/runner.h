// A method as Python sees it: called with arrays, gives arrays.
#ifndef EDGECORE_PYTHON_RUNNER_H_
#define EDGECORE_PYTHON_RUNNER_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <vector>

#include "edgecore/module.h"
#include "input.h"
#include "tensor.h"

namespace edgecore::python {

class Runner {
 public:
  // Calls hold `turn` while they run.
  Runner(std::shared_ptr<Module> module, Method &method, std::shared_ptr<std::mutex> turn);

  // Runs once with the tuple `inputs`. `out` is no object, None, or a sequence with one writable buffer for every
  // output, which are then the results.
  // Threads that call one Runner at the same time take turns; none holds the GIL while it waits or runs.
  nanobind::object call(nanobind::handle inputs, nanobind::handle out);

  const Method &method() const { return method_; }

  Runner(const Runner &) = delete;
  Runner &operator=(const Runner &) = delete;

 private:
  struct Input {
    ValueInfo info;
    HeapBlock copy;  // of a tensor whose layout is not the expected one
    uint64_t copy_bytes = 0;
  };
  struct Output {
    ValueInfo info;
    std::shared_ptr<BlockCache> cache;
  };
  struct Given;
  struct Made;

  Status read_input(size_t index, PyObject *object, Given &given, Error &error);
  Status read_out(size_t index, PyObject *object, Made &made, Error &error);
  Status run(Given *given, Made *made, Error &error);
  Status set_tensor(size_t index, const ArrayView &view, Error &error);
  Status give_memory(size_t index, const Given *given, Made &made, Error &error);
  Status take_result(size_t index, Made &made, Error &error);

  std::shared_ptr<Module> module_;
  Method &method_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::shared_ptr<std::mutex> turn_;  // held without the GIL only
};

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_RUNNER_H_
