// numpy's C interface, as far as arrays that come and go need it. numpy is optional: found at run time, without its
// headers. Binary layout and table indices have stood since numpy 1.7, 2.x included
// (https://numpy.org/doc/stable/reference/c-api/array.html).
#ifndef EDGECORE_PYTHON_NUMPY_H_
#define EDGECORE_PYTHON_NUMPY_H_

#include <Python.h>
#include <nanobind/nanobind.h>

#include "tensor.h"

namespace edgecore::python {

struct NumpyDtype {
  PyObject head;
  PyTypeObject *type;
  char kind;
  char letter;
  char byte_order;
  char former_flags;
  int type_number;
};

struct NumpyArray {
  PyObject head;
  char *data;
  int ndim;
  Py_ssize_t *shape;
  Py_ssize_t *strides;  // in bytes
  PyObject *base;
  NumpyDtype *dtype;
  int flags;
};

constexpr int kNumpyWritable = 0x0400;

// ScalarType number of an array's elements; kUnknownType for other byte orders and for what no tensor holds.
int32_t scalar_type_of(const NumpyDtype &dtype);

// An ndarray over the tensor's memory. bfloat16 has no numpy dtype: an edgecore.Tensor.
nanobind::object to_numpy(PyTensor &&tensor);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_NUMPY_H_
