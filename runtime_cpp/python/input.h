// What a caller hands in, seen as a tensor: torch tensors, numpy arrays, buffers and DLPack objects.
#ifndef EDGECORE_PYTHON_INPUT_H_
#define EDGECORE_PYTHON_INPUT_H_

#include "dlpack.h"
#include "edgecore/method.h"
#include "py_buffer.h"
#include "types.h"

namespace edgecore::python {

// The library that an array belongs to: results come back in the kind of the first input.
enum class Library { kNone, kNumpy, kTorch };

// What is known of a Python type; kept for the types that were seen.
struct ArrayType {
  PyObject *type;
  Library library;
  bool is_ndarray;              // numpy's own structure is at the object's address
  const ExchangeApi *exchange;  // NULL: the type offers none
};

// What a sentence about an object begins with: "Input 'x' (0) of method 'forward'". Put together only when needed.
struct Subject {
  const char *kind;  // NULL: an input
  size_t index;
  const Method *method;

  template <typename... Pieces>
  Status refuse(Error &error, const Pieces &...pieces) const {
    if (kind == nullptr) {
      name_input(method->info(), index, error);
    } else {
      (void)fail(error, EDGECORE_INVALID_ARGUMENT, kind, " ", index, " of method '", method->info().name(), "'");
    }
    return extend(error, pieces...);
  }
};

// A borrowed view of one object. Holds what the object lent until it is destroyed, which needs the GIL.
class ArrayView {
 public:
  ArrayView() = default;
  ~ArrayView() { release(); }

  // The GIL is held.
  // Errors: INVALID_ARGUMENT for what is no tensor in CPU memory, or has elements of an unsupported type.
  Status open(PyObject *object, const Subject &what, Error &error);

  const ArrayType *array_type = nullptr;
  void *data = nullptr;
  int32_t scalar_type = kUnknownType;
  int ndim = 0;
  int64_t shape[kMaxRank];
  int64_t strides[kMaxRank];  // in elements
  bool writable = false;

  // Whether it lies in memory without gaps, the dimensions from the outermost in `dim_order` (ndim entries).
  bool dense_in(const uint8_t *dim_order) const;
  // Whether it has as many dims as `max_shape`, and none is larger. What does not is refused without a copy.
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
  // Of the elements' type that was found; strides in bytes.
  Status take_strided(int rank, const Py_ssize_t *sizes, const Py_ssize_t *byte_strides, const Subject &what,
                      Error &error);
  void release();

  bool has_buffer_ = false;
  Py_buffer buffer_;
  VersionedTensor *versioned_ = nullptr;
  ManagedTensor *managed_ = nullptr;
};

// Strides in elements of a dense tensor of `shape` with its dimensions from the outermost in `dim_order`.
void dense_strides(int ndim, const int64_t *shape, const uint8_t *dim_order, int64_t *strides);

// Copies a tensor of any strides into dense memory, dimensions from the outermost in `dim_order`.
void copy_dense(const ArrayView &from, const uint8_t *dim_order, void *to);

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_INPUT_H_
