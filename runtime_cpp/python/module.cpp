// The Python module edgecore._runtime.
#include <nanobind/nanobind.h>
#include <nanobind/stl/unique_ptr.h>

#include "docs.h"
#include "edgecore/platform.h"
#include "host/library.h"
#include "host/platform.h"
#include "infos.h"
#include "log.h"
#include "method.h"
#include "program.h"
#include "run.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace edgecore::python {
namespace {

// Implements Method.__call__(*inputs, out=None, **named_inputs) as the type's tp_call slot. With a bound function
// `__call__`, a call took 0.5 us longer.
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

nb::tuple delegates(const PyMethod &method) {
  nb::list ids;
  const MethodInfo &info = method.info();
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

// Lists the runtime's own kernels, or the kernels of the library at `path`.
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
  // Disable nanobind's leak warnings: nanobind would report the types and functions of this module, which live until
  // the process ends.
  nb::set_leak_warnings(false);
  edgecore::use_host_platform();  // reads the log level from the environment variable EDGECORE_LOG
  route_log();
  bind_tensor(module);
  bind_run(module);
  bind_infos(module);
  static PyType_Slot method_slots[] = {{Py_tp_call, reinterpret_cast<void *>(call_method)}, {0, nullptr}};
  nb::class_<PyMethod>(module, "Method", nb::type_slots(method_slots), docs::kMethod)
      .def(
          "start",
          [](PyMethod &method, const nb::args &inputs, const nb::kwargs &named_inputs) {
            const nb::handle named = named_inputs;
            return method.start(method.flat_inputs(inputs, nb::len(named) == 0 ? nb::handle() : named));
          },
          nb::keep_alive<0, 1>(), docs::kMethodStart)
      .def(
          "__repr__",
          [](const PyMethod &method) { return nb::str("<edgecore.Method {}>").format(description(method)); },
          "Describe the method: its inputs and outputs with their dtypes and dims.")
      .def_prop_ro(
          "__signature__",
          [](const nb::object &self) {
            return nb::module_::import_("edgecore.runtime.signature").attr("signature")(self);
          },
          "Signature for `inspect.signature`: a parameter for each input, and `out`.")
      .def_prop_ro(
          "name", [](const PyMethod &method) { return text(method.info().name()); }, docs::kMethodName)
      .def_prop_ro("inputs", inputs, docs::kMethodInputs)
      .def_prop_ro("outputs", outputs, docs::kMethodOutputs)
      .def_prop_ro(
          "input_containers", [](const PyMethod &method) { return text(method.info().input_containers()); },
          docs::kMethodInputContainers)
      .def_prop_ro(
          "output_containers", [](const PyMethod &method) { return text(method.info().output_containers()); },
          docs::kMethodOutputContainers)
      .def("set_nesting", &PyMethod::set_nesting, "flatten"_a.none(), "unflatten"_a.none(), docs::kMethodSetNesting)
      .def_prop_ro("delegates", delegates, docs::kMethodDelegates)
      .def_prop_ro(
          "planned_bytes", [](PyMethod &method) { return method.loaded().planned_bytes(); }, docs::kMethodPlannedBytes)
      .def_prop_ro(
          "delegate_bytes", [](PyMethod &method) { return method.loaded().delegate_bytes(); },
          docs::kMethodDelegateBytes)
      .def_prop_ro(
          "staging_bytes", [](PyMethod &method) { return method.loaded().staging_bytes(); }, docs::kMethodStagingBytes);
  bind_program(module);
  module.def("set_log_level", edgecore_set_log_level, "level"_a, docs::kSetLogLevel);
  module.def("kernels", kernels, "path"_a = nb::none(), docs::kKernels);
}
