// The Python module edgecore._runtime.
#include "edgecore/module.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <deque>
#include <string>

#include "docs.h"
#include "edgecore/backend.h"
#include "edgecore/platform.h"
#include "host/library.h"
#include "host/platform.h"
#include "log.h"
#include "run.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace edgecore::python {
namespace {

nb::str text(StringView view) {
  PyObject *decoded = PyUnicode_DecodeUTF8(view.data(), static_cast<Py_ssize_t>(view.size()), "replace");
  if (decoded == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(decoded);
}

// The locks of all methods. A run holds its method's lock; methods that share state (such as a mutable buffer) have the
// same lock, so that their runs do not overlap.
struct ExecutionLocks {
  std::vector<std::shared_ptr<ExecutionLock>> locks;
};

// The native class of edgecore.Program. ExecutionLocks is the first base class, so that it is destroyed after Module:
// destroying the module ends pending runs, which the locks own.
struct PyProgram : ExecutionLocks, Module {};

// One dim of an input or output. `info` points to strings of the loaded file, which `module` keeps alive.
struct PyDimInfo {
  std::shared_ptr<const Module> module;
  DimInfo info;

  // Returns "batch: 4..8" for a symbolic size, "6" for a fixed size.
  nb::str description() const {
    if (info.min == info.max) return nb::str("{}").format(info.max);
    return nb::str("{}{}{}..{}").format(text(info.name), info.name.empty() ? "" : ": ", info.min, info.max);
  }
};

// An input or output as the file declares it. `info` points to strings and sizes of the loaded file, which `module`
// keeps alive.
struct PyTensorInfo {
  std::shared_ptr<const Module> module;
  ValueInfo info;
  std::vector<DimInfo> dim_infos;

  nb::str dtype() const {
    switch (info.tag) {
      case EDGECORE_TAG_TENSOR:
        return text(type_name(info.tensor.scalar_type));
      case EDGECORE_TAG_INT:
        return nb::str("int");
      case EDGECORE_TAG_DOUBLE:
        return nb::str("float");
      case EDGECORE_TAG_BOOL:
        return nb::str("bool");
      case EDGECORE_TAG_STRING:
        return nb::str("str");
      default:
        return nb::str("none");
    }
  }
  nb::tuple shape() const {
    nb::list sizes;
    for (const int32_t size : info.tensor.sizes) sizes.append(size);
    return nb::tuple(sizes);
  }
  nb::tuple dims() const {
    nb::list dims;
    for (const DimInfo &dim : dim_infos) dims.append(nb::cast(PyDimInfo{module, dim}));
    return nb::tuple(dims);
  }
  // Returns a text such as "float32 [batch: 4..8, 6]".
  nb::str description() const {
    if (!is_tensor()) return dtype();
    nb::list dims;
    for (const DimInfo &dim : dim_infos) dims.append(PyDimInfo{module, dim}.description());
    return nb::str("{} [{}]").format(dtype(), nb::str(", ").attr("join")(dims));
  }
  nb::tuple dim_order() const {
    nb::list dims;
    for (const uint8_t dim : info.tensor.dim_order) dims.append(static_cast<int>(dim));
    return nb::tuple(dims);
  }
  bool is_tensor() const { return info.tag == EDGECORE_TAG_TENSOR; }
  bool dynamic() const { return info.tensor.shape_kind == EDGECORE_SHAPE_BOUNDED; }
};

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

// Calls work(error) without the GIL. Throws the Python exception of a status that is not OK.
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

// Gives access to the bytes of a Python object through the buffer protocol. Holds the Python buffer until the BytesOf
// is destroyed.
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

// Opens a program and verifies it. `file` and the entries of `data`, its .ptd files, are each a tuple with the path as
// bytes, or an object with the buffer protocol. `limits` maps names of limits to values. `mode` is the name of a load
// mode.
std::shared_ptr<PyProgram> open_program(const nb::object &file, const nb::list &data, const nb::dict &limits,
                                        const nb::str &mode) {
  auto program = std::make_shared<PyProgram>();
  set_limits(*program, limits);
  Error error;
  const char *name_of_mode = mode.c_str();
  if (name_of_mode == nullptr) throw nb::python_error();  // it has no UTF-8
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
    return program.load_backend(path.c_str(), id, {converted.items.data(), converted.items.size()}, error);
  });
}

void load_kernels(PyProgram &program, const nb::bytes &path) {
  without_gil([&](Error &error) { return program.load_kernels(path.c_str(), error); });
}

nb::list missing_operators(const PyProgram &program) {
  nb::list names;
  for (const std::string &name : program.missing_operators()) names.append(text(StringView(name.data(), name.size())));
  return names;
}

// Reads a permutation of `rank` dims from a tuple. Without one (NULL), or if it has another length, the dims keep their
// order. Returns false if the tuple is no permutation.
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
  without_gil([&](Error &) {
    const std::unique_lock<std::mutex> held = program.locks[method]->acquire();
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

// Wraps the loaded methods of a program, and makes their locks.
nb::list wrap_methods(const std::shared_ptr<PyProgram> &program) {
  const auto shared_lock = std::make_shared<ExecutionLock>();
  nb::list methods;
  for (size_t i = 0; i < program->method_count(); ++i) {
    Method &method = program->method(i);
    program->locks.push_back(method.shares_state() ? shared_lock : std::make_shared<ExecutionLock>());
    methods.append(nb::cast(new PyMethod(program, method, program->locks.back()), nb::rv_policy::take_ownership));
  }
  return methods;
}

nb::list load_methods(const std::shared_ptr<PyProgram> &program, uint32_t threads, bool trust,
                      const nb::object &share_state, int32_t trace, uint64_t trace_limit, bool values, int32_t debug,
                      uint64_t debug_limit) {
  MethodOptions options;
  options.threads = threads;
  options.trust = trust;
  options.sharing = sharing_of(share_state);
  options.trace = trace >= 0;
  if (options.trace) options.trace_level = level_of(trace);
  options.trace_limit = trace_limit;
  options.values = values;
  options.debug = debug_level_of(debug);
  options.debug_limit = debug_limit;
  without_gil([&](Error &error) { return program->load_methods(options, error); });
  return wrap_methods(program);
}

nb::tuple new_session(const PyProgram &program) {
  auto session = std::make_shared<PyProgram>();
  without_gil([&](Error &error) { return program.new_session(*session, error); });
  return nb::make_tuple(session, wrap_methods(session));
}

// Implements Method.__call__(*inputs, out=None, **named_inputs) as the type's tp_call slot: a bound function `__call__`
// took 0.5 us more per call.
PyObject *call_method(PyObject *self, PyObject *inputs, PyObject *keywords) {
  try {
    if (!nb::inst_ready(self)) throw nb::type_error("This Method was not made by edgecore.load.");
    PyMethod &method = *nb::inst_ptr<PyMethod>(self);
    PyObject *out = keywords == nullptr ? nullptr : PyDict_GetItemString(keywords, "out");
    const bool named = keywords != nullptr && PyDict_Size(keywords) > (out == nullptr ? 0 : 1);
    return method.call(method.flat_inputs(inputs, named ? keywords : nullptr), out).release().ptr();
  } catch (nb::python_error &failure) {
    failure.restore();
  } catch (const nb::builtin_exception &failure) {
    PyErr_SetString(PyExc_TypeError, failure.what());
  } catch (const std::exception &failure) {
    PyErr_SetString(PyExc_RuntimeError, failure.what());
  }
  return nullptr;
}

// Calls work(error) without the GIL, with the locks of all methods held.
template <typename Work>
void with_all_locks(PyProgram &program, Work work) {
  without_gil([&](Error &error) {
    std::vector<std::unique_lock<std::mutex>> held;
    std::vector<ExecutionLock *> acquired;  // each once: methods that share state have the same lock
    for (const auto &lock : program.locks) {
      if (std::find(acquired.begin(), acquired.end(), lock.get()) != acquired.end()) continue;
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

nb::tuple inputs(const PyMethod &method) {
  nb::list values;
  const MethodInfo info = method.core().info();
  for (size_t i = 0; i < info.input_count(); ++i) {
    PyTensorInfo value{method.module(), info.input(i), {}};
    for (size_t d = 0; d < value.info.tensor.sizes.size(); ++d) value.dim_infos.push_back(info.input_dim(i, d));
    values.append(nb::cast(std::move(value)));
  }
  return nb::tuple(values);
}

nb::tuple outputs(const PyMethod &method) {
  nb::list values;
  const MethodInfo info = method.core().info();
  for (size_t i = 0; i < info.output_count(); ++i) {
    PyTensorInfo value{method.module(), info.output(i), {}};
    for (size_t d = 0; d < value.info.tensor.sizes.size(); ++d) value.dim_infos.push_back(info.output_dim(i, d));
    values.append(nb::cast(std::move(value)));
  }
  return nb::tuple(values);
}

// Returns a text such as "forward(x: float32 [batch: 4..8, 6]) -> logits: float32 [batch: 4..8, 10]".
nb::str description(const PyMethod &method) {
  const auto join = [](const nb::tuple &values) {
    nb::list parts;
    for (size_t i = 0; i < nb::len(values); ++i) {
      const PyTensorInfo &value = nb::cast<const PyTensorInfo &>(values[i]);
      parts.append(
          nb::str("{}{}{}").format(text(value.info.name), value.info.name.empty() ? "" : ": ", value.description()));
    }
    return nb::str(", ").attr("join")(parts);
  };
  return nb::str("{}({}) -> {}").format(text(method.core().info().name()), join(inputs(method)), join(outputs(method)));
}

nb::tuple delegates(const PyMethod &method) {
  nb::list ids;
  const MethodInfo info = method.core().info();
  for (size_t i = 0; i < info.delegate_count(); ++i) ids.append(text(info.delegate(i).backend_id));
  return nb::tuple(ids);
}

void append_kernels(const edgecore_kernel_library &library, nb::list &names) {
  const auto *at = reinterpret_cast<const uint8_t *>(library.kernels);
  for (uint64_t i = 0; i < library.kernel_count; ++i, at += library.kernel_stride) {
    const auto *kernel = reinterpret_cast<const edgecore_kernel *>(at);
    names.append(nb::make_tuple(text(kernel->name), text(kernel->overload)));
  }
}

// Lists the runtime's own kernels, or those of the library at `path`.
nb::list kernels(const nb::object &path) {
  nb::list names;
  if (path.is_none()) {
    for (const edgecore_kernel_library *library : kernel_libraries()) append_kernels(*library, names);
    return names;
  }
  Error error;
  const Result<const edgecore_kernel_library *> library = load_kernel_library(nb::cast<nb::bytes>(path).c_str(), error);
  if (!library.ok()) raise(error);
  append_kernels(**library, names);
  return names;
}

}  // namespace
}  // namespace edgecore::python

NB_MODULE(_runtime, module) {
  using namespace edgecore::python;
  // nanobind would report the types and functions of this module, which live until the process ends, as leaks.
  nb::set_leak_warnings(false);
  edgecore::use_host_platform();  // for the level of the environment
  route_log();
  bind_tensor(module);
  bind_run(module);
  nb::class_<PyDimInfo>(module, "DimInfo", docs::kDim)
      .def_prop_ro(
          "name", [](const PyDimInfo &dim) { return text(dim.info.name); }, docs::kDimName)
      .def_prop_ro(
          "min", [](const PyDimInfo &dim) { return dim.info.min; }, docs::kDimMin)
      .def_prop_ro(
          "max", [](const PyDimInfo &dim) { return dim.info.max; }, docs::kDimMax)
      .def(
          "__repr__", [](const PyDimInfo &dim) { return nb::str("DimInfo({})").format(dim.description()); },
          docs::kDimRepr);
  nb::class_<PyTensorInfo>(module, "TensorInfo", docs::kTensorInfo)
      .def_prop_ro(
          "name", [](const PyTensorInfo &value) { return text(value.info.name); }, docs::kTensorInfoName)
      .def_prop_ro("dims", &PyTensorInfo::dims, docs::kTensorInfoDims)
      .def_prop_ro("dtype", &PyTensorInfo::dtype, docs::kTensorInfoDtype)
      .def_prop_ro("shape", &PyTensorInfo::shape, docs::kTensorInfoShape)
      .def_prop_ro("dim_order", &PyTensorInfo::dim_order, docs::kTensorInfoDimOrder)
      .def_prop_ro("is_tensor", &PyTensorInfo::is_tensor, docs::kTensorInfoIsTensor)
      .def_prop_ro("dynamic", &PyTensorInfo::dynamic, docs::kTensorInfoDynamic)
      .def_prop_ro(
          "planned", [](const PyTensorInfo &value) { return value.info.tensor.planned; }, docs::kTensorInfoPlanned)
      .def(
          "__repr__",
          [](const PyTensorInfo &value) {
            return nb::str("TensorInfo('{}', {}{})")
                .format(text(value.info.name), value.description(), value.info.tensor.planned ? ", planned" : "");
          },
          docs::kTensorInfoRepr);
  static PyType_Slot method_slots[] = {{Py_tp_call, reinterpret_cast<void *>(call_method)}, {0, nullptr}};
  nb::class_<PyMethod>(module, "Method", nb::type_slots(method_slots), docs::kMethod)
      .def(
          "start",
          [](PyMethod &method, const nb::args &inputs, const nb::kwargs &named_inputs) {
            const nb::handle named = nb::len(named_inputs) == 0 ? nb::handle() : nb::handle(named_inputs);
            return method.start(method.flat_inputs(inputs, named));
          },
          nb::keep_alive<0, 1>(), docs::kMethodStart)
      .def(
          "__repr__",
          [](const PyMethod &method) { return nb::str("<edgecore.Method {}>").format(description(method)); },
          docs::kMethodRepr)
      .def_prop_ro(
          "__signature__",
          [](const nb::object &self) {
            return nb::module_::import_("edgecore.runtime.signature").attr("signature")(self);
          },
          docs::kMethodSignature)
      .def_prop_ro(
          "name", [](const PyMethod &method) { return text(method.core().info().name()); }, docs::kMethodName)
      .def_prop_ro("inputs", inputs, docs::kMethodInputs)
      .def_prop_ro("outputs", outputs, docs::kMethodOutputs)
      .def_prop_ro(
          "input_containers", [](const PyMethod &method) { return text(method.core().info().input_containers()); },
          docs::kMethodInputContainers)
      .def_prop_ro(
          "output_containers", [](const PyMethod &method) { return text(method.core().info().output_containers()); },
          docs::kMethodOutputContainers)
      .def("set_nesting", &PyMethod::set_nesting, "flatten"_a.none(), "unflatten"_a.none(), docs::kMethodSetNesting)
      .def_prop_ro("delegates", delegates, docs::kMethodDelegates)
      .def_prop_ro(
          "planned_bytes", [](const PyMethod &method) { return method.core().planned_bytes(); },
          docs::kMethodPlannedBytes)
      .def_prop_ro(
          "delegate_bytes", [](const PyMethod &method) { return method.core().delegate_bytes(); },
          docs::kMethodDelegateBytes)
      .def_prop_ro(
          "staging_bytes", [](const PyMethod &method) { return method.core().staging_bytes(); },
          docs::kMethodStagingBytes);
  nb::class_<PyProgram>(module, "Program", docs::kProgram)
      .def_prop_ro("backend_ids", backend_ids, docs::kProgramBackendIds)
      .def_prop_ro(
          "target_runtime", [](const PyProgram &self) { return text(self.program().target_runtime()); },
          docs::kProgramTargetRuntime)
      .def("check_digests", check_digests, docs::kProgramCheckDigests)
      .def("load_backend", load_backend, "path"_a, "backend_id"_a, "options"_a, docs::kProgramLoadBackend)
      .def_prop_ro("missing_operators", missing_operators, docs::kProgramMissingOperators)
      .def("load_kernels", load_kernels, "path"_a, docs::kProgramLoadKernels)
      .def("load_methods", load_methods, "threads"_a, "trust"_a, "share_state"_a.none(), "trace"_a, "trace_limit"_a,
           "values"_a, "debug"_a = 0, "debug_limit"_a = edgecore::kDebugLimit, docs::kProgramLoadMethods)
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
  module.def("set_log_level", edgecore_set_log_level, "level"_a, docs::kSetLogLevel);
  module.def("kernels", kernels, "path"_a = nb::none(), docs::kKernels);
}
