// The Python module edgecore._runtime.
#include "edgecore/module.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include <deque>
#include <string>

#include "edgecore/backend.h"
#include "host/library.h"
#include "runner.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace edgecore::python {
namespace {

nb::str text(StringView view) {
  PyObject *made = PyUnicode_DecodeUTF8(view.data(), static_cast<Py_ssize_t>(view.size()), "replace");
  if (made == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(made);
}

// An input or output as the file declares it.
struct Value {
  ValueInfo info;

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
      default:
        return nb::str("none");
    }
  }
  nb::tuple shape() const {
    nb::list sizes;
    for (const int32_t size : info.tensor.sizes) sizes.append(size);
    return nb::tuple(sizes);
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

std::shared_ptr<Module> open_path(const nb::bytes &path) {
  auto module = std::make_shared<Module>();
  without_gil([&](Error &error) { return module->open(path.c_str(), error); });
  return module;
}

std::shared_ptr<Module> open_bytes(const nb::object &object) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(object.ptr(), &buffer, 0) != 0) throw nb::python_error();
  auto module = std::make_shared<Module>();
  Error error;
  Status status;
  {
    const nb::gil_scoped_release release;
    status = module->open({static_cast<const uint8_t *>(buffer.buf), static_cast<size_t>(buffer.len)}, error);
  }
  PyBuffer_Release(&buffer);
  if (!status.ok()) raise(error);
  return module;
}

nb::list backend_ids(const Module &module) {
  nb::list ids;
  for (const StringView id : module.required_backends()) ids.append(text(id));
  return ids;
}

void load_backend(Module &module, const nb::bytes &path, const nb::str &backend_id, const nb::dict &options) {
  Options given;
  for (const auto &[name, value] : options) given.add(name, value);
  const StringView id(backend_id.c_str());
  without_gil([&](Error &error) {
    return module.load_backend(path.c_str(), id, {given.items.data(), given.items.size()}, error);
  });
}

void load_kernels(Module &module, const nb::bytes &path) {
  without_gil([&](Error &error) { return module.load_kernels(path.c_str(), error); });
}

void write_trace(const Module &module, const nb::bytes &path) {
  without_gil([&](Error &error) { return module.write_trace(path.c_str(), error); });
}

nb::list missing_operators(const Module &module) {
  nb::list names;
  for (const std::string &name : module.missing_operators()) names.append(text(StringView(name.data(), name.size())));
  return names;
}

nb::list load_methods(const std::shared_ptr<Module> &module, uint32_t threads, bool trust, bool trace) {
  without_gil([&](Error &error) { return module->load_methods({threads, trust, trace}, error); });
  nb::list methods;
  for (size_t i = 0; i < module->method_count(); ++i) {
    methods.append(nb::cast(new Runner(module, module->method(i)), nb::rv_policy::take_ownership));
  }
  return methods;
}

// Method.__call__(*inputs, out=None) as the type's own slot: a bound function takes half a microsecond more.
PyObject *call_method(PyObject *self, PyObject *inputs, PyObject *keywords) {
  try {
    PyObject *out = nullptr;
    if (keywords != nullptr && PyDict_Size(keywords) != 0) {
      out = PyDict_GetItemString(keywords, "out");
      if (out == nullptr || PyDict_Size(keywords) != 1) {
        throw nb::type_error("A method takes its inputs by position, and only out by keyword.");
      }
    }
    if (!nb::inst_ready(self)) throw nb::type_error("This Method was not made by edgecore.load.");
    return nb::inst_ptr<Runner>(self)->call(inputs, out).release().ptr();
  } catch (nb::python_error &failure) {
    failure.restore();
  } catch (const nb::builtin_exception &failure) {
    PyErr_SetString(PyExc_TypeError, failure.what());
  } catch (const std::exception &failure) {
    PyErr_SetString(PyExc_RuntimeError, failure.what());
  }
  return nullptr;
}

nb::tuple inputs(const Runner &runner) {
  nb::list values;
  const MethodInfo info = runner.method().info();
  for (size_t i = 0; i < info.input_count(); ++i) values.append(nb::cast(Value{info.input(i)}));
  return nb::tuple(values);
}

nb::tuple outputs(const Runner &runner) {
  nb::list values;
  const MethodInfo info = runner.method().info();
  for (size_t i = 0; i < info.output_count(); ++i) values.append(nb::cast(Value{info.output(i)}));
  return nb::tuple(values);
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
  nb::class_<Value>(module, "TensorInfo")
      .def_prop_ro("dtype", &Value::dtype)
      .def_prop_ro("shape", &Value::shape)
      .def_prop_ro("dim_order", &Value::dim_order)
      .def_prop_ro("is_tensor", &Value::is_tensor)
      .def_prop_ro("dynamic", &Value::dynamic)
      .def_prop_ro("planned", [](const Value &value) { return value.info.tensor.planned; })
      .def("__repr__", [](const Value &value) {
        return nb::str("TensorInfo(dtype={}, shape={}{}{})")
            .format(value.dtype(), value.shape(), value.dynamic() ? ", dynamic" : "",
                    value.info.tensor.planned ? ", planned" : "");
      });
  static PyType_Slot method_slots[] = {{Py_tp_call, reinterpret_cast<void *>(call_method)}, {0, nullptr}};
  nb::class_<Runner>(module, "Method", nb::type_slots(method_slots))
      .def_prop_ro("name", [](const Runner &runner) { return text(runner.method().info().name()); })
      .def_prop_ro("inputs", inputs)
      .def_prop_ro("outputs", outputs)
      .def_prop_ro("delegates", delegates)
      .def_prop_ro("planned_bytes", [](const Runner &runner) { return runner.method().planned_bytes(); })
      .def_prop_ro("delegate_bytes", [](const Runner &runner) { return runner.method().delegate_bytes(); })
      .def_prop_ro("staging_bytes", [](const Runner &runner) { return runner.method().staging_bytes(); });
  nb::class_<edgecore::Module>(module, "Program")
      .def_prop_ro("backend_ids", backend_ids)
      .def_prop_ro("profile", [](const edgecore::Module &self) { return text(self.program().profile()); })
      .def("load_backend", load_backend, "path"_a, "backend_id"_a, "options"_a)
      .def_prop_ro("missing_operators", missing_operators)
      .def("load_kernels", load_kernels, "path"_a)
      .def("load_methods", load_methods, "threads"_a, "trust"_a, "trace"_a)
      .def("write_trace", write_trace, "path"_a);
  module.def("open_path", open_path, "path"_a);
  module.def("open_bytes", open_bytes, "data"_a);
  module.def("kernels", kernels, "path"_a = nb::none());
}
