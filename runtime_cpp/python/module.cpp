// The Python module edgecore._runtime.
#include "edgecore/module.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <deque>
#include <string>

#include "edgecore/backend.h"
#include "host/library.h"
#include "run.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace edgecore::python {
namespace {

nb::str text(StringView view) {
  PyObject *made = PyUnicode_DecodeUTF8(view.data(), static_cast<Py_ssize_t>(view.size()), "replace");
  if (made == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(made);
}

// Whose turn it is, by method: methods that share state take turns as calls of one method do.
struct Turns {
  std::vector<std::shared_ptr<Turn>> turns;
};

// A pending run needs its turn until the module has ended it, so the turns are destroyed last.
struct Loaded : Turns, Module {};

// One dim of an input or output, whose texts live in the module.
struct Dim {
  std::shared_ptr<const Module> module;
  DimInfo info;

  // "batch: 4..8", "6"
  nb::str description() const {
    if (info.min == info.max) return nb::str("{}").format(info.max);
    return nb::str("{}{}{}..{}").format(text(info.name), info.name.empty() ? "" : ": ", info.min, info.max);
  }
};

// An input or output as the file declares it, which lives in the module.
struct Value {
  std::shared_ptr<const Module> module;
  ValueInfo info;
  std::vector<DimInfo> infos;  // of its dims

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
    for (const DimInfo &dim : infos) dims.append(nb::cast(Dim{module, dim}));
    return nb::tuple(dims);
  }
  // "float32 [batch: 4..8, 6]"
  nb::str description() const {
    if (!is_tensor()) return dtype();
    nb::list dims;
    for (const DimInfo &dim : infos) dims.append(Dim{module, dim}.description());
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

// Option values of Python as those of the C interface; the strings live as long as this.
struct Options {
  std::vector<edgecore_option> items;
  std::deque<std::string> texts;

  explicit Options(const nb::dict &given) {
    for (const auto &[name, value] : given) add(name, value);
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

// Runs `work(error)` without the GIL, and raises what it gives.
template <typename Work>
void without_gil(Work work) {
  Error error;
  Status status;
  {
    const nb::gil_scoped_release release;
    status = work(error);
  }
  if (!status.ok()) raise(error);
}

// A view of an object's bytes, held while it lives.
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

void set_limits(Module &module, const nb::dict &given) {
  Limits limits = default_limits();
  const auto set = [](auto &limit, nb::handle value) { limit = nb::cast<std::decay_t<decltype(limit)>>(value); };
  for (const auto &[key, value] : given) {
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

// `file` and the entries of `data`: a path as bytes within a tuple of one, or an object with the buffer protocol.
std::shared_ptr<Loaded> open_program(const nb::object &file, const nb::list &data, const nb::dict &limits) {
  auto module = std::make_shared<Loaded>();
  set_limits(*module, limits);
  for (size_t i = 0; i < nb::len(data); ++i) {
    const nb::object part = data[i];
    if (nb::isinstance<nb::tuple>(part)) {
      const nb::bytes path = nb::cast<nb::bytes>(part[0]);
      without_gil([&](Error &error) { return module->add_data(path.c_str(), error); });
    } else {
      const BytesOf bytes(part);
      const std::string name = "data[" + std::to_string(i) + "]";
      without_gil([&](Error &error) { return module->add_data(bytes.get(), name.c_str(), error); });
    }
  }
  if (nb::isinstance<nb::tuple>(file)) {
    const nb::bytes path = nb::cast<nb::bytes>(file[0]);
    without_gil([&](Error &error) { return module->open(path.c_str(), error); });
  } else {
    const BytesOf bytes(file);
    without_gil([&](Error &error) { return module->open(bytes.get(), error); });
  }
  return module;
}

nb::list backend_ids(const Loaded &module) {
  nb::list ids;
  for (const StringView id : module.required_backends()) ids.append(text(id));
  return ids;
}

void load_backend(Loaded &module, const nb::bytes &path, const nb::str &backend_id, const nb::dict &options) {
  const Options given(options);
  const StringView id(backend_id.c_str());
  without_gil([&](Error &error) {
    return module.load_backend(path.c_str(), id, {given.items.data(), given.items.size()}, error);
  });
}

void load_kernels(Loaded &module, const nb::bytes &path) {
  without_gil([&](Error &error) { return module.load_kernels(path.c_str(), error); });
}

void write_trace(const Loaded &module, const nb::bytes &path) {
  without_gil([&](Error &error) { return module.write_trace(path.c_str(), error); });
}

nb::list missing_operators(const Loaded &module) {
  nb::list names;
  for (const std::string &name : module.missing_operators()) names.append(text(StringView(name.data(), name.size())));
  return names;
}

void check_digests(const Loaded &module) {
  without_gil([&](Error &error) { return module.program().check_digests(error); });
}

StateSharing sharing_of(const nb::object &share_state) {
  if (share_state.is_none()) return StateSharing::kAsFile;
  return nb::cast<bool>(share_state) ? StateSharing::kAll : StateSharing::kNone;
}

nb::list load_methods(const std::shared_ptr<Loaded> &module, uint32_t threads, bool trust,
                      const nb::object &share_state, bool trace) {
  const StateSharing sharing = sharing_of(share_state);
  without_gil([&](Error &error) { return module->load_methods({threads, trust, sharing, trace}, error); });
  const auto shared = std::make_shared<Turn>();
  nb::list methods;
  for (size_t i = 0; i < module->method_count(); ++i) {
    Method &method = module->method(i);
    module->turns.push_back(method.shares_state() ? shared : std::make_shared<Turn>());
    methods.append(nb::cast(new Runner(module, method, module->turns.back()), nb::rv_policy::take_ownership));
  }
  return methods;
}

// Method.__call__(*inputs, out=None, **inputs) as the type's own slot.
PyObject *call_method(PyObject *self, PyObject *inputs, PyObject *keywords) {
  try {
    if (!nb::inst_ready(self)) throw nb::type_error("This Method was not made by edgecore.load.");
    Runner &runner = *nb::inst_ptr<Runner>(self);
    if (keywords == nullptr) return runner.call(inputs, nb::handle()).release().ptr();
    PyObject *out = PyDict_GetItemString(keywords, "out");
    if (PyDict_Size(keywords) == (out == nullptr ? 0 : 1)) return runner.call(inputs, out).release().ptr();
    return runner.call(runner.arrange(inputs, keywords), out).release().ptr();
  } catch (nb::python_error &failure) {
    failure.restore();
  } catch (const nb::builtin_exception &failure) {
    PyErr_SetString(PyExc_TypeError, failure.what());
  } catch (const std::exception &failure) {
    PyErr_SetString(PyExc_RuntimeError, failure.what());
  }
  return nullptr;
}

// Runs `work(error)` without the GIL while no method of the module runs.
template <typename Work>
void alone(Loaded &module, Work work) {
  without_gil([&](Error &error) {
    std::vector<std::unique_lock<std::mutex>> locks;
    std::vector<Turn *> taken;  // methods that share state have one turn
    for (const auto &turn : module.turns) {
      if (std::find(taken.begin(), taken.end(), turn.get()) != taken.end()) continue;
      taken.push_back(turn.get());
      locks.push_back(turn->take());
    }
    return work(error);
  });
}

void reset(Loaded &module) {
  alone(module, [&](Error &error) { return module.reset(error); });
}

nb::bytes export_state(Loaded &module) {
  std::vector<uint8_t> state;
  alone(module, [&](Error &error) { return module.export_state(state, error); });
  return nb::bytes(state.data(), state.size());
}

void import_state(Loaded &module, const nb::object &state) {
  const BytesOf bytes(state);
  alone(module, [&](Error &error) { return module.import_state(bytes.get(), error); });
}

void set_options(Loaded &module, const nb::str &backend_id, const nb::dict &options) {
  const Options given(options);
  const StringView id(backend_id.c_str());
  alone(module, [&](Error &error) { return module.set_options(id, {given.items.data(), given.items.size()}, error); });
}

nb::tuple inputs(const Runner &runner) {
  nb::list values;
  const MethodInfo info = runner.method().info();
  for (size_t i = 0; i < info.input_count(); ++i) {
    Value value{runner.module(), info.input(i), {}};
    for (size_t d = 0; d < value.info.tensor.sizes.size(); ++d) value.infos.push_back(info.input_dim(i, d));
    values.append(nb::cast(std::move(value)));
  }
  return nb::tuple(values);
}

nb::tuple outputs(const Runner &runner) {
  nb::list values;
  const MethodInfo info = runner.method().info();
  for (size_t i = 0; i < info.output_count(); ++i) {
    Value value{runner.module(), info.output(i), {}};
    for (size_t d = 0; d < value.info.tensor.sizes.size(); ++d) value.infos.push_back(info.output_dim(i, d));
    values.append(nb::cast(std::move(value)));
  }
  return nb::tuple(values);
}

// "forward(x: float32 [batch: 4..8, 6]) -> logits: float32 [batch: 4..8, 10]"
nb::str description(const Runner &runner) {
  const auto join = [](const nb::tuple &values) {
    nb::list parts;
    for (size_t i = 0; i < nb::len(values); ++i) {
      const Value &value = nb::cast<const Value &>(values[i]);
      parts.append(
          nb::str("{}{}{}").format(text(value.info.name), value.info.name.empty() ? "" : ": ", value.description()));
    }
    return nb::str(", ").attr("join")(parts);
  };
  return nb::str("{}({}) -> {}")
      .format(text(runner.method().info().name()), join(inputs(runner)), join(outputs(runner)));
}

nb::tuple delegates(const Runner &runner) {
  nb::list ids;
  const MethodInfo info = runner.method().info();
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

// Names of the runtime's own kernels, or of those in the library at `path`.
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
  // Static types and functions that the module keeps for its whole life are no leak.
  nb::set_leak_warnings(false);
  bind_tensor(module);
  bind_run(module);
  nb::class_<Dim>(module, "DimInfo")
      .def_prop_ro("name", [](const Dim &dim) { return text(dim.info.name); })
      .def_prop_ro("min", [](const Dim &dim) { return dim.info.min; })
      .def_prop_ro("max", [](const Dim &dim) { return dim.info.max; })
      .def("__repr__", [](const Dim &dim) { return nb::str("DimInfo({})").format(dim.description()); });
  nb::class_<Value>(module, "TensorInfo")
      .def_prop_ro("name", [](const Value &value) { return text(value.info.name); })
      .def_prop_ro("dims", &Value::dims)
      .def_prop_ro("dtype", &Value::dtype)
      .def_prop_ro("shape", &Value::shape)
      .def_prop_ro("dim_order", &Value::dim_order)
      .def_prop_ro("is_tensor", &Value::is_tensor)
      .def_prop_ro("dynamic", &Value::dynamic)
      .def_prop_ro("planned", [](const Value &value) { return value.info.tensor.planned; })
      .def("__repr__", [](const Value &value) {
        return nb::str("TensorInfo('{}', {}{})")
            .format(text(value.info.name), value.description(), value.info.tensor.planned ? ", planned" : "");
      });
  static PyType_Slot method_slots[] = {{Py_tp_call, reinterpret_cast<void *>(call_method)}, {0, nullptr}};
  nb::class_<Runner>(module, "Method", nb::type_slots(method_slots))
      .def(
          "start",
          [](Runner &runner, const nb::args &inputs, const nb::kwargs &keywords) {
            return nb::len(keywords) == 0 ? runner.start(inputs) : runner.start(runner.arrange(inputs, keywords));
          },
          nb::keep_alive<0, 1>())
      .def("__repr__", [](const Runner &runner) { return nb::str("<edgecore.Method {}>").format(description(runner)); })
      .def_prop_ro("__signature__",
                   [](const nb::object &self) {
                     return nb::module_::import_("edgecore.runtime.signature").attr("signature")(self);
                   })
      .def_prop_ro("name", [](const Runner &runner) { return text(runner.method().info().name()); })
      .def_prop_ro("inputs", inputs)
      .def_prop_ro("outputs", outputs)
      .def_prop_ro("delegates", delegates)
      .def_prop_ro("planned_bytes", [](const Runner &runner) { return runner.method().planned_bytes(); })
      .def_prop_ro("delegate_bytes", [](const Runner &runner) { return runner.method().delegate_bytes(); })
      .def_prop_ro("staging_bytes", [](const Runner &runner) { return runner.method().staging_bytes(); });
  nb::class_<Loaded>(module, "Program")
      .def_prop_ro("backend_ids", backend_ids)
      .def_prop_ro("profile", [](const Loaded &self) { return text(self.program().profile()); })
      .def("check_digests", check_digests)
      .def("load_backend", load_backend, "path"_a, "backend_id"_a, "options"_a)
      .def_prop_ro("missing_operators", missing_operators)
      .def("load_kernels", load_kernels, "path"_a)
      .def("load_methods", load_methods, "threads"_a, "trust"_a, "share_state"_a.none(), "trace"_a)
      .def("set_options", set_options, "backend_id"_a, "options"_a)
      .def("reset", reset)
      .def("export_state", export_state)
      .def("import_state", import_state, "state"_a)
      .def("write_trace", write_trace, "path"_a);
  module.def("open_program", open_program, "file"_a, "data"_a, "limits"_a);
  module.def("kernels", kernels, "path"_a = nb::none());
}
