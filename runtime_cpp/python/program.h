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

// The locks of the methods, by index; NULL: the method is not loaded. A run holds its method's lock. Methods that share
// state (such as a mutable buffer) use the lock `shared`, so that their runs do not overlap. A thread that changes the
// vector holds both the GIL and PyProgram::loading, so holding one of the two suffices to read it.
struct ExecutionLocks {
  std::vector<std::shared_ptr<ExecutionLock>> locks;
  std::shared_ptr<ExecutionLock> shared = std::make_shared<ExecutionLock>();
};

// ExecutionLocks is the first base class, so that it is destroyed after Module. The locks own pending runs, and
// destroying the module ends these runs.
struct PyProgram : ExecutionLocks, Module {
  MethodOptions options;     // options of methods that are loaded later
  nanobind::object prepare;  // prepare(program, index) loads the backends and kernels that the method still needs

  // A thread holds this lock while it loads a method of any session of the file. Acquire the lock only without the GIL.
  // The mutex is recursive because Python code runs during a load: `prepare`, and handlers of log messages.
  std::shared_ptr<std::recursive_mutex> loading = std::make_shared<std::recursive_mutex>();
};

// Returns a method; loads it if necessary. Throws the Python exception of an error. Call it with the GIL held.
Method &ready_method(const std::shared_ptr<PyProgram> &program, size_t index);

void bind_program(nanobind::module_ &module);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_PROGRAM_H_
