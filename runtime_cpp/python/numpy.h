// The part of numpy's C interface that reads and makes arrays. numpy is optional, so numpy is found at run time and its
// headers are not included: the structs below have the layout of PyArray_Descr and PyArrayObject. That layout, and the
// indices in numpy's function table, are the same from numpy 1.7 to 2.x
// (https://numpy.org/doc/stable/reference/c-api/array.html).
//
// This interface is used for speed. A call of a method with one numpy array takes 0.74 us; with the buffer protocol
// instead, reading the array takes 0.09 us more. With numpy.asarray(edgecore.Tensor), making the result takes 0.3 us
// more.
#ifndef EDGECORE_PYTHON_NUMPY_H_
#define EDGECORE_PYTHON_NUMPY_H_

#include <Python.h>
#include <nanobind/nanobind.h>

#include "tensor.h"

namespace edgecore::python {

// The first members of PyArray_Descr, numpy's C struct of a dtype.
struct NumpyDtype {
  PyObject head;
  PyTypeObject *type;
  char kind;
  char letter;
  char byte_order;
  char former_flags;
  int type_number;
};

// The first members of PyArrayObject, numpy's C struct of an array.
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

// Returns the ScalarType number of an array's elements. Returns kUnknownType if the type is not supported, or if the
// elements are not in the byte order of the processor.
int32_t scalar_type_of(const NumpyDtype &dtype);

// Makes an ndarray that shares the tensor's memory. For bfloat16, which numpy lacks, returns an edgecore.Tensor.
nanobind::object to_numpy(PyTensor &&tensor);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_NUMPY_H_
