#include "infos.h"

#include <utility>
#include <vector>

#include "docs.h"

namespace nb = nanobind;

namespace edgecore::python {
namespace {

// One dim of an input or output. `info` points to strings of the loaded file, which `program` keeps alive.
struct PyDimInfo {
  std::shared_ptr<const PyProgram> program;
  DimInfo info;

  // Returns the size of a dim as text: "batch: 4..8" for a symbolic size, "6" for a fixed size.
  nb::str description() const {
    if (info.min == info.max) return nb::str("{}").format(info.max);
    return nb::str("{}{}{}..{}").format(text(info.name), info.name.empty() ? "" : ": ", info.min, info.max);
  }
};

// An input or output as the file declares it. `info` points to strings and sizes of the loaded file, which `program`
// keeps alive.
struct PyTensorInfo {
  std::shared_ptr<const PyProgram> program;
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
    for (const DimInfo &dim : dim_infos) dims.append(nb::cast(PyDimInfo{program, dim}));
    return nb::tuple(dims);
  }
  // Returns the type of the input or output as text, such as "float32 [batch: 4..8, 6]".
  nb::str description() const {
    if (!is_tensor()) return dtype();
    nb::list dims;
    for (const DimInfo &dim : dim_infos) dims.append(PyDimInfo{program, dim}.description());
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

}  // namespace

nb::tuple inputs(const PyMethod &method) {
  nb::list values;
  const MethodInfo &info = method.info();
  for (size_t i = 0; i < info.input_count(); ++i) {
    PyTensorInfo value{method.program(), info.input(i), {}};
    for (size_t d = 0; d < value.info.tensor.sizes.size(); ++d) value.dim_infos.push_back(info.input_dim(i, d));
    values.append(nb::cast(std::move(value)));
  }
  return nb::tuple(values);
}

nb::tuple outputs(const PyMethod &method) {
  nb::list values;
  const MethodInfo &info = method.info();
  for (size_t i = 0; i < info.output_count(); ++i) {
    PyTensorInfo value{method.program(), info.output(i), {}};
    for (size_t d = 0; d < value.info.tensor.sizes.size(); ++d) value.dim_infos.push_back(info.output_dim(i, d));
    values.append(nb::cast(std::move(value)));
  }
  return nb::tuple(values);
}

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
  return nb::str("{}({}) -> {}").format(text(method.info().name()), join(inputs(method)), join(outputs(method)));
}

void bind_infos(nb::module_ &module) {
  nb::class_<PyDimInfo>(module, "DimInfo", docs::kDimInfo)
      .def_prop_ro(
          "name", [](const PyDimInfo &dim) { return text(dim.info.name); }, docs::kDimInfoName)
      .def_prop_ro(
          "min", [](const PyDimInfo &dim) { return dim.info.min; }, docs::kDimInfoMin)
      .def_prop_ro(
          "max", [](const PyDimInfo &dim) { return dim.info.max; }, docs::kDimInfoMax)
      .def(
          "__repr__", [](const PyDimInfo &dim) { return nb::str("DimInfo({})").format(dim.description()); },
          "Describe the dim: its name and its range of sizes.");
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
          "Describe the input or output: its name, dtype and dims.");
}

}  // namespace edgecore::python
