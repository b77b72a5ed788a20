#include "edgecore/module.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <utility>

#include "core/platform.h"
#include "core/segments.h"
#include "edgecore/bundled.h"
#include "edgecore/kernels.h"
#include "edgecore/linked_backends.h"
#include "host/backends.h"
#include "host/copied_data_loader.h"
#include "host/cpu_count.h"
#include "host/debug_values.h"
#include "host/etdump.h"
#include "host/heap.h"
#include "host/library.h"
#include "host/manifest.h"
#include "host/platform.h"
#include "host/saved_state.h"
#include "host/services.h"
#include "host/tensor_copy.h"
#include "host/thread_pool.h"
#include "host/trace.h"
#include "host/trace_records.h"

namespace edgecore {
namespace {

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

// A file that the module reads: from a loader of its own, or one of the application.
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
  std::vector<HeapBlock> outputs;
  bool has_outputs = false;  // allocate_outputs was called
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
};

bool has_kernel(const edgecore_kernel_library &library, OperatorName op) {
  const auto *at = reinterpret_cast<const uint8_t *>(library.kernels);
  for (uint64_t i = 0; i < library.kernel_count; ++i, at += library.kernel_stride) {
    const auto *kernel = reinterpret_cast<const edgecore_kernel *>(at);
    if (StringView(kernel->name) == op.name && StringView(kernel->overload) == op.overload) return true;
  }
  return false;
}

// Converts an option of a manifest. Strings of the result point into `item`.
edgecore_option to_option(const JsonItem &item) {
  edgecore_option option = {};
  option.name = {item.key.data(), item.key.size()};
  option.type = item.type == JsonType::kString ? EDGECORE_OPTION_STRING
                : item.type == JsonType::kBool ? EDGECORE_OPTION_BOOL
                                               : EDGECORE_OPTION_INT;
  if (item.type == JsonType::kString) {
    option.value.bytes = {reinterpret_cast<const uint8_t *>(item.text.data()), item.text.size()};
  } else {
    option.value.i = item.number;
  }
  return option;
}

// The data that a Module shares with the modules that its new_session fills in. Constant after load_methods. The
// members are destroyed in the reverse of their order here (backends, program, file), because each of these uses the
// ones declared before it.
struct LoadedFile {
  Limits limits = default_limits();
  LoadMode mode = LoadMode::kMmap;
  std::deque<DataPart> data;
  std::vector<const DataFile *> data_files;  // one for each entry of `data`
  Source file;
  BufferDataLoader inner{Bytes()};  // of the program in a .bpte file
  HeapAllocator program_memory;
  const Program *program = nullptr;
  std::vector<std::unique_ptr<OpenBackend>> backends;
  std::vector<LoadedBackend> loaded;  // copy of OpenBackend::loaded of each backend, for MethodConfig::backends
  std::vector<const edgecore_kernel_library *> kernels = {edgecore_kernels_library()};
  MethodOptions options;  // of load_methods

  ~LoadedFile() {
    while (!backends.empty()) backends.pop_back();
  }

  Status load_program(Error &error) {
    ProgramConfig config;
    config.allocator = &program_memory;
    config.limits = limits;
    config.data = {data_files.data(), data_files.size()};
    EDGECORE_TRY(unwrap_bundle(error));
    const Result<const Program *> loaded = Program::load(*file.loader, config, error);
    EDGECORE_TRY(loaded.status());
    program = *loaded;
    return {};
  }

  // Makes a .bpte file the program in it, in a copy that another process cannot change.
  Status unwrap_bundle(Error &error) {
    constexpr uint64_t kIdentifierEnd = 8;
    const uint64_t size = file.loader->size();
    if (size < kIdentifierEnd || size > SIZE_MAX) return {};
    const Result<Bytes> start = load_bytes(*file.loader, 0, kIdentifierEnd, LoadUse::kTables, error);
    EDGECORE_TRY(start.status());
    const bool bundled = is_bundled(*start);
    file.loader->release(*start);
    if (!bundled) return {};
    const Result<Bytes> whole = load_bytes(*file.loader, 0, size, LoadUse::kTables, error);
    EDGECORE_TRY(whole.status());
    Source bundle;
    const Status copied = bundle.copy(*whole, error);
    file.loader->release(*whole);
    EDGECORE_TRY(copied);
    file = std::move(bundle);
    const Result<Bytes> copy = file.loader->load(0, static_cast<size_t>(size), LoadUse::kTables, error);
    EDGECORE_TRY(copy.status());
    const Result<Bytes> found = bundled_program(*copy, limits, error);
    EDGECORE_TRY(found.status());
    inner = BufferDataLoader(*found, SystemDataLoader::kTail);
    file.loader = &inner;
    return {};
  }

  Status load_data(Error &error) {
    DataPart &part = data.back();
    const StringView name(part.name.data(), part.name.size());
    const Result<const DataFile *> loaded = DataFile::load(*part.source.loader, name, &part.memory, limits, error);
    EDGECORE_TRY(loaded.status());
    data_files.push_back(*loaded);
    return {};
  }

  void add_kernels(const edgecore_kernel_library *library) {
    if (std::find(kernels.begin(), kernels.end(), library) == kernels.end()) kernels.push_back(library);
  }

  Status open_backend(const edgecore_backend *table, Span<const edgecore_option> load_options, Error &error) {
    std::vector<edgecore_option> options(load_options.begin(), load_options.end());  // check_options changes them
    EDGECORE_TRY(check_options(table, EDGECORE_OPTION_AT_LOAD, {options.data(), options.size()}, error));
    const Result<edgecore_driver *> driver = driver_of(table, error);
    EDGECORE_TRY(driver.status());
    auto backend = std::make_unique<OpenBackend>();
    backend->loaded.table = table;
    backend->loaded.driver = *driver;
    backend->scope.program = program;
    backend->scope.context = &backend->context;
    const edgecore_program_info info = {header_of<edgecore_program_info>(),
                                        &backend->scope,
                                        {options.data(), options.size(), sizeof(edgecore_option), 0}};
    error.clear();
    EDGECORE_TRY(Status(table->program_open(*driver, &info, &backend->loaded.program, &error)));
    backends.push_back(std::move(backend));
    return {};
  }

  Result<const LoadedBackend *> find_backend(StringView backend_id, Error &error) const {
    for (const auto &backend : backends) {
      if (StringView(backend->loaded.table->backend_id) == backend_id) return &backend->loaded;
    }
    return fail(error, EDGECORE_NOT_FOUND, "The backend '", backend_id, "' was not added to this program.");
  }
};

Status write_file(const char *path, const std::vector<uint8_t> &bytes, Error &error) {
  std::FILE *file = std::fopen(path, "wb");
  const bool written = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file != nullptr && std::fclose(file) == 0 && written) return {};
  return fail(error, EDGECORE_ACCESS_FAILED, path, " cannot be written: ", std::strerror(errno), ".");
}

constexpr char kLinked[] = "a backend linked into this application";

}  // namespace

// The data of a Module: a session of a loaded file. The members are destroyed in the reverse of their order here.
struct Module::State {
  std::shared_ptr<LoadedFile> shared = std::make_shared<LoadedFile>();
  HeapAllocator state_memory;
  HostContext context;
  StateStore store{&state_memory, &context};
  std::vector<std::unique_ptr<OpenMethod>> methods;
  bool is_tracing = false;

  ~State() {
    while (!methods.empty()) methods.pop_back();
  }

  std::unique_ptr<Trace> make_trace() const {
    return std::make_unique<Trace>(shared->options.trace_limit / shared->program->method_count());
  }

  Status load_methods(std::vector<Method *> &out, Error &error) {
    const MethodOptions &options = shared->options;
    const uint32_t threads = options.threads == 0 ? default_thread_count() : std::min(options.threads, kMaxThreads);
    const Program &program = *shared->program;
    for (size_t i = 0; i < program.method_count(); ++i) {
      HeapAllocator scratch;
      EDGECORE_TRY(program.check_allocated(i, scratch, error));
      auto open = std::make_unique<OpenMethod>();
      open->context.threads = threads;
      MethodConfig config;
      config.allocator = &open->memory;
      config.scratch = &open->scratch;
      config.host = host_services();
      config.devices = device_memory();
      config.context = &open->context;
      config.kernels = {shared->kernels.data(), shared->kernels.size()};
      config.backends = {shared->loaded.data(), shared->loaded.size()};
      config.trust = options.trust;
      config.state = &store;
      config.sharing = options.sharing;
      if (options.trace) open->trace = make_trace();
      // A tracer makes delegates report their operations, which takes time that the level kCalls has no use for.
      const bool reports = options.trace && options.trace_level != TraceLevel::kCalls;
      config.tracer = reports ? open->trace.get() : nullptr;
      if (options.values || options.debug != DebugLevel::kNone) {
        const uint64_t limit = options.debug_limit / program.method_count();
        open->values = std::make_unique<ValueRecorder>(options.values, options.debug, open->trace.get(), limit);
      }
      config.values = open->values.get();
      config.operation_values = options.values || options.debug == DebugLevel::kValues;
      const uint64_t begin = platform_nanoseconds();
      const Result<Method *> method = Method::load(program, program.method(i).name(), config, error);
      EDGECORE_TRY(method.status());
      open->method = *method;
      if (options.trace) {
        open->trace->add_load(begin, platform_nanoseconds());
        open->start_trace(options.trace_level);
      }
      out.push_back(*method);
      methods.push_back(std::move(open));
    }
    is_tracing = options.trace;
    return {};
  }
};

Limits default_limits() {
  Limits limits;
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) {
    const uint64_t memory = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
    limits.planned_bytes = std::min(limits.planned_bytes, memory);
  }
  return limits;
}

Module::Module() : state_(std::make_unique<State>()) { use_host_platform(); }
Module::~Module() = default;

void Module::set_limits(const Limits &limits) { state_->shared->limits = limits; }
void Module::set_load_mode(LoadMode mode) { state_->shared->mode = mode; }

Status Module::add_data(const char *path, Error &error) {
  state_->shared->data.emplace_back();
  state_->shared->data.back().name = path;
  EDGECORE_TRY(state_->shared->data.back().source.open(path, state_->shared->mode, error));
  return state_->shared->load_data(error);
}

Status Module::add_data(Bytes bytes, const char *name, Error &error) {
  state_->shared->data.emplace_back();
  state_->shared->data.back().name = name;
  EDGECORE_TRY(state_->shared->data.back().source.copy(bytes, error));
  return state_->shared->load_data(error);
}

Status Module::add_data(DataLoader &loader, const char *name, Error &error) {
  state_->shared->data.emplace_back();
  state_->shared->data.back().name = name;
  state_->shared->data.back().source.loader = &loader;
  return state_->shared->load_data(error);
}

Status Module::open(const char *path, Error &error) {
  EDGECORE_TRY(state_->shared->file.open(path, state_->shared->mode, error));
  const Status status = state_->shared->load_program(error);
  // A loader's own errors name the file already.
  if (status.ok() || status.code() == EDGECORE_ACCESS_FAILED) return status;
  const Error reason = error;
  return fail(error, status.code(), path, ": ", reason.sentence());
}

Status Module::open(Bytes bytes, Error &error) {
  EDGECORE_TRY(state_->shared->file.copy(bytes, error));
  return state_->shared->load_program(error);
}

Status Module::open(DataLoader &loader, Error &error) {
  state_->shared->file.loader = &loader;
  return state_->shared->load_program(error);
}

const Program &Module::program() const { return *state_->shared->program; }

std::vector<StringView> Module::required_backends() const {
  std::vector<StringView> ids;
  const Program &program = *state_->shared->program;
  for (size_t i = 0; i < program.method_count(); ++i) {
    const MethodInfo method = program.method(i);
    for (size_t j = 0; j < method.delegate_count(); ++j) {
      const StringView id = method.delegate(j).backend_id;
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  return ids;
}

std::vector<StringView> Module::missing_backends() const {
  std::vector<StringView> ids = required_backends();
  Error unused;
  ids.erase(std::remove_if(ids.begin(), ids.end(),
                           [&](StringView id) { return state_->shared->find_backend(id, unused).ok(); }),
            ids.end());
  return ids;
}

Status Module::find_backend(StringView backend_id, const std::vector<std::string> &folders,
                            Span<const edgecore_option> options, Error &error) {
  for (const edgecore_backend_fn *function = edgecore_linked_backends(); *function != nullptr; ++function) {
    const edgecore_backend *table = (*function)();
    EDGECORE_TRY(check_backend(table, host_features(), kLinked, error));
    if (StringView(table->backend_id) == backend_id) return state_->shared->open_backend(table, options, error);
  }
  Manifest manifest;
  EDGECORE_TRY(find_manifest(backend_id, folders, manifest, error));
  std::vector<edgecore_option> all(options.begin(), options.end());
  for (const JsonItem &item : manifest.options) {
    const edgecore_option option = to_option(item);
    const auto has_name = [&](const edgecore_option &other) { return StringView(other.name) == option.name; };
    if (std::none_of(options.begin(), options.end(), has_name)) all.push_back(option);
  }
  const Status status = load_backend(manifest.library.c_str(), backend_id, {all.data(), all.size()}, error);
  return status.ok() ? status : extend(error, " The manifest is ", manifest.path.c_str(), ".");
}

Status Module::load_backend(const char *path, StringView backend_id, Span<const edgecore_option> options,
                            Error &error) {
  const Result<const edgecore_backend *> table = load_backend_library(path, backend_id, error);
  EDGECORE_TRY(table.status());
  return state_->shared->open_backend(*table, options, error);
}

Status Module::add_backend(const edgecore_backend *table, Span<const edgecore_option> options, Error &error) {
  EDGECORE_TRY(check_backend(table, host_features(), kLinked, error));
  return state_->shared->open_backend(table, options, error);
}

std::vector<std::string> Module::missing_operators() const {
  std::vector<std::string> missing;
  const Program &program = *state_->shared->program;
  for (size_t i = 0; i < program.method_count(); ++i) {
    const MethodInfo method = program.method(i);
    for (size_t j = 0; j < method.operator_count(); ++j) {
      const OperatorName op = method.operator_name(j);
      if (std::any_of(state_->shared->kernels.begin(), state_->shared->kernels.end(),
                      [&](const edgecore_kernel_library *library) { return has_kernel(*library, op); })) {
        continue;
      }
      std::string name(op.name.data(), op.name.size());
      if (!op.overload.empty()) name += "." + std::string(op.overload.data(), op.overload.size());
      if (std::find(missing.begin(), missing.end(), name) == missing.end()) missing.push_back(name);
    }
  }
  return missing;
}

Status Module::add_kernels(const edgecore_kernel_library *library, Error &error) {
  EDGECORE_TRY(check_kernel_library(library, "linked into this application", error));
  state_->shared->add_kernels(library);
  return {};
}

Status Module::load_kernels(const char *path, Error &error) {
  const Result<const edgecore_kernel_library *> library = load_kernel_library(path, error);
  EDGECORE_TRY(library.status());
  state_->shared->add_kernels(*library);
  return {};
}

Status Module::load_methods(const MethodOptions &options, Error &error) {
  LoadedFile &shared = *state_->shared;
  if (!shared.loaded.empty() || !methods_.empty()) {  // `loaded` must not change: loaded methods point to it
    return fail(error, EDGECORE_ALREADY_LOADED, "The methods of this program are loaded already.");
  }
  if (options.debug != DebugLevel::kNone && !options.trace) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Debug values are part of a trace: `debug` needs `trace`.");
  }
  if (options.trace_limit > kMaxTraceLimit) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "trace_limit must be at most ", kMaxTraceLimit, " bytes; got ",
                options.trace_limit, ".");
  }
  for (const auto &backend : shared.backends) shared.loaded.push_back(backend->loaded);
  shared.options = options;
  EDGECORE_TRY(state_->load_methods(methods_, error));
  // Let the operating system drop the pages of the file from memory: most backends keep packed copies of their weights.
  if (!shared.backends.empty()) {
    shared.file.drop_pages();
    for (const DataPart &part : shared.data) part.source.drop_pages();
  }
  return {};
}

Status Module::new_session(Module &session, Error &error) const {
  if (methods_.empty()) return fail(error, EDGECORE_INVALID_STATE, "load_methods was not called.");
  session.methods_.clear();
  session.state_ = std::make_unique<State>();
  session.state_->shared = state_->shared;
  return session.state_->load_methods(session.methods_, error);
}

Status Module::reset(Error &error) {
  for (Method *method : methods_) method->reset();
  return state_->store.reset(error);
}

Status Module::set_options(StringView backend_id, Span<const edgecore_option> new_options, Error &error) {
  const Result<const LoadedBackend *> backend = state_->shared->find_backend(backend_id, error);
  EDGECORE_TRY(backend.status());
  std::vector<edgecore_option> options(new_options.begin(), new_options.end());
  EDGECORE_TRY(check_options((*backend)->table, EDGECORE_OPTION_AT_RUN, {options.data(), options.size()}, error));
  for (const edgecore_option &option : options) {
    for (Method *method : methods_) {
      const Status status = method->set_option(backend_id, option, error);
      if (!status.ok() && status.code() != EDGECORE_NOT_FOUND) return status;
    }
  }
  return {};
}

Status Module::export_state(std::vector<uint8_t> &state, Error &error) const {
  return edgecore::export_state({methods_.data(), methods_.size()}, state_->store, state, error);
}

Status Module::import_state(Bytes state, Error &error) {
  return edgecore::import_state({methods_.data(), methods_.size()}, state_->store, state, error);
}

Status Module::allocate_outputs(size_t method, Error &error) {
  OpenMethod &open = *state_->methods[method];
  const MethodInfo info = open.method->info();
  for (size_t i = 0; i < info.output_count(); ++i) {
    if (!open.method->output_needs_memory(i)) continue;
    const uint64_t bytes = info.output(i).tensor.bytes;
    HeapBlock block =
        bytes > SIZE_MAX - kArenaTail ? nullptr : heap_block(static_cast<size_t>(bytes) + kArenaTail, kArenaAlignment);
    if (block == nullptr) {
      return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for the ", bytes, " bytes of output ", i,
                  " of method ", info.name(), ".");
    }
    EDGECORE_TRY(open.method->set_output(i, block.get(), bytes, error));
    open.outputs.push_back(std::move(block));
  }
  open.has_outputs = true;
  return {};
}

Status Module::run(StringView name, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs, Error &error) {
  const Result<size_t> index = program().find_method(name, error);
  EDGECORE_TRY(index.status());
  if (methods_.empty()) return fail(error, EDGECORE_INVALID_STATE, "load_methods was not called.");
  Method &target = *methods_[*index];
  const MethodInfo info = target.info();
  size_t used = 0;  // of `inputs`
  for (size_t i = 0; i < info.input_count(); ++i) {
    const uint32_t tag = info.input(i).tag;
    if (tag == EDGECORE_TAG_NONE) EDGECORE_TRY(target.set_input_none(i, error));
    if (tag != EDGECORE_TAG_TENSOR) continue;
    if (used == inputs.size() || inputs[used].empty()) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "Input ", i, " of method '", name,
                  used == inputs.size() ? "' is missing." : "' is an empty tensor.");
    }
    const Tensor &input = inputs[used++];
    std::vector<int64_t> strides(input.shape().size());
    int64_t next = 1;
    for (size_t d = strides.size(); d-- > 0; next *= input.shape()[d]) strides[d] = next;
    TensorArgument argument;
    argument.data = input.data();
    argument.scalar_type = input.scalar_type();
    argument.shape = {input.shape().data(), input.shape().size()};
    argument.strides = {strides.data(), strides.size()};
    argument.readable_bytes = input.bytes() + kArenaTail;
    argument.writable = true;
    EDGECORE_TRY(target.set_input(i, argument, error));
  }
  if (used != inputs.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", name, "' takes ", used, " tensors; got ", inputs.size(),
                ".");
  }
  if (!state_->methods[*index]->has_outputs) EDGECORE_TRY(allocate_outputs(*index, error));
  EDGECORE_TRY(target.execute(error));
  outputs.clear();
  for (size_t i = 0; i < info.output_count(); ++i) {
    const edgecore_value &value = target.output(i);
    if (value.tag == EDGECORE_TAG_TENSOR) outputs.push_back(copy_of(*value.as.tensor));
  }
  return {};
}

std::vector<OperationValue> Module::take_values(size_t method) {
  const std::unique_ptr<ValueRecorder> &recorder = state_->methods[method]->values;
  return recorder == nullptr ? std::vector<OperationValue>() : recorder->take();
}

void Module::start_trace(TraceLevel level) {
  for (const auto &method : state_->methods) {
    if (method->trace == nullptr) method->trace = state_->make_trace();
    method->start_trace(level);
  }
  state_->is_tracing = true;
}

void Module::stop_trace() {
  for (const auto &method : state_->methods) {
    method->context.loops = nullptr;
    method->method->set_tracer(nullptr);
  }
  state_->is_tracing = false;
}

void Module::clear_trace() {
  for (const auto &method : state_->methods) {
    if (method->trace != nullptr) method->trace->clear();
    if (method->values != nullptr) method->values->clear();
  }
}

TraceInfo Module::trace_info() const {
  TraceInfo info;
  info.is_running = state_->is_tracing;
  for (const auto &method : state_->methods) {
    if (method->trace == nullptr) continue;
    info.level = method->trace->level();
    info.events += method->trace->size() + method->trace->load_events().size();
    info.dropped += method->trace->dropped();
    info.bytes += method->trace->bytes();
  }
  return info;
}

Status Module::write_trace(const char *path, const char *values, Error &error) const {
  std::vector<TracedMethod> methods;
  for (size_t i = 0; i < state_->methods.size(); ++i) {
    const Trace *trace = state_->methods[i]->trace.get();
    if (trace == nullptr) continue;
    const StringView name = program().method(i).name();
    methods.push_back({std::string(name.data(), name.size()), operators_of(program(), i), trace});
    methods.back().values = state_->methods[i]->values.get();
    methods.back().delegates = delegates_of(program(), i);
  }
  if (methods.empty()) {
    return fail(error, EDGECORE_INVALID_STATE, "The methods were loaded without trace, and none was started later.");
  }
  std::vector<uint8_t> buffer;
  EDGECORE_TRY(write_file(path, etdump_of(methods, values == nullptr ? nullptr : &buffer), error));
  return values == nullptr ? Status() : write_file(values, buffer, error);
}

Status Module::convert_trace(Bytes records, const char *path, Error &error) const {
  std::vector<uint8_t> etdump;
  EDGECORE_TRY(etdump_of_records(program(), records, etdump, error));
  return write_file(path, etdump, error);
}

Span<const edgecore_kernel_library *const> kernel_libraries() {
  static const edgecore_kernel_library *const libraries[] = {edgecore_kernels_library()};
  return libraries;
}

}  // namespace edgecore
