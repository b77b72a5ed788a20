// edgecore.Method: calls a method of a program with arrays and returns arrays.
#ifndef EDGECORE_PYTHON_METHOD_H_
#define EDGECORE_PYTHON_METHOD_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "edgecore/module.h"
#include "input.h"
#include "program.h"
#include "tensor.h"

namespace edgecore::python {

class PyRun;

// One input of a call, read from the caller's object. The tag that the method declares for the input determines which
// member is used.
struct InputArg {
  ArrayView view;
  int64_t integer = 0;
  double number = 0;
};

// One output of a call, with the caller's buffer for it, if any.
struct OutputSlot {
  nanobind::object object;  // the caller's buffer from `out`, if any; owned here, because the list `out` may change
  ArrayView out;            // a view of `object`
  // true: the method itself writes the output into the caller's buffer, so no copy is needed
  bool direct = false;
  PyTensor tensor;            // the result of the call, if the caller has passed no buffer for it
  edgecore_value value = {};  // the method's output; if it is a tensor, its data are in `tensor` or `out`

  // Converts the output to an object for the caller. `kind` is the type of the first tensor input, or NULL if there is
  // none. A tensor output becomes an array of the same library (numpy, torch); if `kind` is NULL, it becomes an
  // edgecore.Tensor.
  nanobind::object result(const ArrayType *kind);
};

// Copies output `index` of the method's last run to `slot`. Errors: INVALID_ARGUMENT (the caller's buffer has another
// shape than the output).
Status collect_output(const Method &method, const ValueInfo &info, size_t index, OutputSlot &slot, Error &error);

// The native class of edgecore.Method: a method that is loaded when it is first used.
class PyMethod {
 public:
  PyMethod(std::shared_ptr<PyProgram> program, size_t index);

  // Sets the functions that convert nested arguments and results; either may be None. `flatten` maps nested arguments
  // (a tuple of positional arguments, and a dict of named arguments) to the tuple of all inputs, or to None if no
  // argument is nested. `unflatten` maps the list of outputs to nested results.
  void set_nesting(nanobind::object flatten, nanobind::object unflatten);

  // Makes the tuple of all inputs from the arguments of a call. `keywords` may be an invalid handle.
  nanobind::object flat_inputs(nanobind::handle inputs, nanobind::handle keywords) const;

  // Runs the method once with the tuple `inputs`. `out` is an invalid handle, None, or a sequence with one writable
  // buffer for every output, which become the results; for a method with one output, `out` may also be the buffer
  // itself. Calls of one method from several threads run one after the other. A thread releases the GIL while it waits
  // for another call or runs the method.
  nanobind::object call(nanobind::handle inputs, nanobind::handle out);

  // Starts a run with the tuple `inputs`. Copies the tensors that a delegate may still read after start has returned.
  std::unique_ptr<PyRun> start(nanobind::handle inputs);

  // Returns the loaded method. Throws if it cannot be loaded.
  Method &loaded() {
    if (method_ == nullptr) load();
    return *method_;
  }
  const MethodInfo &info() const { return info_; }
  const std::shared_ptr<PyProgram> &program() const { return program_; }

  PyMethod(const PyMethod &) = delete;
  PyMethod &operator=(const PyMethod &) = delete;

 private:
  struct Input {
    ValueInfo info;
    HeapBlock copy;  // holds a contiguous copy of a tensor whose layout is not the expected one
    uint64_t copy_bytes = 0;
  };
  struct Output {
    ValueInfo info;
    std::shared_ptr<BlockCache> cache;
  };

  void load();
  [[noreturn]] void refuse_count(size_t count) const;
  // Makes the tuple of all inputs from a tuple of the first inputs and a dict of the remaining inputs by name. Ignores
  // the key `out`.
  nanobind::object arrange(nanobind::handle inputs, nanobind::handle keywords) const;
  Status read_input(size_t index, PyObject *object, InputArg &arg, Error &error);
  Status read_out(size_t index, PyObject *object, OutputSlot &slot, Error &error);
  Status set_arguments(InputArg *args, OutputSlot *slots, Error &error);
  Status set_tensor(size_t index, const ArrayView &view, Error &error);
  Status set_output_memory(size_t index, const InputArg *args, OutputSlot &slot, Error &error);

  // Every call holds this lock while it runs; NULL before the method is loaded. Acquire the lock only without the GIL,
  // because the thread that holds the lock may wait for the GIL. Declared before `program_`, so that the lock is
  // destroyed after the program. The lock owns a pending run, and destroying the program ends that run.
  std::shared_ptr<ExecutionLock> lock_;
  std::shared_ptr<PyProgram> program_;
  size_t index_;
  MethodInfo info_;
  Method *method_ = nullptr;  // the loaded method; NULL before it is loaded
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  nanobind::object flatten_;    // flattens nested arguments (set_nesting); invalid if no argument is nested
  nanobind::object unflatten_;  // builds nested results from the outputs (set_nesting); invalid if results are flat
};

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_METHOD_H_
