// Views of the caller's objects as tensors: torch tensors, numpy arrays, buffers and DLPack objects.
#ifndef EDGECORE_PYTHON_INPUT_H_
#define EDGECORE_PYTHON_INPUT_H_

#include "dlpack.h"
#include "edgecore/method.h"
#include "py_buffer.h"
#include "types.h"

namespace edgecore::python {

// The Python library that an array belongs to. A call returns arrays of the library to which the call's first tensor
// input belongs.
enum class Library { kNone, kNumpy, kTorch };

// Properties of the Python type of an input or of an output buffer. They are computed once per type.
struct ArrayType {
  PyObject *type;
  Library library;
  bool is_ndarray;              // true for numpy.ndarray and subclasses: objects have the layout of NumpyArray
  const ExchangeApi *exchange;  // DLPack's C functions for objects of this type; NULL: the type has none
};

// The input or output that an error message is about. The message begins with a description of the Subject, such as
// "Input 'x' (0) of method 'forward'". To save time, the description is made only if there is an error.
struct Subject {
  const char *kind;  // NULL for an input; for an output the first words of the message, such as "The buffer for output"
  size_t index;
  MethodInfo method;

  template <typename... Pieces>
  Status refuse(Error &error, const Pieces &...pieces) const {
    if (kind == nullptr) {
      name_input(method, index, error);
    } else {
      (void)fail(error, EDGECORE_INVALID_ARGUMENT, kind, " ", index, " of method '", method.name(), "'");
    }
    return extend(error, pieces...);
  }
};

// A view of a caller's object as a tensor. The view holds the object's buffer or DLPack tensor until the view is
// destroyed. Destroying the view needs the GIL.
class ArrayView {
 public:
  ArrayView() = default;
  ~ArrayView() { release(); }

  // Makes this object a view of `object`. Call it with the GIL held. Errors: INVALID_ARGUMENT if the object is not a
  // tensor in CPU memory, or if its element type is not supported.
  Status open(PyObject *object, const Subject &what, Error &error);

  const ArrayType *array_type = nullptr;
  void *data = nullptr;
  int32_t scalar_type = kUnknownType;
  int ndim = 0;
  int64_t shape[kMaxRank];
  int64_t strides[kMaxRank];  // in elements
  bool writable = false;

  // Returns true if the tensor is dense in `dim_order` (ndim entries, outermost first).
  bool dense_in(const uint8_t *dim_order) const;
  // Returns true if the tensor has as many dims as `max_shape`, and each size is at most the size of the same dim in
  // `max_shape`. Callers check this before they copy a strided input to contiguous memory, because Method::set_input
  // would refuse a tensor that does not fit, and the copy would be wasted.
  bool fits(Span<const int32_t> max_shape) const;
  uint64_t bytes() const;

  ArrayView(const ArrayView &) = delete;
  ArrayView &operator=(const ArrayView &) = delete;

 private:
  Status open_any(PyObject *object, const Subject &what, Error &error);
  Status open_ndarray(PyObject *object, const Subject &what, Error &error);
  Status open_buffer(PyObject *object, const Subject &what, Error &error);
  Status open_dlpack(PyObject *object, const Subject &what, Error &error);
  Status take(const edgecore_dl_tensor &tensor, const Subject &what, Error &error);
  // Sets shape and strides of this view. Needs `scalar_type`, to convert `byte_strides` (in bytes) to elements.
  Status take_strided(int rank, const Py_ssize_t *sizes, const Py_ssize_t *byte_strides, const Subject &what,
                      Error &error);
  void release();

  bool has_buffer_ = false;
  Py_buffer buffer_;
  VersionedTensor *versioned_ = nullptr;
  ManagedTensor *managed_ = nullptr;
};

// Computes the strides, in elements, of a dense tensor with this shape and dim order (outermost first).
void dense_strides(int ndim, const int64_t *shape, const uint8_t *dim_order, int64_t *strides);

// Copies a tensor with any strides to dense memory in `dim_order` (outermost first).
void copy_dense(const ArrayView &from, const uint8_t *dim_order, void *to);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_INPUT_H_
