// The data of a Module, shared by the source files that implement class Module.
#ifndef EDGECORE_HOST_MODULE_STATE_H_
#define EDGECORE_HOST_MODULE_STATE_H_

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "edgecore/kernels.h"
#include "edgecore/module.h"
#include "host/copied_data_loader.h"
#include "host/debug_values.h"
#include "host/heap.h"
#include "host/kernel_tables.h"
#include "host/services.h"
#include "host/trace.h"

namespace edgecore {

// A backend that has opened the module's program. Must not move, because the backend keeps the address of `scope`.
struct OpenBackend {
  LoadedBackend loaded;
  HostContext context;
  edgecore_scope scope;

  ~OpenBackend() {
    if (loaded.program != nullptr) loaded.table->program_close(loaded.program);
  }
};

// A file that the module reads through a DataLoader: `own`, or a loader that belongs to the application.
struct Source {
  std::unique_ptr<SystemDataLoader> own;
  DataLoader *loader = nullptr;

  Status open(const char *path, LoadMode mode, Error &error) {
    EDGECORE_TRY(open_file(path, mode, own, error));
    loader = own.get();
    return {};
  }
  Status copy(Bytes bytes, Error &error) {
    EDGECORE_TRY(CopiedDataLoader::copy(bytes, own, error));
    loader = own.get();
    return {};
  }
  void drop_pages() const {
    if (own != nullptr) own->drop_pages();
  }
};

// An external weights file (.ptd). `memory` holds a verified copy of the file's flatbuffer.
struct DataPart {
  Source source;
  std::string name;
  HeapAllocator memory;
};

// A loaded method and its memory. The destructor destroys the method before the memory is freed.
struct OpenMethod {
  HeapAllocator memory;
  HeapScratch scratch;
  HostContext context;
  MethodOptions options;
  std::vector<LoadedBackend> backends;                   // value of MethodConfig::backends
  std::vector<const edgecore_kernel_library *> kernels;  // value of MethodConfig::kernels
  std::vector<Value> inputs;                             // inputs that set_input has set for execute; None: not set
  std::vector<Value> last_inputs;        // inputs of the last execute, kept because the method may borrow their memory
  std::vector<Tensor> outputs;           // tensors that receive outputs, from set_output; empty: not set
  std::vector<HeapBlock> output_memory;  // memory of each output of the method; NULL if the output needs none
  std::unique_ptr<Trace> trace;
  std::unique_ptr<ValueRecorder> values;
  Method *method = nullptr;

  ~OpenMethod() {
    if (method != nullptr) method->destroy();
  }

  void start_trace(TraceLevel level) {
    trace->set_level(level);
    context.loops = level == TraceLevel::kThreads ? trace.get() : nullptr;
    method->set_tracer(trace.get());
  }

  void stop_trace() {
    context.loops = nullptr;
    method->set_tracer(options.tracer);
  }
};

// A loaded file, which a Module shares with the sessions that its new_session makes. Members are destroyed in reverse
// order (backends, program, file), because each member uses earlier members.
struct LoadedFile {
  Limits limits = default_limits();
  LoadMode mode = LoadMode::kMmap;
  std::deque<DataPart> data;
  std::vector<const DataFile *> data_files;  // for each entry of `data`, its opened .ptd file
  Source file;
  BufferDataLoader inner{Bytes()};  // if `file` is a .bpte file: loader of the program in it
  HeapAllocator program_memory;
  const Program *program = nullptr;
  std::vector<std::unique_ptr<OpenBackend>> backends;
  KernelTables kernels{edgecore_kernels_library()};
  // Locked while a session loads a method, or adds a backend or kernels. The mutex is recursive, because an
  // application's log handler may load another method during a load.
  std::recursive_mutex loading;

  ~LoadedFile() {
    while (!backends.empty()) backends.pop_back();
  }

  Status load_program(Error &error);
  // If the file is a .bpte file, replaces the file by a copy of the program inside it.
  Status unwrap_bundle(Error &error);
  Status load_data(Error &error);
  // Lets the operating system drop the files' pages from memory, because most backends made packed copies of the
  // weights.
  void drop_pages() const;
  Status open_backend(const edgecore_backend *table, Span<const edgecore_option> load_options, Error &error);
  Result<const LoadedBackend *> find_backend(StringView backend_id, Error &error) const;
  // Removes from `ids` the backends that are already open.
  void remove_opened(std::vector<StringView> &ids) const {
    Error unused;
    const auto is_open = [&](StringView id) { return find_backend(id, unused).ok(); };
    ids.erase(std::remove_if(ids.begin(), ids.end(), is_open), ids.end());
  }
};

inline Status no_program(Error &error) {
  return fail(error, EDGECORE_INVALID_STATE, "No program is open: call open first.");
}

// The data of one Module, which is a session of a loaded file. Members are destroyed in reverse order.
struct Module::State {
  std::shared_ptr<LoadedFile> shared = std::make_shared<LoadedFile>();
  HeapAllocator state_memory;
  HostContext context;
  StateStore store{&state_memory, &context};
  std::vector<std::unique_ptr<OpenMethod>> methods;  // an entry for each method of the program; NULL: not loaded
  bool is_tracing = false;
  bool is_stopped = false;                  // true after stop_trace: later loads are traced, but not the runs
  std::optional<TraceLevel> started_level;  // level of the last start_trace, for methods that are loaded later

  ~State() {
    while (!methods.empty()) methods.pop_back();
  }

  std::unique_ptr<Trace> make_trace(const MethodOptions &options) const {
    return std::make_unique<Trace>(options.trace_limit / shared->program->method_count());
  }

  Status load_method(size_t index, const MethodOptions &options, Error &error);
};

}  // namespace edgecore

#endif  // EDGECORE_HOST_MODULE_STATE_H_
