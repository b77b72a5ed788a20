// Converts element types between .pte files, DLPack and the buffer protocol, and errors to Python exceptions.
#ifndef EDGECORE_PYTHON_TYPES_H_
#define EDGECORE_PYTHON_TYPES_H_

#include <nanobind/nanobind.h>

#include "edgecore/status.h"

namespace edgecore::python {

constexpr int kMaxRank = 16;
constexpr int32_t kUnknownType = -1;

// Return the ScalarType number of a DLPack dtype, or of an element of the buffer protocol (`format` as in Python's
// struct module); kUnknownType if no ScalarType matches.
int32_t scalar_type_of(edgecore_dl_dtype dtype);
int32_t scalar_type_of(const char *format, Py_ssize_t item_size);

edgecore_dl_dtype dl_dtype_of(int32_t scalar_type);
// Returns the buffer protocol's format of a ScalarType, such as "f"; NULL if it has none (bfloat16).
const char *format_of(int32_t scalar_type);
// Returns the name of a ScalarType, such as "float32"; "no type" for kUnknownType.
StringView type_name(int32_t scalar_type);
size_t item_size(int32_t scalar_type);

// Decodes UTF-8 to a Python string; replaces invalid bytes by U+FFFD.
nanobind::str text(StringView view);

// Throws the Python exception of edgecore.errors that belongs to `error`.
[[noreturn]] void raise(const Error &error);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_TYPES_H_
