#include "edgecore/module.h"

#include <algorithm>

#include "edgecore/kernels.h"
#include "host/backends.h"
#include "host/cpu_count.h"
#include "host/file.h"
#include "host/heap.h"
#include "host/library.h"
#include "host/services.h"
#include "host/thread_pool.h"

namespace edgecore {
namespace {

// A backend of one file. Its scope is known to the backend by address.
struct OpenBackend {
  LoadedBackend loaded;
  HostContext context;
  edgecore_scope scope;

  ~OpenBackend() {
    if (loaded.program != nullptr) loaded.table->program_close(loaded.program);
  }
};

// A method and the memory that it lives in, which it leaves before it is freed.
struct OpenMethod {
  HeapAllocator memory;
  HeapScratch scratch;
  HostContext context;
  std::vector<HeapBlock> outputs;
  Method *method = nullptr;

  ~OpenMethod() {
    if (method != nullptr) method->destroy();
  }
};

edgecore_header header(size_t size) { return {static_cast<uint32_t>(size), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR}; }

}  // namespace

// Destroyed from the last member to the first: methods, backends, program, file.
struct Module::State {
  File file;
  HeapAllocator program_memory;
  const Program *program = nullptr;
  std::vector<std::unique_ptr<OpenBackend>> backends;
  std::vector<LoadedBackend> loaded;  // of `backends`, as the methods see them
  std::vector<std::unique_ptr<OpenMethod>> methods;

  ~State() {
    while (!methods.empty()) methods.pop_back();
    while (!backends.empty()) backends.pop_back();
  }

  Status load_program(Error &error) {
    ProgramConfig config;
    config.allocator = &program_memory;
    const Result<const Program *> loaded = Program::load(file.bytes(), config, error);
    EDGECORE_TRY(loaded.status());
    program = *loaded;
    return {};
  }

  Status open_backend(const edgecore_backend *table, Span<const edgecore_option> given, Error &error) {
    std::vector<edgecore_option> options(given.begin(), given.end());
    EDGECORE_TRY(check_options(table, {options.data(), options.size()}, error));
    const Result<edgecore_driver *> driver = driver_of(table, error);
    EDGECORE_TRY(driver.status());
    auto backend = std::make_unique<OpenBackend>();
    backend->loaded.table = table;
    backend->loaded.driver = *driver;
    backend->scope.program = program;
    backend->scope.context = &backend->context;
    const edgecore_program_info info = {
        header(sizeof info), &backend->scope, {options.data(), options.size(), sizeof(edgecore_option), 0}};
    error.clear();
    EDGECORE_TRY(Status(table->program_open(*driver, &info, &backend->loaded.program, &error)));
    backends.push_back(std::move(backend));
    return {};
  }
};

Module::Module() : state_(std::make_unique<State>()) {}
Module::~Module() = default;

Status Module::open(const char *path, Error &error) {
  EDGECORE_TRY(state_->file.map(path, error));
  const Status status = state_->load_program(error);
  if (status.ok()) return status;
  const Error reason = error;
  return fail(error, status.code(), path, ": ", reason.sentence());
}

Status Module::open(Bytes bytes, Error &error) {
  EDGECORE_TRY(state_->file.copy(bytes, error));
  return state_->load_program(error);
}

const Program &Module::program() const { return *state_->program; }

std::vector<StringView> Module::required_backends() const {
  std::vector<StringView> ids;
  const Program &program = *state_->program;
  for (size_t i = 0; i < program.method_count(); ++i) {
    const MethodInfo method = program.method(i);
    for (size_t j = 0; j < method.delegate_count(); ++j) {
      const StringView id = method.delegate(j).backend_id;
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  return ids;
}

Status Module::load_backend(const char *path, StringView backend_id, Span<const edgecore_option> options,
                            Error &error) {
  const Result<const edgecore_backend *> table = load_backend_library(path, backend_id, error);
  EDGECORE_TRY(table.status());
  return state_->open_backend(*table, options, error);
}

Status Module::add_backend(const edgecore_backend *table, Span<const edgecore_option> options, Error &error) {
  EDGECORE_TRY(check_backend(table, host_features(), "a backend linked into this application", error));
  return state_->open_backend(table, options, error);
}

Status Module::load_methods(const MethodOptions &options, Error &error) {
  std::vector<LoadedBackend> &backends = state_->loaded;
  if (!backends.empty() || !methods_.empty()) {  // which the methods there point to
    return fail(error, EDGECORE_ALREADY_LOADED, "The methods of this program are loaded already.");
  }
  for (const auto &backend : state_->backends) backends.push_back(backend->loaded);
  const uint32_t threads = options.threads == 0 ? default_thread_count() : std::min(options.threads, kMaxThreads);
  const Program &program = *state_->program;
  for (size_t i = 0; i < program.method_count(); ++i) {
    auto open = std::make_unique<OpenMethod>();
    open->context.threads = threads;
    MethodConfig config;
    config.allocator = &open->memory;
    config.scratch = &open->scratch;
    config.host = host_services();
    config.context = &open->context;
    config.kernels = kernel_libraries();
    config.backends = {backends.data(), backends.size()};
    config.trust = options.trust;
    const Result<Method *> method = Method::load(program, program.method(i).name(), config, error);
    EDGECORE_TRY(method.status());
    open->method = *method;
    methods_.push_back(*method);
    state_->methods.push_back(std::move(open));
  }
  return {};
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
  return {};
}

Span<const edgecore_kernel_library *const> kernel_libraries() {
  static const edgecore_kernel_library *const libraries[] = {edgecore_kernels_library()};
  return libraries;
}

}  // namespace edgecore
