// A .pte file ready to run on a system with files, threads and a heap: what an application or a binding uses.
//
//   Module module;
//   Error error;
//   if (!module.open("model.pte", error).ok() ||
//       !module.load_backend("/abs/libedgecore_xnnpack.so", "XnnpackBackend", {}, error).ok() ||
//       !module.load_methods({}, error).ok()) { ... error.sentence() ... }
//   Method &forward = module.method(0);
#ifndef EDGECORE_MODULE_H_
#define EDGECORE_MODULE_H_

#include <memory>
#include <vector>

#include "edgecore/method.h"
#include "edgecore/program.h"

namespace edgecore {

struct MethodOptions {
  uint32_t threads = 0;  // of parallel loops, the calling thread included; 0: the performance cores
  bool trust = false;    // accept blobs whose SHA-256 is not in the metadata for backends that do not validate
};

// Calls in the order of the members. Not thread-safe; afterwards each Method may be used by one thread at a time.
class Module {
 public:
  Module();
  ~Module();

  // Maps the file at `path`, or copies `bytes`, and verifies it.
  // Errors: ACCESS_FAILED, MEMORY_ALLOCATION_FAILED, and those of Program::load.
  Status open(const char *path, Error &error);
  Status open(Bytes bytes, Error &error);

  const Program &program() const;

  // The backends that the file's methods name, each once.
  std::vector<StringView> required_backends() const;

  // Makes a backend available to this file, from a table linked into the application or from a library given by its
  // absolute path, whose table must be that of `backend_id` (empty: any). The driver is created once a process.
  // `options` must be among those that the backend declares for loading, with the declared types (an int serves as a
  // float). Errors: those of check_backend, NOT_FOUND and ACCESS_FAILED for the library, INVALID_ARGUMENT for an
  // option, and what the backend gave.
  Status add_backend(const edgecore_backend *table, Span<const edgecore_option> options, Error &error);
  Status load_backend(const char *path, StringView backend_id, Span<const edgecore_option> options, Error &error);

  // Builds every method of the file. Errors: those of Method::load.
  Status load_methods(const MethodOptions &options, Error &error);

  size_t method_count() const { return methods_.size(); }
  Method &method(size_t index) { return *methods_[index]; }

  // Gives every output that needs it memory that lives as long as the module: for callers that read an output before
  // the next run. Errors: MEMORY_ALLOCATION_FAILED.
  Status allocate_outputs(size_t method, Error &error);

  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::vector<Method *> methods_;
};

// The kernel libraries of every module of this process: the runtime's own.
Span<const edgecore_kernel_library *const> kernel_libraries();

}  // namespace edgecore

#endif  // EDGECORE_MODULE_H_
