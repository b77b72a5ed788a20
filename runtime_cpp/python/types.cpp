#include "types.h"

#include <cstring>

#include "edgecore/scalar_type.h"

namespace nb = nanobind;

namespace edgecore::python {
namespace {

struct TypeRow {
  int32_t scalar_type;
  uint8_t dl_code;
  uint8_t dl_bits;
  const char *format;
};

// Element types that Python can read and write, each with its letter in Python's module struct, the most frequent
// first. Quantized and packed types are missing.
constexpr TypeRow kTypes[] = {
    {6, EDGECORE_DL_FLOAT, 32, "f"}, {4, EDGECORE_DL_INT, 64, "q"},      {3, EDGECORE_DL_INT, 32, "i"},
    {11, EDGECORE_DL_BOOL, 8, "?"},  {0, EDGECORE_DL_UINT, 8, "B"},      {1, EDGECORE_DL_INT, 8, "b"},
    {7, EDGECORE_DL_FLOAT, 64, "d"}, {5, EDGECORE_DL_FLOAT, 16, "e"},    {15, EDGECORE_DL_BFLOAT, 16, nullptr},
    {2, EDGECORE_DL_INT, 16, "h"},   {27, EDGECORE_DL_UINT, 16, "H"},    {28, EDGECORE_DL_UINT, 32, "I"},
    {29, EDGECORE_DL_UINT, 64, "Q"}, {9, EDGECORE_DL_COMPLEX, 64, "Zf"}, {10, EDGECORE_DL_COMPLEX, 128, "Zd"}};

}  // namespace

int32_t scalar_type_of(edgecore_dl_dtype dtype) {
  if (dtype.lanes != 1) return kUnknownType;
  for (const TypeRow &row : kTypes) {
    if (row.dl_code == dtype.code && row.dl_bits == dtype.bits) return row.scalar_type;
  }
  return kUnknownType;
}

int32_t scalar_type_of(const char *format, Py_ssize_t item_size) {
  if (format == nullptr) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  const bool complex = *format == 'Z';  // numpy writes Zf and Zd for complex types
  if (complex) ++format;
  if (format[0] == '\0' || format[1] != '\0') return kUnknownType;
  edgecore_dl_dtype dtype = {EDGECORE_DL_INT, static_cast<uint8_t>(item_size * 8), 1};
  if (std::strchr("bhilqn", *format) != nullptr) {
    dtype.code = EDGECORE_DL_INT;
  } else if (std::strchr("BHILQNc", *format) != nullptr) {
    dtype.code = EDGECORE_DL_UINT;
  } else if (std::strchr("efd", *format) != nullptr) {
    dtype.code = complex ? EDGECORE_DL_COMPLEX : EDGECORE_DL_FLOAT;
  } else if (*format == '?') {
    dtype.code = EDGECORE_DL_BOOL;
  } else {
    return kUnknownType;
  }
  return scalar_type_of(dtype);
}

edgecore_dl_dtype dl_dtype_of(int32_t scalar_type) {
  const ScalarTypeInfo info = scalar_type_info(scalar_type);
  return {info.dl_code, info.dl_bits, 1};
}

const char *format_of(int32_t scalar_type) {
  for (const TypeRow &row : kTypes) {
    if (row.scalar_type == scalar_type) return row.format;
  }
  return nullptr;
}

StringView type_name(int32_t scalar_type) {
  return scalar_type == kUnknownType ? StringView("no type") : scalar_type_info(scalar_type).name;
}

size_t item_size(int32_t scalar_type) { return scalar_type_info(scalar_type).size; }

nb::str text(StringView view) {
  PyObject *decoded = PyUnicode_DecodeUTF8(view.data(), static_cast<Py_ssize_t>(view.size()), "replace");
  if (decoded == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(decoded);
}

void raise(const Error &error) {
  const nb::module_ errors = nb::module_::import_("edgecore.errors");
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(error.text, static_cast<Py_ssize_t>(error.size), "replace"));
  if (error.code == EDGECORE_INVALID_PROGRAM) {
    const nb::object type = errors.attr("FormatError");
    PyErr_SetObject(type.ptr(), text.ptr());
  } else {
    const nb::object type = errors.attr("ExecutionError");
    const nb::object value = type(text, error.code);
    PyErr_SetObject(type.ptr(), value.ptr());
  }
  throw nb::python_error();
}

}  // namespace edgecore::python
