#include "program.h"

#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "docs.h"
#include "host/library.h"
#include "log.h"
#include "method.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace edgecore::python {
namespace {

// Options of a backend, converted from a Python dict to the structs of the C interface. `texts` owns the strings that
// `items` point to; a deque, because its elements never move.
struct Options {
  std::vector<edgecore_option> items;
  std::deque<std::string> texts;

  explicit Options(const nb::dict &values) {
    for (const auto &[name, value] : values) add(name, value);
  }

  edgecore_str keep(nb::handle object) {
    texts.push_back(nb::cast<const char *>(object));
    return {texts.back().data(), texts.back().size()};
  }

  void add(nb::handle name, nb::handle value) {
    edgecore_option option = {};
    option.name = keep(name);
    if (nb::isinstance<nb::bool_>(value)) {
      option.type = EDGECORE_OPTION_BOOL;
      option.value.i = nb::cast<bool>(value) ? 1 : 0;
    } else if (nb::isinstance<nb::int_>(value)) {
      option.type = EDGECORE_OPTION_INT;
      option.value.i = nb::cast<int64_t>(value);
    } else if (nb::isinstance<nb::float_>(value)) {
      option.type = EDGECORE_OPTION_FLOAT;
      option.value.d = nb::cast<double>(value);
    } else {
      const bool is_bytes = nb::isinstance<nb::bytes>(value);
      const bool is_text = nb::isinstance<nb::str>(value);
      option.type = is_bytes ? EDGECORE_OPTION_BYTES : is_text ? EDGECORE_OPTION_STRING : EDGECORE_OPTION_LIST;
      if (is_bytes) {
        const nb::bytes bytes = nb::borrow<nb::bytes>(value);
        texts.emplace_back(bytes.c_str(), bytes.size());
      } else if (is_text) {
        texts.emplace_back(nb::cast<const char *>(value));
      } else {
        texts.emplace_back(nb::cast<const char *>(nb::module_::import_("json").attr("dumps")(value)));
      }
      option.value.bytes = {reinterpret_cast<const uint8_t *>(texts.back().data()), texts.back().size()};
    }
    items.push_back(option);
  }
};

// Calls work(error) without the GIL. Throws a Python exception if `work` fails.
template <typename Work>
void without_gil(Work work) {
  Error error;
  Status status;
  {
    const nb::gil_scoped_release release;
    status = work(error);
  }
  deliver_log();
  if (!status.ok()) raise(error);
}

// Accesses the bytes of a Python object through the buffer protocol, and holds the Python buffer until this object is
// destroyed.
class BytesOf {
 public:
  explicit BytesOf(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, 0) != 0) throw nb::python_error();
  }
  ~BytesOf() { PyBuffer_Release(&buffer_); }
  BytesOf(const BytesOf &) = delete;
  BytesOf &operator=(const BytesOf &) = delete;
  Bytes get() const { return {static_cast<const uint8_t *>(buffer_.buf), static_cast<size_t>(buffer_.len)}; }

 private:
  Py_buffer buffer_;
};

void set_limits(Module &module, const nb::dict &values) {
  Limits limits = default_limits();
  const auto set = [](auto &limit, nb::handle value) { limit = nb::cast<std::decay_t<decltype(limit)>>(value); };
  for (const auto &[key, value] : values) {
    const std::string name = nb::cast<const char *>(key);
    if (name == "flatbuffer_bytes") {
      set(limits.flatbuffer_bytes, value);
    } else if (name == "nesting") {
      set(limits.nesting, value);
    } else if (name == "tables") {
      set(limits.tables, value);
    } else if (name == "methods") {
      set(limits.methods, value);
    } else if (name == "items") {
      set(limits.items, value);
    } else if (name == "rank") {
      set(limits.rank, value);
    } else if (name == "tensor_bytes") {
      set(limits.tensor_bytes, value);
    } else if (name == "planned_bytes") {
      set(limits.planned_bytes, value);
    } else if (name == "instructions") {
      set(limits.instructions, value);
    } else {
      throw nb::key_error(("no limit '" + name +
                           "'; there are flatbuffer_bytes, nesting, tables, methods, items, rank, tensor_bytes, "
                           "planned_bytes and instructions")
                              .c_str());
    }
  }
  module.set_limits(limits);
}

// Opens a program and verifies it. `file` and the entries of `data` (its .ptd files) are each a tuple with the path as
// bytes, or an object with the buffer protocol. `limits` maps names of limits to values. `mode` is the name of a load
// mode.
std::shared_ptr<PyProgram> open_program(const nb::object &file, const nb::list &data, const nb::dict &limits,
                                        const nb::str &mode) {
  auto program = std::make_shared<PyProgram>();
  set_limits(*program, limits);
  Error error;
  const char *name_of_mode = mode.c_str();
  if (name_of_mode == nullptr) throw nb::python_error();  // the string `mode` cannot be encoded as UTF-8
  const Result<LoadMode> load_mode = load_mode_of(name_of_mode, error);
  if (!load_mode.ok()) raise(error);
  program->set_load_mode(*load_mode);
  for (size_t i = 0; i < nb::len(data); ++i) {
    const nb::object part = data[i];
    if (nb::isinstance<nb::tuple>(part)) {
      const nb::bytes path = nb::cast<nb::bytes>(part[0]);
      without_gil([&](Error &error) { return program->add_data(path.c_str(), error); });
    } else {
      const BytesOf bytes(part);
      const std::string name = "data[" + std::to_string(i) + "]";
      without_gil([&](Error &error) { return program->add_data(bytes.get(), name.c_str(), error); });
    }
  }
  if (nb::isinstance<nb::tuple>(file)) {
    const nb::bytes path = nb::cast<nb::bytes>(file[0]);
    without_gil([&](Error &error) { return program->open(path.c_str(), error); });
  } else {
    const BytesOf bytes(file);
    without_gil([&](Error &error) { return program->open(bytes.get(), error); });
  }
  return program;
}

nb::list backend_ids(const PyProgram &program) {
  nb::list ids;
  for (const StringView id : program.required_backends()) ids.append(text(id));
  return ids;
}

void load_backend(PyProgram &program, const nb::bytes &path, const nb::str &backend_id, const nb::dict &options) {
  const Options converted(options);
  const StringView id(backend_id.c_str());
  without_gil([&](Error &error) {
    const std::unique_lock<std::recursive_mutex> loading(*program.loading);
    return program.load_backend(path.c_str(), id, {converted.items.data(), converted.items.size()}, error);
  });
}

void load_kernels(PyProgram &program, const nb::bytes &path) {
  without_gil([&](Error &error) {
    const std::unique_lock<std::recursive_mutex> loading(*program.loading);
    return program.load_kernels(path.c_str(), error);
  });
}

// Returns "name.overload", the usual name of an operator.
std::string key_of(OperatorName op) {
  std::string key(op.name.data(), op.name.size());
  if (!op.overload.empty()) key += "." + std::string(op.overload.data(), op.overload.size());
  return key;
}

// Returns a kernel table with only the kernel of `op` from `library`. Like libraries, the tables live as long as the
// process. The same kernel always gets the same table, so adding the table to a program a second time has no effect.
// Errors: NOT_FOUND.
Result<const edgecore_kernel_library *> table_of(const edgecore_kernel_library &library, StringView op, Error &error) {
  struct Table {
    edgecore_kernel kernel;
    edgecore_kernel_library library;
  };
  static std::mutex mutex;
  static auto *const tables = new std::map<const edgecore_kernel *, Table>();
  for (uint64_t i = 0; i < library.kernel_count; ++i) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(library.kernels) + i * library.kernel_stride;
    const auto *kernel = reinterpret_cast<const edgecore_kernel *>(bytes);
    if (op != key_of({kernel->name, kernel->overload}).c_str()) continue;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto [place, is_new] = tables->try_emplace(kernel, Table{*kernel, library});
    Table &table = place->second;
    if (is_new) {
      table.library.kernels = &table.kernel;
      table.library.kernel_count = 1;
      table.library.kernel_stride = sizeof(edgecore_kernel);
    }
    return &table.library;
  }
  return fail(error, EDGECORE_NOT_FOUND, "The library has no kernel of ", op, ".");
}

void replace_kernel(PyProgram &program, const nb::bytes &path, const nb::str &op) {
  const StringView name(op.c_str());
  without_gil([&](Error &error) {
    const std::unique_lock<std::recursive_mutex> loading(*program.loading);
    const Result<const edgecore_kernel_library *> library = load_kernel_library(path.c_str(), error);
    EDGECORE_TRY(library.status());
    const Result<const edgecore_kernel_library *> table = table_of(**library, name, error);
    EDGECORE_TRY(table.status());
    return program.add_kernels(*table, KernelUse::kReplace, error);
  });
}

size_t checked_index(const PyProgram &program, size_t method) {
  if (method >= program.locks.size()) throw nb::index_error("there is no method of this index");
  return method;
}

nb::list missing_backends(const PyProgram &program, size_t method) {
  const StringView name = program.program().method(checked_index(program, method)).name();
  nb::list ids;
  for (const StringView id : program.missing_backends(name)) ids.append(text(id));
  return ids;
}

nb::list operators(const PyProgram &program, size_t method) {
  const MethodInfo info = program.program().method(checked_index(program, method));
  nb::list names;
  for (size_t i = 0; i < info.operator_count(); ++i) names.append(nb::str(key_of(info.operator_name(i)).c_str()));
  return names;
}

nb::list missing_operators(const PyProgram &program, size_t method) {
  const StringView name = program.program().method(checked_index(program, method)).name();
  nb::list names;
  for (const std::string &op : program.missing_operators(name)) names.append(text(StringView(op.data(), op.size())));
  return names;
}

// Reads a permutation of `rank` dims from a tuple. If the tuple is NULL or does not have `rank` entries, sets
// `dim_order` to the identity. Returns false if the tuple is not a permutation.
bool read_dim_order(PyObject *dims, size_t rank, uint8_t *dim_order) {
  for (size_t i = 0; i < rank; ++i) dim_order[i] = static_cast<uint8_t>(i);
  if (dims == nullptr || static_cast<size_t>(PyTuple_Size(dims)) != rank) return true;
  uint64_t seen = 0;
  for (size_t i = 0; i < rank; ++i) {
    const long dim = PyLong_AsLong(PyTuple_GetItem(dims, static_cast<Py_ssize_t>(i)));
    if (dim < 0 || static_cast<size_t>(dim) >= rank || (seen >> dim & 1) != 0) return false;
    seen |= uint64_t{1} << dim;
    dim_order[i] = static_cast<uint8_t>(dim);
  }
  return true;
}

nb::list take_values(PyProgram &program, size_t method, const nb::dict &dim_orders) {
  std::vector<OperationValue> values;
  const std::shared_ptr<ExecutionLock> lock = program.locks[checked_index(program, method)];
  if (lock == nullptr) return {};
  without_gil([&](Error &) {
    const std::unique_lock<std::mutex> held = lock->acquire();
    values = program.take_values(method);
    return Status();
  });
  nb::list result;
  for (const OperationValue &value : values) {
    const nb::str operation = text(StringView(value.operation.data(), value.operation.size()));
    const nb::tuple by_name = nb::make_tuple(value.delegate, operation),
                    by_id = nb::make_tuple(value.delegate, value.id);
    PyObject *dims = PyDict_GetItem(dim_orders.ptr(), by_name.ptr());
    if (dims == nullptr) dims = PyDict_GetItem(dim_orders.ptr(), by_id.ptr());
    uint8_t dim_order[kMaxRank];
    if (!read_dim_order(dims, value.value.shape().size(), dim_order)) {
      throw nb::value_error("a dim order is no permutation");
    }
    result.append(nb::make_tuple(value.delegate, operation, value.id, nb::cast(copy_of(value.value, dim_order))));
  }
  return result;
}

nb::object metadata(const PyProgram &program) {
  Error error;
  const Result<Bytes> bytes = program.program().named_data("edgecore.meta.v1", error);
  if (!bytes.ok()) return nb::none();
  return nb::bytes((*bytes).data(), (*bytes).size());
}

void check_digests(const PyProgram &program) {
  without_gil([&](Error &error) { return program.program().check_digests(error); });
}

TraceLevel level_of(int32_t level) {
  if (level < 0 || level > static_cast<int32_t>(TraceLevel::kThreads)) throw nb::value_error("no level of a trace");
  return static_cast<TraceLevel>(level);
}

DebugLevel debug_level_of(int32_t level) {
  if (level < 0 || level > static_cast<int32_t>(DebugLevel::kValues)) throw nb::value_error("no level of debug values");
  return static_cast<DebugLevel>(level);
}

StateSharing sharing_of(const nb::object &share_state) {
  if (share_state.is_none()) return StateSharing::kAsFile;
  return nb::cast<bool>(share_state) ? StateSharing::kAll : StateSharing::kNone;
}

// Returns the lock for a method that was just loaded: the program's shared lock if the method shares state, otherwise a
// new lock.
std::shared_ptr<ExecutionLock> lock_of(PyProgram &program, size_t method) {
  return program.method(method).shares_state() ? program.shared : std::make_shared<ExecutionLock>();
}

// Wraps the methods of a program as PyMethod objects. Some of the methods may be loaded already.
nb::list wrap_methods(const std::shared_ptr<PyProgram> &program) {
  nb::list methods;
  program->locks.resize(program->program().method_count());
  for (size_t i = 0; i < program->locks.size(); ++i) {
    if (program->is_method_loaded(program->program().method(i).name())) program->locks[i] = lock_of(*program, i);
    methods.append(nb::cast(new PyMethod(program, i), nb::rv_policy::take_ownership));
  }
  if (program->options.trace) program->start_trace(program->options.trace_level);
  return methods;
}

nb::list make_methods(const std::shared_ptr<PyProgram> &program, uint32_t threads, bool trust,
                      const nb::object &share_state, int32_t trace, uint64_t trace_limit, bool values, int32_t debug,
                      uint64_t debug_limit, const nb::object &prepare) {
  MethodOptions &options = program->options;
  options.threads = threads;
  options.trust = trust;
  options.sharing = sharing_of(share_state);
  options.trace = trace >= 0;
  if (options.trace) options.trace_level = level_of(trace);
  options.trace_limit = trace_limit;
  options.values = values;
  options.debug = debug_level_of(debug);
  options.debug_limit = debug_limit;
  program->prepare = prepare;
  return wrap_methods(program);
}

nb::tuple new_session(const PyProgram &program) {
  auto session = std::make_shared<PyProgram>();
  session->options = program.options;
  session->prepare = program.prepare;
  session->loading = program.loading;
  without_gil([&](Error &error) {
    const std::unique_lock<std::recursive_mutex> loading(*program.loading);
    return program.new_session(*session, error);
  });
  return nb::make_tuple(session, wrap_methods(session));
}

// Calls work(error) without the GIL. Meanwhile holds the locks of all loaded methods, and prevents other threads from
// loading methods.
template <typename Work>
void with_all_locks(PyProgram &program, Work work) {
  without_gil([&](Error &error) {
    const std::unique_lock<std::recursive_mutex> loading(*program.loading);
    std::vector<std::unique_lock<std::mutex>> held;
    // the locks in `held`, each once, because methods that share state have the same lock
    std::vector<ExecutionLock *> acquired;
    for (const auto &lock : program.locks) {
      if (lock == nullptr || std::find(acquired.begin(), acquired.end(), lock.get()) != acquired.end()) continue;
      acquired.push_back(lock.get());
      held.push_back(lock->acquire());
    }
    return work(error);
  });
}

void start_trace(PyProgram &program, int32_t level) {
  const TraceLevel wanted = level_of(level);
  with_all_locks(program, [&](Error &) { return program.start_trace(wanted), Status(); });
}

void stop_trace(PyProgram &program) {
  with_all_locks(program, [&](Error &) { return program.stop_trace(), Status(); });
}

void clear_trace(PyProgram &program) {
  with_all_locks(program, [&](Error &) { return program.clear_trace(), Status(); });
}

nb::tuple trace_info(PyProgram &program) {
  TraceInfo info;
  with_all_locks(program, [&](Error &) { return info = program.trace_info(), Status(); });
  return nb::make_tuple(info.is_running ? static_cast<int32_t>(info.level) : -1, info.events, info.dropped, info.bytes);
}

void write_trace(PyProgram &program, const nb::bytes &path, const nb::object &values) {
  const char *values_path = values.is_none() ? nullptr : nb::cast<nb::bytes>(values).c_str();
  with_all_locks(program, [&](Error &error) { return program.write_trace(path.c_str(), values_path, error); });
}

void reset(PyProgram &program) {
  with_all_locks(program, [&](Error &error) { return program.reset(error); });
}

nb::bytes export_state(PyProgram &program) {
  std::vector<uint8_t> state;
  with_all_locks(program, [&](Error &error) { return program.export_state(state, error); });
  return nb::bytes(state.data(), state.size());
}

void import_state(PyProgram &program, const nb::object &state) {
  const BytesOf bytes(state);
  with_all_locks(program, [&](Error &error) { return program.import_state(bytes.get(), error); });
}

void set_options(PyProgram &program, const nb::str &backend_id, const nb::dict &options) {
  const Options converted(options);
  const StringView id(backend_id.c_str());
  with_all_locks(program, [&](Error &error) {
    return program.set_options(id, {converted.items.data(), converted.items.size()}, error);
  });
}

void load_method(const std::shared_ptr<PyProgram> &program, size_t method) {
  ready_method(program, checked_index(*program, method));
}

bool is_method_loaded(const PyProgram &program, size_t method) {
  return program.locks[checked_index(program, method)] != nullptr;
}

}  // namespace

Method &ready_method(const std::shared_ptr<PyProgram> &program, size_t index) {
  if (program->locks[index] != nullptr) return program->method(index);
  std::unique_lock<std::recursive_mutex> loading(*program->loading, std::defer_lock);
  {
    const nb::gil_scoped_release release;
    loading.lock();
  }
  if (program->locks[index] != nullptr) return program->method(index);  // another thread has loaded the method
  const StringView name = program->program().method(index).name();
  // A log handler that received messages about this load may have called the method in the meantime, and so loaded it.
  if (!program->is_method_loaded(name) && !program->prepare.is_none()) program->prepare(program, index);
  if (!program->is_method_loaded(name)) {
    without_gil([&](Error &error) {
      // Wait for running methods, because the method may share state with them.
      const std::unique_lock<std::mutex> held = program->shared->acquire();
      return program->load_method(name, program->options, error);
    });
  }
  program->locks[index] = lock_of(*program, index);
  return program->method(index);
}

void bind_program(nb::module_ &module) {
  nb::class_<PyProgram>(module, "Program", docs::kProgram)
      .def_prop_ro("backend_ids", backend_ids, docs::kProgramBackendIds)
      .def_prop_ro(
          "target_runtime", [](const PyProgram &self) { return text(self.program().target_runtime()); },
          docs::kProgramTargetRuntime)
      .def("check_digests", check_digests, docs::kProgramCheckDigests)
      .def("load_backend", load_backend, "path"_a, "backend_id"_a, "options"_a, docs::kProgramLoadBackend)
      .def("missing_backends", missing_backends, "method"_a, docs::kProgramMissingBackends)
      .def("missing_operators", missing_operators, "method"_a, docs::kProgramMissingOperators)
      .def("load_kernels", load_kernels, "path"_a, docs::kProgramLoadKernels)
      .def("operators", operators, "method"_a, docs::kProgramOperators)
      .def("replace_kernel", replace_kernel, "path"_a, "operator"_a, docs::kProgramReplaceKernel)
      .def("make_methods", make_methods, "threads"_a, "trust"_a, "share_state"_a.none(), "trace"_a, "trace_limit"_a,
           "values"_a, "debug"_a = 0, "debug_limit"_a = edgecore::kDebugLimit, "prepare"_a = nb::none(),
           docs::kProgramMakeMethods)
      .def("load_method", load_method, "method"_a, docs::kProgramLoadMethod)
      .def("is_method_loaded", is_method_loaded, "method"_a, docs::kProgramIsMethodLoaded)
      .def("new_session", new_session, docs::kProgramNewSession)
      .def("set_options", set_options, "backend_id"_a, "options"_a, docs::kProgramSetOptions)
      .def("reset", reset, docs::kProgramReset)
      .def("export_state", export_state, docs::kProgramExportState)
      .def("import_state", import_state, "state"_a, docs::kProgramImportState)
      .def_prop_ro("metadata", metadata, docs::kProgramMetadata)
      .def("take_values", take_values, "method"_a, "dim_orders"_a, docs::kProgramTakeValues)
      .def("start_trace", start_trace, "level"_a, docs::kProgramStartTrace)
      .def("stop_trace", stop_trace, docs::kProgramStopTrace)
      .def("clear_trace", clear_trace, docs::kProgramClearTrace)
      .def_prop_ro("trace_info", trace_info, docs::kProgramTraceInfo)
      .def("write_trace", write_trace, "path"_a, "values"_a = nb::none(), docs::kProgramWriteTrace);
  module.def("open_program", open_program, "file"_a, "data"_a, "limits"_a, "load_mode"_a, docs::kOpenProgram);
}

}  // namespace edgecore::python
