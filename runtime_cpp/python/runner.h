// A method as Python sees it: called with arrays, gives arrays.
#ifndef EDGECORE_PYTHON_RUNNER_H_
#define EDGECORE_PYTHON_RUNNER_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "edgecore/module.h"
#include "host/turn.h"
#include "input.h"
#include "tensor.h"

namespace edgecore::python {

class Run;

// One input as the caller gave it.
struct Given {
  ArrayView view;
  int64_t integer = 0;
  double number = 0;
};

// One output on its way to the caller.
struct Made {
  nanobind::object object;  // the caller's buffer, if one was given; the sequence may change meanwhile
  ArrayView out;            // a view of it
  bool direct = false;      // the method writes into `out` itself
  Tensor tensor;
  edgecore_value value = {};  // its tensor is in `tensor`

  // What the caller gets; `kind` is the type of the first input, or NULL.
  nanobind::object result(const ArrayType *kind);
};

// Takes output `index` of a method that has run.
Status take_result(const Method &method, const ValueInfo &info, size_t index, Made &made, Error &error);

class Runner {
 public:
  // Calls take `turn` while they run.
  Runner(std::shared_ptr<Module> module, Method &method, std::shared_ptr<Turn> turn);

  // The tuple of all inputs from a tuple of the first ones and a dict of others by name (`out` is passed over).
  nanobind::object arrange(nanobind::handle inputs, nanobind::handle keywords) const;

  // Runs once with the tuple `inputs`. `out` is no object, None, or a sequence with one writable buffer for every
  // output, which are then the results; of a method with one output also the buffer itself.
  // Threads that call one Runner at the same time take turns; none holds the GIL while it waits or runs.
  nanobind::object call(nanobind::handle inputs, nanobind::handle out);

  // Starts a run with the tuple `inputs`, whose tensors are copied where a delegate might read them later.
  std::unique_ptr<Run> start(nanobind::handle inputs);

  const Method &method() const { return method_; }
  const std::shared_ptr<Module> &module() const { return module_; }

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

  [[noreturn]] void refuse_count(size_t given) const;
  Status read_input(size_t index, PyObject *object, Given &given, Error &error);
  Status read_out(size_t index, PyObject *object, Made &made, Error &error);
  // All inputs, and memory for all outputs.
  Status set_arguments(Given *given, Made *made, Error &error);
  Status set_tensor(size_t index, const ArrayView &view, Error &error);
  Status give_memory(size_t index, const Given *given, Made &made, Error &error);
  Status take_result(size_t index, Made &made, Error &error) const {
    return python::take_result(method_, outputs_[index].info, index, made, error);
  }

  std::shared_ptr<Turn> turn_;  // taken without the GIL only; a run that is pending in it ends with the module
  std::shared_ptr<Module> module_;
  Method &method_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_RUNNER_H_
