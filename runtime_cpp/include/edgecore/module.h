// A program and its methods, loaded from a .pte file on a system with files, threads and a heap.
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
#include <optional>
#include <string>
#include <vector>

#include "edgecore/file_data_loader.h"
#include "edgecore/method.h"
#include "edgecore/program.h"
#include "edgecore/tensor.h"
#include "edgecore/value.h"

namespace edgecore {

// The levels of a trace. Each level adds to the one before. The first records runs; the second, instructions and the
// operations inside of delegates; the third, the time of each thread in each parallel loop.
enum class TraceLevel : uint8_t { kCalls, kOperators, kThreads };

// The values that a trace holds in addition to times. The first level has none; the second, the outputs of runs. The
// third adds the results of instructions, and of the operations inside of delegates if backends report them.
enum class DebugLevel : uint8_t { kNone, kOutputs, kValues };

constexpr uint64_t kTraceLimit = uint64_t{64} << 20;
constexpr uint64_t kDebugLimit = uint64_t{256} << 20;
constexpr uint64_t kMaxTraceLimit = uint64_t{512} << 20;  // in bytes; a larger trace does not fit into an ETDump

struct MethodOptions {
  uint32_t threads = 0;  // number of threads of parallel loops, with the calling thread; 0: one per performance core
  bool trust = false;    // accept blobs without a matching SHA-256, even for backends that do not validate blobs
  StateSharing sharing = StateSharing::kAsFile;
  bool trace = false;   // true: record times for write_trace, from loading on
  bool values = false;  // record the values of operations inside of delegates for take_values; costs time and memory
  TraceLevel trace_level = TraceLevel::kOperators;
  // Bytes of memory for the events of runs, divided equally among the methods; at most kMaxTraceLimit. When a method's
  // part is full, its oldest events are dropped. An event has 32 bytes. Each method keeps at least 1,024 events,
  // whatever the limit.
  uint64_t trace_limit = kTraceLimit;
  DebugLevel debug = DebugLevel::kNone;  // needs `trace`

  // Bytes of memory for the values that `debug` selects, divided equally among the methods. Runs whose values are the
  // same are stored once. Values that do not fit are left out, and the ETDump says how many.
  uint64_t debug_limit = kDebugLimit;
  // Memory and a tracer of the application, which must outlive the module. If NULL, the methods use the heap, and only
  // the tracer that `trace` makes. `allocator` holds the methods and their planned tensors. Methods with the same
  // `scratch` must not run at the same time. Sessions of new_session use the heap and no tracer.
  Allocator *allocator = nullptr;
  ScratchAllocator *scratch = nullptr;
  EventTracer *tracer = nullptr;  // must be NULL if `trace` is true
};

// How a kernel library is used: for operators that have no kernel yet, or in preference to existing kernels.
enum class KernelUse : uint8_t { kAdd, kReplace };

struct TraceInfo {
  bool is_running = false;
  TraceLevel level = TraceLevel::kOperators;  // detail of the running trace, or of the last one if none is running
  uint64_t events = 0;                        // number of recorded events
  uint64_t dropped = 0;  // number of older events that were overwritten because the limit was reached
  uint64_t bytes = 0;    // memory in use
};

// A value that an operation inside of a delegate has computed.
struct OperationValue {
  size_t delegate;        // index of the delegate in the method
  std::string operation;  // the backend's name of the operation
  int64_t id;             // the backend's number of the operation, or -1; the file's metadata list names and numbers
  Tensor value;           // the operation's result, with dims in memory order; Tensor() if the memory limit was reached
};

// Returns the default Limits, but with at most the machine's physical memory for planned tensors.
Limits default_limits();

// Returns the folders in the environment variable EDGECORE_BACKEND_PATH (separated by colons), for
// Module::find_backend. Returns none in a process that runs with the rights of another user (setuid and the like),
// because the user who set the environment could otherwise run any code with those rights.
std::vector<std::string> backend_path();

// A program, its backends, its methods and their state: one session of a loaded file. Call the members in the order of
// their declaration: set_limits, set_load_mode and add_data, open, then the members for backends and kernels,
// load_methods or load_method, then the rest. Not thread-safe, except that after load_methods different threads may use
// different methods, each method by one thread at a time.
class Module {
 public:
  Module();
  ~Module();

  // Sets upper bounds for the sizes in the files. The default is default_limits().
  void set_limits(const Limits &limits);

  // Sets the LoadMode for the files that are added or opened by path after this call. The default is LoadMode::kMmap.
  void set_load_mode(LoadMode mode);

  // Adds a .ptd file, which holds weights, or data for delegates, that the .pte file lacks. May be called for several
  // files. Uses the file at `path`, copies `bytes`, or uses a loader, which must outlive the module and its sessions.
  // Error messages use `name` for bytes and for a loader. Errors: as open_file and DataFile::load.
  Status add_data(const char *path, Error &error);
  Status add_data(Bytes bytes, const char *name, Error &error);
  Status add_data(DataLoader &loader, const char *name, Error &error);

  // Opens and verifies the program. Uses the file at `path`, copies `bytes`, or uses a loader, which must outlive the
  // module and its sessions. A .bpte file is copied, and the program in it is used. Errors: as open_file, Program::load
  // and check_data_files.
  Status open(const char *path, Error &error);
  Status open(Bytes bytes, Error &error);
  Status open(DataLoader &loader, Error &error);

  bool is_open() const;
  const Program &program() const;
  std::vector<std::string> method_names() const;
  // Returns the declaration of a method: names, types and shapes of its inputs and outputs. Errors: INVALID_STATE (no
  // open program), NOT_FOUND with the names of all methods.
  std::optional<MethodInfo> method_meta(StringView method, Error &error) const;

  // Returns the ids of the backends that the file's methods name, each once.
  std::vector<StringView> required_backends() const;
  // Return the backends that the file, or one method, needs and that have not been added yet.
  std::vector<StringView> missing_backends() const;
  std::vector<StringView> missing_backends(StringView method) const;

  // Makes a backend available to this file. add_backend takes the table of a backend that is linked into the
  // application. load_backend loads the library at an absolute path and checks that it is the backend `backend_id`
  // (empty: any). `options` must be among those that the backend declares for loading, with the declared types (an int
  // is accepted for a float). Errors: as check_backend; NOT_FOUND and ACCESS_FAILED for the library, INVALID_ARGUMENT
  // for an option, and errors of the backend.
  Status add_backend(const edgecore_backend *table, Span<const edgecore_option> options, Error &error);
  Status load_backend(const char *path, StringView backend_id, Span<const edgecore_option> options, Error &error);

  // Adds the backend if it is linked into the application (edgecore/linked_backends.h). Otherwise loads the library
  // that the backend's manifest names. The manifest is in the first of `folders` (absolute paths) that has one for the
  // backend. A manifest is a file NAME.json, {"abi": "0.11", "backend_id": "AcmeBackend", "library": "PATH", "options":
  // {}}. "abi" is the interface version that the library was built for; a library for another version is never opened.
  // "library" is absolute, or relative to the manifest. `options` override the manifest's options. Errors: NOT_FOUND
  // (no manifest), NOT_SUPPORTED (only manifests for another version), INVALID_EXTERNAL_DATA (only broken manifests),
  // INVALID_ARGUMENT (a relative folder, or two manifests in one folder), ACCESS_FAILED, and the errors of
  // load_backend.
  Status find_backend(StringView backend_id, const std::vector<std::string> &folders,
                      Span<const edgecore_option> options, Error &error);

  // Return "name.overload" of each operator that the file, or one method, calls and for which neither the runtime nor
  // an added library has a kernel.
  std::vector<std::string> missing_operators() const;
  std::vector<std::string> missing_operators(StringView method) const;

  // Makes kernels available to methods that are loaded later: from a table linked into the application, or from the
  // library at an absolute path (edgecore/kernel.h). Loading a method fails if two tables with KernelUse::kAdd have a
  // kernel for the same operator of the method. The kernels of a table with KernelUse::kReplace are tried before all
  // earlier ones, even the runtime's own. Such a kernel runs if it supports the dtypes of all tensors of the call
  // (edgecore_kernel.dtypes). If the kernel returns NOT_SUPPORTED, which it may do before it changes anything, the next
  // kernel runs. Errors: as check_kernel_library; NOT_FOUND and ACCESS_FAILED for the library.
  Status add_kernels(const edgecore_kernel_library *library, Error &error) {
    return add_kernels(library, KernelUse::kAdd, error);
  }
  Status add_kernels(const edgecore_kernel_library *library, KernelUse use, Error &error);
  Status load_kernels(const char *path, Error &error) { return load_kernels(path, KernelUse::kAdd, error); }
  Status load_kernels(const char *path, KernelUse use, Error &error);

  // Build every method of the file that is not loaded yet, or one method. Errors: ALREADY_LOADED, OUT_OF_RESOURCES (too
  // many replaced kernels), NOT_FOUND, and the errors of Method::load.
  Status load_methods(const MethodOptions &options, Error &error);
  Status load_method(StringView method, const MethodOptions &options, Error &error);
  bool is_method_loaded(StringView method) const;

  // Builds the loaded methods once more, for a session with its own state (mutable buffers, and state of backends). The
  // sessions share the file, its weights, the backends and their packed weights, and MethodOptions. Pass an empty
  // Module, which then has all members from load_methods on. Different threads may use the two modules at the same
  // time, and destroy them in any order. If both load methods at the same time, the second waits for the first. Options
  // that set_options has set are not copied. Errors: INVALID_STATE (no open program), and the errors of Method::load.
  Status new_session(Module &session, Error &error) const;

  // method_count returns the number of methods of the file, or 0 before the first is loaded; method(i) must be loaded.
  size_t method_count() const { return methods_.size(); }
  Method &method(size_t index) { return *methods_[index]; }

  // Runs a method with values of any kind. Loads the method first, with the default options, if it is not loaded. Each
  // value of `inputs` is used in this run only; for an input that is None or missing at the end of the list, the value
  // from set_input is used. `outputs` receives a copy of each output. For an output with a tensor from set_output, it
  // receives that tensor, whose memory holds the result.
  // Errors: INVALID_STATE and NOT_FOUND as for method_meta, INVALID_ARGUMENT (an input without a value, too many
  // inputs, and the errors of Method::set_input), and the errors of load_method and Method::execute.
  Status execute(StringView method, const std::vector<Value> &inputs, std::vector<Value> &outputs, Error &error);
  Status forward(const std::vector<Value> &inputs, std::vector<Value> &outputs, Error &error) {
    return execute("forward", inputs, outputs, error);
  }
  // Set inputs for all later calls of execute; None removes a value that was set. A tensor that is set shares its
  // memory with the caller's tensor. Errors: INVALID_ARGUMENT (no such input), and the errors of load_method.
  Status set_input(StringView method, size_t index, Value value, Error &error);
  Status set_inputs(StringView method, std::vector<Value> values, Error &error);
  // Sets the tensor that receives an output in all later calls of execute; Tensor() removes it. The tensor must not
  // overlap an input. If the program keeps the output in other memory, or the tensor has another layout, the values are
  // copied. Errors: INVALID_ARGUMENT (no such output, not a tensor, another type or number of dims, too small or
  // read-only), and the errors of Tensor::check.
  Status set_output(StringView method, size_t index, Tensor tensor, Error &error);

  // Runs the method with this name. `inputs` has a tensor for each tensor input of the method, in order; set other
  // inputs before, with method(i).set_input. `outputs` receives copies of the tensor outputs. Errors: INVALID_STATE (no
  // open program, or the method is not loaded), NOT_FOUND, INVALID_ARGUMENT (a wrong number of inputs, a tensor whose
  // check() fails, and the errors of Method::set_input), and the errors of Method::execute.
  Status run(StringView method, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs, Error &error);

  // Start and stop recording the times of runs. New events are added to the earlier ones; clear_trace deletes all
  // events. Delegates that were loaded with a trace go on measuring after stop_trace, but nothing records their events.
  // If the methods were loaded without MethodOptions::trace, or with the level kCalls, delegates do not report the
  // operations inside of them. Start and stop also apply to methods that are loaded later. No method may be running.
  void start_trace(TraceLevel level);
  void stop_trace();
  void clear_trace();
  TraceInfo trace_info() const;

  // Writes the recorded times as an ETDump. Writes the bytes of recorded values to the file `values`, unless `values`
  // is NULL. No method may be running. Errors: INVALID_STATE (nothing was ever traced), ACCESS_FAILED.
  Status write_trace(const char *path, Error &error) const { return write_trace(path, nullptr, error); }
  Status write_trace(const char *path, const char *values, Error &error) const;

  // Converts records of runs of this file to an ETDump. The records come from a TraceBuffer or TraceStatistics
  // (edgecore/trace_buffer.h) on another device. Needs open() only: no backend and no method. Errors: INVALID_ARGUMENT
  // (`records` are damaged or of another file), ACCESS_FAILED.
  Status convert_trace(Bytes records, const char *path, Error &error) const;

  // Returns the values that the delegates of a method have computed since the last call, oldest first; none if the
  // methods were loaded without MethodOptions::values, or if the backends report none. The method must not be running.
  std::vector<OperationValue> take_values(size_t method);

  // Restores the initial values of all mutable buffers and of the state of backends. No method may be running. If a
  // backend fails, methods that use state of backends fail until reset or import_state succeeds. Errors: as the
  // backends.
  Status reset(Error &error);

  // Sets, on all delegates of a backend, options that may change after loading. No method may be running. All names and
  // types are checked before the first option is set; if the backend refuses an option, the options before it stay set.
  // Errors: NOT_FOUND (the backend was not added), INVALID_ARGUMENT (name or type), and errors of the backend.
  Status set_options(StringView backend_id, Span<const edgecore_option> options, Error &error);

  // Save and restore all mutable state of this session as bytes. Another program can import the bytes if its buffers
  // have the same names, dtypes and shapes, even if other backends, or none, keep them. No method may be running. An
  // import that fails with INVALID_ARGUMENT changes nothing. If a backend fails, methods that use state of backends
  // fail until reset or import_state succeeds.
  // Errors: INVALID_STATE (a run has failed in a backend that keeps state), INVALID_ARGUMENT (import: damaged, or of
  // another program), and errors of a backend.
  Status export_state(std::vector<uint8_t> &state, Error &error) const;
  Status import_state(Bytes state, Error &error);

  // Allocates and sets memory for every output of the method that needs it, so that the caller need not call
  // Method::set_output. The memory lives as long as the module, and each run overwrites it. Errors:
  // MEMORY_ALLOCATION_FAILED.
  Status allocate_outputs(size_t method, Error &error);

  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

 private:
  struct State;
  Result<size_t> find_method(StringView name, Error &error) const;
  bool is_loaded(size_t index) const;
  Status load_at(size_t index, const MethodOptions &options, Error &error);
  // Returns the index of a method; loads the method if necessary.
  Result<size_t> ready_method(StringView name, Error &error);
  std::vector<Method *> loaded_methods() const;
  Status give_output_memory(size_t method, size_t output, Error &error);

  std::unique_ptr<State> state_;
  std::vector<Method *> methods_;  // the loaded methods, one entry for each method of the program; NULL: not loaded
};

// Returns the kernel library that every module uses without add_kernels: edgecore_kernels_library().
Span<const edgecore_kernel_library *const> kernel_libraries();

}  // namespace edgecore

#endif  // EDGECORE_MODULE_H_
