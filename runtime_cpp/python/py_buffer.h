// Python's buffer protocol. The protocol is part of the stable ABI since Python 3.11, with the same layout and
// functions as in 3.10. Python's headers hide the protocol from an extension that also supports 3.10, so it is declared
// here.
#ifndef EDGECORE_PYTHON_PY_BUFFER_H_
#define EDGECORE_PYTHON_PY_BUFFER_H_

#include <Python.h>

#if defined(Py_LIMITED_API) && Py_LIMITED_API < 0x030B0000
// NOLINTBEGIN(readability-identifier-naming): the names of Python.h
extern "C" {
typedef struct {
  void *buf;
  PyObject *obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char *format;
  Py_ssize_t *shape;
  Py_ssize_t *strides;
  Py_ssize_t *suboffsets;
  void *internal;
} Py_buffer;

PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject *object);
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);
}

#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#define PyBUF_RECORDS_RO (PyBUF_STRIDES | PyBUF_FORMAT)
#define Py_bf_getbuffer 1
#define Py_bf_releasebuffer 2
// NOLINTEND(readability-identifier-naming)
#endif

#endif  // EDGECORE_PYTHON_PY_BUFFER_H_
