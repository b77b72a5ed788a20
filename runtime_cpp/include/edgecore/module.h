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

// The detail of a trace: runs; also instructions and the operations inside of delegates; also the time of each thread
// in each parallel loop. Each level includes those before it.
enum class TraceLevel : uint8_t { kCalls, kOperators, kThreads };

// Values that a trace holds beside times: none; the outputs of runs; also the results of instructions and, if backends
// report them, of the operations inside of delegates.
enum class DebugLevel : uint8_t { kNone, kOutputs, kValues };

constexpr uint64_t kTraceLimit = uint64_t{64} << 20;
constexpr uint64_t kDebugLimit = uint64_t{256} << 20;
constexpr uint64_t kMaxTraceLimit = uint64_t{512} << 20;  // more does not fit into an ETDump

struct MethodOptions {
  uint32_t threads = 0;  // of parallel loops, the calling thread included; 0: the performance cores
  bool trust = false;    // accept blobs without a matching SHA-256 for backends that do not validate them
  StateSharing sharing = StateSharing::kAsFile;
  bool trace = false;   // record times for write_trace, from loading on
  bool values = false;  // record the values of operations inside of delegates for take_values; costs time and memory
  TraceLevel trace_level = TraceLevel::kOperators;  // for `trace`
  // Bytes for the events of runs, in equal parts for the methods; at most kMaxTraceLimit. When they are full, the
  // oldest events are dropped. An event has 32 bytes. Each method keeps at least 1,024 events, whatever the limit.
  uint64_t trace_limit = kTraceLimit;
  DebugLevel debug = DebugLevel::kNone;  // needs `trace`
  // Bytes for these values, in equal parts for the methods. Runs with equal values share memory. Values that do
  // not fit are left out, and the ETDump says how many.
  uint64_t debug_limit = kDebugLimit;
  // Memory and a tracer of the application; they must outlive the module. NULL: memory of the heap, and no tracer
  // except the one that `trace` makes. `allocator` holds the methods and their planned tensors; with `scratch`, methods
  // that were given the same must not run at the same time. Sessions of new_session use the heap and no tracer.
  Allocator *allocator = nullptr;
  ScratchAllocator *scratch = nullptr;
  EventTracer *tracer = nullptr;  // not with `trace`
};

// The use of a kernel library: for operators that have no kernel yet, or also before the kernels that an operator has.
enum class KernelUse : uint8_t { kAdd, kReplace };

struct TraceInfo {
  bool is_running = false;
  TraceLevel level = TraceLevel::kOperators;  // of the trace that is running, or of the last one
  uint64_t events = 0;                        // recorded now
  uint64_t dropped = 0;                       // older events, for which the limit left no memory
  uint64_t bytes = 0;                         // of memory in use
};

// A value that an operation inside of a delegate has computed.
struct OperationValue {
  size_t delegate;        // index in the method
  std::string operation;  // the backend's name of the operation
  int64_t id;             // the backend's number of the operation, or -1; the file's metadata list both
  Tensor value;           // its dims in memory order; empty if memory did not suffice
};

// Returns the default Limits, but with at most the machine's physical memory for planned tensors.
Limits default_limits();

// Returns the folders in the environment variable EDGECORE_BACKEND_PATH (separated by colons), for
// Module::find_backend. Returns none in a process that runs with the rights of another user (setuid and the like),
// because the user who set the environment could then load any code.
std::vector<std::string> backend_path();

// A program, its backends, its methods and their state: a session of a loaded file. Call the members in the order of
// their declaration: set_limits, set_load_mode and add_data, open, then the members for backends and kernels,
// load_methods or load_method, then the rest. Not thread-safe; but after load_methods different threads may use
// different methods, each method by one thread at a time.
class Module {
 public:
  Module();
  ~Module();

  // Sets upper bounds for the sizes in the files. The default is default_limits().
  void set_limits(const Limits &limits);

  // Chooses how the files at paths that are added and opened later become memory. The default is LoadMode::kMmap.
  void set_load_mode(LoadMode mode);

  // Adds a .ptd file, which holds weights or data of delegates that are not in the .pte file. May be called for several
  // files. Uses the file at `path`, copies `bytes`, or uses a loader, which must outlive the module and its sessions;
  // error messages call bytes and loaders `name`. Errors: those that open_file and DataFile::load return.
  Status add_data(const char *path, Error &error);
  Status add_data(Bytes bytes, const char *name, Error &error);
  Status add_data(DataLoader &loader, const char *name, Error &error);

  // Uses the file at `path`, copies `bytes`, or uses a loader, which must outlive the module and its sessions, and
  // verifies the program. A .bpte file is copied, and the program in it is used. Errors: those that open_file,
  // Program::load and check_data_files return.
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
  // Return the backends that the file, or one method, needs and that were not added yet.
  std::vector<StringView> missing_backends() const;
  std::vector<StringView> missing_backends(StringView method) const;

  // Makes a backend available to this file: the first function takes the table of a backend that is linked into the
  // application, the second loads the library at an absolute path and checks that it is the backend `backend_id`
  // (empty: any). `options` must be among those that the backend declares for loading, with the declared types (an int
  // is accepted for a float). Errors: those that check_backend returns, NOT_FOUND and ACCESS_FAILED for the library,
  // INVALID_ARGUMENT for an option, and errors of the backend.
  Status add_backend(const edgecore_backend *table, Span<const edgecore_option> options, Error &error);
  Status load_backend(const char *path, StringView backend_id, Span<const edgecore_option> options, Error &error);

  // Adds the backend if it is linked into the application (edgecore/linked_backends.h). Otherwise loads a backend that
  // has a manifest in one of `folders` (absolute paths); the first folder with one is used. A manifest is a file
  // NAME.json, {"abi": "0.11", "backend_id": "AcmeBackend", "library": "PATH", "options": {}}: the version of the
  // interface that the library was built for, its path, absolute or relative to the manifest, and options for loading,
  // which `options` override. A library for another version of the interface is never opened. Errors: NOT_FOUND (no
  // manifest), NOT_SUPPORTED (only manifests for another version), INVALID_EXTERNAL_DATA (only broken manifests),
  // INVALID_ARGUMENT (a relative folder, or two manifests in one folder), ACCESS_FAILED, and those that load_backend
  // returns.
  Status find_backend(StringView backend_id, const std::vector<std::string> &folders,
                      Span<const edgecore_option> options, Error &error);

  // Return "name.overload" of each operator that the file, or one method, calls and that has a kernel neither in the
  // runtime nor in an added library.
  std::vector<std::string> missing_operators() const;
  std::vector<std::string> missing_operators(StringView method) const;

  // Makes kernels available to this file, from a table linked into the application or from the library at an absolute
  // path (edgecore/kernel.h), for methods that are loaded later. If two tables that were added have an operator,
  // loading a method that calls it fails. A table with KernelUse::kReplace comes before all that were there, also
  // before the runtime's own: its kernel of an operator runs if it supports the dtypes of all tensors of the call
  // (edgecore_kernel.dtypes), and may return NOT_SUPPORTED before it changes anything; then the next kernel runs.
  // Errors: those that check_kernel_library returns, NOT_FOUND and ACCESS_FAILED for the library.
  Status add_kernels(const edgecore_kernel_library *library, Error &error) {
    return add_kernels(library, KernelUse::kAdd, error);
  }
  Status add_kernels(const edgecore_kernel_library *library, KernelUse use, Error &error);
  Status load_kernels(const char *path, Error &error) { return load_kernels(path, KernelUse::kAdd, error); }
  Status load_kernels(const char *path, KernelUse use, Error &error);

  // Build every method of the file that is not loaded yet, or one method. Errors: ALREADY_LOADED, OUT_OF_RESOURCES (too
  // many replaced kernels), NOT_FOUND, and those that Method::load returns.
  Status load_methods(const MethodOptions &options, Error &error);
  Status load_method(StringView method, const MethodOptions &options, Error &error);
  bool is_method_loaded(StringView method) const;

  // Builds the loaded methods once more, for a session with state of its own: mutable buffers, and state of
  // backends. The sessions share the file, its weights, the backends and what they packed, and MethodOptions. Call it
  // with an empty Module, which then has all members from load_methods on; the two may be used at the same time by
  // different threads, and destroyed in any order. If both load methods, the second waits for the first. Options that
  // set_options has set are not taken over. Errors: INVALID_STATE (no open program), and those that Method::load
  // returns.
  Status new_session(Module &session, Error &error) const;

  // Return the number of methods of the file, or 0 before the first is loaded; and a method, which must be loaded.
  size_t method_count() const { return methods_.size(); }
  Method &method(size_t index) { return *methods_[index]; }

  // Runs a method with values of any kind, and loads it first, with the default options, if it is not loaded. Each of
  // `inputs` is used in this run; None leaves the value of set_input, and so do missing ones at the end. `outputs`
  // receives a copy of each output, or the tensor of set_output, which shares its memory.
  // Errors: INVALID_STATE and NOT_FOUND as for method_meta, INVALID_ARGUMENT (an input without a value, too many
  // inputs, and those that Method::set_input returns), and those that load_method and Method::execute return.
  Status execute(StringView method, const std::vector<Value> &inputs, std::vector<Value> &outputs, Error &error);
  Status forward(const std::vector<Value> &inputs, std::vector<Value> &outputs, Error &error) {
    return execute("forward", inputs, outputs, error);
  }
  // Set inputs for all later calls of execute, until they are set again; None takes back what was set. Tensors share
  // their memory with the caller's. Errors: those that load_method returns, INVALID_ARGUMENT (no such input).
  Status set_input(StringView method, size_t index, Value value, Error &error);
  Status set_inputs(StringView method, std::vector<Value> values, Error &error);
  // Sets the tensor that receives an output in all later calls of execute, and that must not overlap an input; Tensor()
  // takes that back. If the program has the output in other memory, or the tensor another layout, the values are
  // copied. Errors: INVALID_ARGUMENT (no such output, no tensor, another type or number of dims, too small or
  // read-only), and those that Tensor::check returns.
  Status set_output(StringView method, size_t index, Tensor tensor, Error &error);

  // Runs the method with this name. `inputs` has a tensor for each tensor input of the method, in order; inputs of
  // other types must be set before by method(i).set_input. `outputs` receives copies of the tensor outputs.
  // Errors: INVALID_STATE (no open program, or the method is not loaded), NOT_FOUND, INVALID_ARGUMENT (the number of
  // inputs, an empty tensor, and those that Method::set_input returns), and those that Method::execute returns.
  Status run(StringView method, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs, Error &error);

  // Starts to record the times of runs, in addition to those recorded so far, and stops that; then only backends that
  // were loaded with a trace go on measuring. clear_trace forgets what was recorded. If the methods were loaded without
  // MethodOptions::trace, or with the level kCalls, delegates do not report the operations inside of them. Both hold
  // for methods that are loaded later, too. No method may be running.
  void start_trace(TraceLevel level);
  void stop_trace();
  void clear_trace();
  TraceInfo trace_info() const;

  // Writes the recorded times as an ETDump, and the bytes of recorded values to the file `values`, unless it is NULL.
  // No method may be running. Errors: INVALID_STATE (nothing was ever traced), ACCESS_FAILED.
  Status write_trace(const char *path, Error &error) const { return write_trace(path, nullptr, error); }
  Status write_trace(const char *path, const char *values, Error &error) const;

  // Writes records of runs of this file that a TraceBuffer or TraceStatistics (edgecore/trace_buffer.h) of another
  // device has made, as an ETDump. Needs open() only: no backend and no method. Errors: INVALID_ARGUMENT (`records` are
  // damaged or of another file), ACCESS_FAILED.
  Status convert_trace(Bytes records, const char *path, Error &error) const;

  // Returns the values that the delegates of a method have computed since the last call, oldest first; none if the
  // methods were loaded without MethodOptions::values, or if the backends report none. The method must not be running.
  std::vector<OperationValue> take_values(size_t method);

  // Restores the initial values of all mutable buffers and of the state of backends. No method may be running. If a
  // backend fails, methods that use state of backends fail until reset or import_state succeeds. Errors: those that
  // backends return.
  Status reset(Error &error);

  // Sets options that may change after loading on all delegates of a backend. No method may be running. All names and
  // types are checked before the first option is set; if the backend refuses an option, the options before it stay set.
  // Errors: NOT_FOUND (the backend was not added), INVALID_ARGUMENT (name or type), and errors of the backend.
  Status set_options(StringView backend_id, Span<const edgecore_option> options, Error &error);

  // Save and restore all mutable state of this session as bytes. Another program can import the bytes if its buffers
  // have the same names, dtypes and shapes, also if other backends keep them, or none. No method may be running. An
  // import that INVALID_ARGUMENT refuses changes nothing. If a backend fails, methods that use its state fail until
  // reset or import_state succeeds.
  // Errors: INVALID_STATE (a run has failed in a backend that keeps state), INVALID_ARGUMENT (import: damaged, or of
  // another program), and errors of a backend.
  Status export_state(std::vector<uint8_t> &state, Error &error) const;
  Status import_state(Bytes state, Error &error);

  // Allocates and sets the memory of every output of the method that needs memory, so that the caller need not call
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
  // Returns the index of a method, which is loaded if it was not.
  Result<size_t> ready_method(StringView name, Error &error);
  std::vector<Method *> loaded_methods() const;
  Status give_output_memory(size_t method, size_t output, Error &error);

  std::unique_ptr<State> state_;
  std::vector<Method *> methods_;  // of the program; NULL if not loaded
};

// Returns the kernel library that every module uses without add_kernels: edgecore_kernels_library().
Span<const edgecore_kernel_library *const> kernel_libraries();

}  // namespace edgecore

#endif  // EDGECORE_MODULE_H_
