// The data of a Module, for the sources that implement it.
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

// A backend that was opened for the module's file. The object must not move, because the backend keeps the address of
// `scope`.
struct OpenBackend {
  LoadedBackend loaded;
  HostContext context;
  edgecore_scope scope;

  ~OpenBackend() {
    if (loaded.program != nullptr) loaded.table->program_close(loaded.program);
  }
};

// A file that the module reads, with the module's own loader or a loader of the application.
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

// An external weights file (.ptd). Its flatbuffer part is copied to `memory`, and the copy is verified.
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
  std::vector<LoadedBackend> backends;                   // for MethodConfig::backends
  std::vector<const edgecore_kernel_library *> kernels;  // for MethodConfig::kernels
  std::vector<Value> inputs;                             // from set_input, for execute; None: not set
  std::vector<Value> last_inputs;        // values that execute has set: the method may borrow their memory
  std::vector<Tensor> outputs;           // from set_output, for execute; empty: not set
  std::vector<HeapBlock> output_memory;  // one for each output; NULL if the output needs none
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

// The data that a Module shares with the modules that its new_session fills in. Members are destroyed in reverse order
// (backends, program, file), because each uses earlier ones.
struct LoadedFile {
  Limits limits = default_limits();
  LoadMode mode = LoadMode::kMmap;
  std::deque<DataPart> data;
  std::vector<const DataFile *> data_files;  // one for each entry of `data`
  Source file;
  BufferDataLoader inner{Bytes()};  // the program in a .bpte file
  HeapAllocator program_memory;
  const Program *program = nullptr;
  std::vector<std::unique_ptr<OpenBackend>> backends;
  KernelTables kernels{edgecore_kernels_library()};
  // Held while a session loads a method, or adds a backend or kernels. Recursive, because an application's log handler
  // may load another method during a load.
  std::recursive_mutex loading;

  ~LoadedFile() {
    while (!backends.empty()) backends.pop_back();
  }

  Status load_program(Error &error);
  // If the file is a .bpte file, replaces it by a private copy of the program in it.
  Status unwrap_bundle(Error &error);
  Status load_data(Error &error);
  // Lets the operating system drop the files' pages from memory: most backends keep packed copies of weights.
  void drop_pages() const;
  Status open_backend(const edgecore_backend *table, Span<const edgecore_option> load_options, Error &error);
  Result<const LoadedBackend *> find_backend(StringView backend_id, Error &error) const;
  // Removes the ids of open backends.
  void remove_opened(std::vector<StringView> &ids) const {
    Error unused;
    const auto is_open = [&](StringView id) { return find_backend(id, unused).ok(); };
    ids.erase(std::remove_if(ids.begin(), ids.end(), is_open), ids.end());
  }
};

inline Status no_program(Error &error) {
  return fail(error, EDGECORE_INVALID_STATE, "No program is open: call open first.");
}

// The data of a Module: a session of a loaded file. Members are destroyed in reverse order.
struct Module::State {
  std::shared_ptr<LoadedFile> shared = std::make_shared<LoadedFile>();
  HeapAllocator state_memory;
  HostContext context;
  StateStore store{&state_memory, &context};
  std::vector<std::unique_ptr<OpenMethod>> methods;  // by method index; NULL if not loaded
  bool is_tracing = false;
  bool is_stopped = false;                  // stop_trace was called: MethodOptions::trace starts no trace
  std::optional<TraceLevel> started_level;  // level of start_trace, for methods that are loaded later

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
