// edgecore.Program's native part: a file, its backends, and its methods, which are loaded when they are first used.
#ifndef EDGECORE_PYTHON_PROGRAM_H_
#define EDGECORE_PYTHON_PROGRAM_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <vector>

#include "edgecore/module.h"
#include "host/execution_lock.h"

namespace edgecore::python {

// The locks of the methods, by index; NULL: the method is not loaded. A run holds its method's lock; methods that share
// state (such as a mutable buffer) have the lock `shared`, so that their runs do not overlap. The vector changes with
// both the GIL and PyProgram::loading held, so that either suffices to read it.
struct ExecutionLocks {
  std::vector<std::shared_ptr<ExecutionLock>> locks;
  std::shared_ptr<ExecutionLock> shared = std::make_shared<ExecutionLock>();
};

// ExecutionLocks is the first base class, so that it is destroyed after Module: destroying the module ends pending
// runs, which the locks own.
struct PyProgram : ExecutionLocks, Module {
  MethodOptions options;     // of methods that are loaded later
  nanobind::object prepare;  // prepare(program, index) loads the backends and kernels that a method lacks

  // Held while a method of any session of the file is loaded. Acquire it only without the GIL. It is recursive because
  // Python code runs meanwhile: `prepare`, and handlers of log messages.
  std::shared_ptr<std::recursive_mutex> loading = std::make_shared<std::recursive_mutex>();
};

// Returns a method, which is loaded if it was not. Throws the Python exception of an error. Call it with the GIL held.
Method &ready_method(const std::shared_ptr<PyProgram> &program, size_t index);

void bind_program(nanobind::module_ &module);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_PROGRAM_H_
