#include "edgecore/module.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/platform.h"
#include "edgecore/kernels.h"
#include "edgecore/linked_backends.h"
#include "host/backends.h"
#include "host/cpu_count.h"
#include "host/library.h"
#include "host/manifest.h"
#include "host/module_state.h"
#include "host/platform.h"
#include "host/saved_state.h"
#include "host/thread_pool.h"

namespace edgecore {
namespace {

// Converts an option of a manifest to the C interface. The option's strings point into `item`, which must outlive the
// option.
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

template <typename Item>
void add_once(std::vector<Item> &items, Item item) {
  if (std::find(items.begin(), items.end(), item) == items.end()) items.push_back(std::move(item));
}

void add_backends(const MethodInfo &method, std::vector<StringView> &ids) {
  for (size_t i = 0; i < method.delegate_count(); ++i) add_once(ids, method.delegate(i).backend_id);
}

// Appends to `missing` the operators of a method, as "name.overload", that have no kernel.
void add_missing_operators(const KernelTables &kernels, const MethodInfo &method, std::vector<std::string> &missing) {
  for (size_t i = 0; i < method.operator_count(); ++i) {
    const OperatorName op = method.operator_name(i);
    if (kernels.has_kernel(op)) continue;
    std::string name(op.name.data(), op.name.size());
    if (!op.overload.empty()) name += "." + std::string(op.overload.data(), op.overload.size());
    add_once(missing, std::move(name));
  }
}

constexpr char kLinked[] = "a backend linked into this application";

}  // namespace

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
  // The errors of a loader (ACCESS_FAILED) name the file already.
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
  if (!is_open()) return ids;
  for (size_t i = 0; i < program().method_count(); ++i) add_backends(program().method(i), ids);
  return ids;
}

std::vector<StringView> Module::missing_backends() const {
  std::vector<StringView> ids = required_backends();
  state_->shared->remove_opened(ids);
  return ids;
}

std::vector<StringView> Module::missing_backends(StringView name) const {
  std::vector<StringView> ids;
  Error unused;
  if (const std::optional<MethodInfo> method = method_meta(name, unused)) add_backends(*method, ids);
  state_->shared->remove_opened(ids);
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
  if (!is_open()) return missing;
  for (size_t i = 0; i < program().method_count(); ++i) {
    add_missing_operators(state_->shared->kernels, program().method(i), missing);
  }
  return missing;
}

std::vector<std::string> Module::missing_operators(StringView name) const {
  std::vector<std::string> missing;
  Error unused;
  const std::optional<MethodInfo> method = method_meta(name, unused);
  if (method) add_missing_operators(state_->shared->kernels, *method, missing);
  return missing;
}

Status Module::add_kernels(const edgecore_kernel_library *library, KernelUse use, Error &error) {
  EDGECORE_TRY(check_kernel_library(library, "linked into this application", error));
  const std::lock_guard<std::recursive_mutex> lock(state_->shared->loading);
  state_->shared->kernels.add(library, use);
  return {};
}

Status Module::load_kernels(const char *path, KernelUse use, Error &error) {
  const Result<const edgecore_kernel_library *> library = load_kernel_library(path, error);
  EDGECORE_TRY(library.status());
  const std::lock_guard<std::recursive_mutex> lock(state_->shared->loading);
  state_->shared->kernels.add(*library, use);
  return {};
}

Status Module::State::load_method(size_t index, const MethodOptions &options, Error &error) {
  if (options.debug != DebugLevel::kNone && !options.trace) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Debug values are part of a trace: `debug` needs `trace`.");
  }
  if (options.trace && options.tracer != nullptr) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "`trace` and `tracer` exclude each other: a method has one tracer.");
  }
  if (options.trace_limit > kMaxTraceLimit) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "trace_limit must be at most ", kMaxTraceLimit, " bytes; got ",
                options.trace_limit, ".");
  }
  const std::lock_guard<std::recursive_mutex> lock(shared->loading);
  const Program &program = *shared->program;
  HeapAllocator scratch;
  EDGECORE_TRY(program.check_allocated(index, scratch, error));
  auto open = std::make_unique<OpenMethod>();
  open->options = options;
  open->context.threads = options.threads == 0 ? default_thread_count() : std::min(options.threads, kMaxThreads);
  for (const auto &backend : shared->backends) open->backends.push_back(backend->loaded);
  const auto kernels = shared->kernels.libraries(error);
  EDGECORE_TRY(kernels.status());
  open->kernels.assign((*kernels).begin(), (*kernels).end());
  MethodConfig config;
  config.allocator = options.allocator != nullptr ? options.allocator : &open->memory;
  config.scratch = options.scratch != nullptr ? options.scratch : &open->scratch;
  config.host = host_services();
  config.devices = device_memory();
  config.context = &open->context;
  config.kernels = {open->kernels.data(), open->kernels.size()};
  config.backends = {open->backends.data(), open->backends.size()};
  config.trust = options.trust;
  config.state = &store;
  config.sharing = options.sharing;
  config.tracer = options.tracer;
  if (options.trace) open->trace = make_trace(options);
  // Load without a tracer at TraceLevel::kCalls: with a tracer, delegates report each operation, which takes time.
  const bool reports = options.trace && options.trace_level != TraceLevel::kCalls;
  if (reports) config.tracer = open->trace.get();
  if (options.values || options.debug != DebugLevel::kNone) {
    const uint64_t limit = options.debug_limit / program.method_count();
    open->values = std::make_unique<ValueRecorder>(options.values, options.debug, open->trace.get(), limit);
  }
  config.values = open->values.get();
  config.operation_values = options.values || options.debug == DebugLevel::kValues;
  const uint64_t begin = platform_nanoseconds();
  const Result<Method *> method = Method::load(program, program.method(index).name(), config, error);
  EDGECORE_TRY(method.status());
  open->method = *method;
  if (options.trace) open->trace->add_load(begin, platform_nanoseconds());
  if (started_level.has_value() || (options.trace && !is_stopped)) {
    if (open->trace == nullptr) open->trace = make_trace(options);
    open->start_trace(started_level.value_or(options.trace_level));
    is_tracing = true;
  } else if (options.trace) {
    open->stop_trace();  // stop_trace was called before the load, so trace the load only
  }
  const MethodInfo info = open->method->info();
  open->inputs.resize(info.input_count());
  open->last_inputs.resize(info.input_count());
  open->outputs.resize(info.output_count());
  open->output_memory.resize(info.output_count());
  methods.resize(program.method_count());
  methods[index] = std::move(open);
  return {};
}

Status Module::load_at(size_t index, const MethodOptions &options, Error &error) {
  EDGECORE_TRY(state_->load_method(index, options, error));
  methods_.resize(state_->methods.size());
  methods_[index] = state_->methods[index]->method;
  return {};
}

Status Module::load_methods(const MethodOptions &options, Error &error) {
  if (!is_open()) return no_program(error);
  const size_t count = program().method_count();
  bool loaded = false;
  for (size_t i = 0; i < count; ++i) {
    if (is_loaded(i)) continue;
    EDGECORE_TRY(load_at(i, options, error));
    loaded = true;
  }
  if (!loaded) return fail(error, EDGECORE_ALREADY_LOADED, "The methods of this program are loaded already.");
  state_->shared->drop_pages();
  return {};
}

Status Module::load_method(StringView name, const MethodOptions &options, Error &error) {
  const Result<size_t> index = find_method(name, error);
  EDGECORE_TRY(index.status());
  if (is_loaded(*index)) return fail(error, EDGECORE_ALREADY_LOADED, "Method '", name, "' is loaded already.");
  EDGECORE_TRY(load_at(*index, options, error));
  if (program().method(*index).delegate_count() != 0) state_->shared->drop_pages();
  return {};
}

Result<size_t> Module::find_method(StringView name, Error &error) const {
  if (is_open()) return program().find_method(name, error);
  return no_program(error);
}

bool Module::is_open() const { return state_->shared->program != nullptr; }

bool Module::is_loaded(size_t index) const { return index < methods_.size() && methods_[index] != nullptr; }

bool Module::is_method_loaded(StringView name) const {
  Error unused;
  const Result<size_t> index = find_method(name, unused);
  return index.ok() && is_loaded(*index);
}

std::vector<std::string> Module::method_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; is_open() && i < program().method_count(); ++i) {
    const StringView name = program().method(i).name();
    names.emplace_back(name.data(), name.size());
  }
  return names;
}

std::optional<MethodInfo> Module::method_meta(StringView name, Error &error) const {
  const Result<size_t> index = find_method(name, error);
  return index.ok() ? std::optional<MethodInfo>(program().method(*index)) : std::nullopt;
}

Status Module::new_session(Module &session, Error &error) const {
  if (!is_open()) return no_program(error);
  session.methods_.clear();
  session.state_ = std::make_unique<State>();
  session.state_->shared = state_->shared;
  for (size_t i = 0; i < methods_.size(); ++i) {
    if (!is_loaded(i)) continue;
    MethodOptions options = state_->methods[i]->options;
    options.allocator = nullptr;  // two sessions at the same time must not share an allocator, scratch memory or tracer
    options.scratch = nullptr;
    options.tracer = nullptr;
    EDGECORE_TRY(session.load_at(i, options, error));
  }
  return {};
}

std::vector<Method *> Module::loaded_methods() const {
  std::vector<Method *> methods = methods_;
  methods.erase(std::remove(methods.begin(), methods.end(), nullptr), methods.end());
  return methods;
}

Status Module::reset(Error &error) {
  for (Method *method : loaded_methods()) method->reset();
  return state_->store.reset(error);
}

Status Module::set_options(StringView backend_id, Span<const edgecore_option> new_options, Error &error) {
  const Result<const LoadedBackend *> backend = state_->shared->find_backend(backend_id, error);
  EDGECORE_TRY(backend.status());
  std::vector<edgecore_option> options(new_options.begin(), new_options.end());
  EDGECORE_TRY(check_options((*backend)->table, EDGECORE_OPTION_AT_RUN, {options.data(), options.size()}, error));
  for (const edgecore_option &option : options) {
    for (Method *method : loaded_methods()) {
      const Status status = method->set_option(backend_id, option, error);
      if (!status.ok() && status.code() != EDGECORE_NOT_FOUND) return status;
    }
  }
  return {};
}

Status Module::export_state(std::vector<uint8_t> &state, Error &error) const {
  const std::vector<Method *> methods = loaded_methods();
  return edgecore::export_state({methods.data(), methods.size()}, state_->store, state, error);
}

Status Module::import_state(Bytes state, Error &error) {
  const std::vector<Method *> methods = loaded_methods();
  return edgecore::import_state({methods.data(), methods.size()}, state_->store, state, error);
}

Span<const edgecore_kernel_library *const> kernel_libraries() {
  static const edgecore_kernel_library *const libraries[] = {edgecore_kernels_library()};
  return libraries;
}

}  // namespace edgecore
