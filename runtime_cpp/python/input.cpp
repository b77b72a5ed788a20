#include "input.h"

#include <nanobind/nanobind.h>

#include <cstring>
#include <memory>
#include <vector>

#include "numpy.h"

namespace nb = nanobind;

namespace edgecore::python {
namespace {

// Returns a class of a Python module. If the process has not imported the module yet, returns an invalid object.
nb::object imported_class(const char *module, const char *name) {
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  const nb::object imported = nb::steal(PyObject_CallMethod(modules.ptr(), "get", "s", module));
  if (!imported.is_valid()) throw nb::python_error();
  return imported.is_none() ? nb::object() : nb::getattr(imported, name, nb::object());
}

bool is_subclass(PyObject *type, const char *module, const char *name) {
  const nb::object base = imported_class(module, name);
  return base.is_valid() && PyObject_IsSubclass(type, base.ptr()) == 1;
}

ArrayType classify(PyObject *type) {
  ArrayType result = {type, Library::kNone, false, nullptr};
  if (is_subclass(type, "torch", "Tensor")) {
    result.library = Library::kTorch;
  } else if (is_subclass(type, "numpy", "ndarray")) {
    result.library = Library::kNumpy;
    result.is_ndarray = true;
  } else if (is_subclass(type, "numpy", "generic")) {
    result.library = Library::kNumpy;
  }
  PyErr_Clear();
  const nb::object capsule = nb::getattr(nb::handle(type), "__dlpack_c_exchange_api__", nb::object());
  if (capsule.is_valid() && PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api") != 0) {
    const auto *api = static_cast<const ExchangeApi *>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (api != nullptr && api->version.major > 1) api = api->previous;
    if (api != nullptr && api->version.major == 1 && api->view_object != nullptr) result.exchange = api;
  }
  return result;
}

// Returns the ArrayType of the object's Python type; adds it to the list `known` if it is new. Entries are never
// removed, and each entry keeps its Python type alive. In practice this is not a leak, because there are few array
// types.
const ArrayType *array_type_of(PyObject *object) {
  static auto &known = *new std::vector<std::unique_ptr<ArrayType>>();
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
  for (const auto &entry : known) {
    if (entry->type == type) return entry.get();
  }
  known.push_back(std::make_unique<ArrayType>(classify(type)));
  Py_INCREF(type);
  return known.back().get();
}

nb::str type_text(PyObject *object) {
  return nb::str(nb::getattr(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(object))), "__name__"));
}

// An element of 16 bytes (complex128), which is only copied.
struct Element16 {
  uint64_t words[2];
};

template <typename T>
void copy_row(const T *from, int64_t stride, int64_t count, T *to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

// Copies the subtensor at `from` to dense memory at `to`. The subtensor has the dims dim_order[level] (outermost) to
// dim_order[ndim - 1]. Recursive: one level per dim. Returns the end of the written data.
template <typename T>
T *copy_level(const ArrayView &view, const uint8_t *dim_order, int level, const T *from, T *to) {
  const int dim = dim_order[level];
  if (level + 1 == view.ndim) {
    copy_row(from, view.strides[dim], view.shape[dim], to);
    return to + view.shape[dim];
  }
  for (int64_t i = 0; i < view.shape[dim]; ++i) {
    to = copy_level(view, dim_order, level + 1, from + i * view.strides[dim], to);
  }
  return to;
}

template <typename T>
void copy_all(const ArrayView &view, const uint8_t *dim_order, void *to) {
  copy_level(view, dim_order, 0, static_cast<const T *>(view.data), static_cast<T *>(to));
}

}  // namespace

Status ArrayView::open(PyObject *object, const Subject &what, Error &error) {
  try {
    return open_any(object, what, error);
  } catch (nb::python_error &failure) {
    // The object's library, such as torch, raised an error. The text of that error may have many lines, so the message
    // quotes only the first.
    const nb::str text = nb::str(failure.value());
    const char *line = text.c_str();
    return what.refuse(error, " cannot be read as a tensor in CPU memory (", type_text(object).c_str(),
                       " says: ", StringView(line, std::strcspn(line, "\n")), ").");
  }
}

Status ArrayView::open_any(PyObject *object, const Subject &what, Error &error) {
  array_type = array_type_of(object);
  if (array_type->exchange != nullptr) {
    edgecore_dl_tensor tensor;
    if (array_type->exchange->view_object(object, &tensor) != 0) throw nb::python_error();
    writable = true;
    return take(tensor, what, error);
  }
  if (array_type->is_ndarray) return open_ndarray(object, what, error);
  if (PyObject_CheckBuffer(object) != 0) {
    has_buffer_ = PyObject_GetBuffer(object, &buffer_, PyBUF_RECORDS_RO) == 0;
    if (has_buffer_) return open_buffer(object, what, error);
    if (PyObject_HasAttrString(object, "__dlpack__") == 0) throw nb::python_error();
    PyErr_Clear();
  }
  if (PyObject_HasAttrString(object, "__dlpack__") != 0) return open_dlpack(object, what, error);
  return what.refuse(error, " must be a tensor (a numpy array, a torch tensor, a buffer or a DLPack object); got ",
                     type_text(object).c_str(), ".");
}

Status ArrayView::open_ndarray(PyObject *object, const Subject &what, Error &error) {
  const auto &array = *reinterpret_cast<const NumpyArray *>(object);
  scalar_type = scalar_type_of(*array.dtype);
  if (scalar_type == kUnknownType) {
    return what.refuse(error, " has dtype ", nb::str(nb::handle(&array.dtype->head)).c_str(),
                       ", which edgecore does not support; convert it with astype.");
  }
  data = array.data;
  writable = (array.flags & kNumpyWritable) != 0;
  return take_strided(array.ndim, array.shape, array.strides, what, error);
}

Status ArrayView::open_buffer(PyObject *object, const Subject &what, Error &error) {
  scalar_type = scalar_type_of(buffer_.format, buffer_.itemsize);
  if (scalar_type == kUnknownType) {
    return what.refuse(error, " has elements of format '", buffer_.format == nullptr ? "B" : buffer_.format,
                       "', which edgecore does not support; got ", type_text(object).c_str(), ".");
  }
  data = buffer_.buf;
  writable = buffer_.readonly == 0;
  return take_strided(buffer_.ndim, buffer_.shape, buffer_.strides, what, error);
}

Status ArrayView::take_strided(int rank, const Py_ssize_t *sizes, const Py_ssize_t *byte_strides, const Subject &what,
                               Error &error) {
  if (rank > kMaxRank) {
    return what.refuse(error, " has ", rank, " dims; at most ", kMaxRank, " are supported.");
  }
  ndim = rank;
  const auto size = static_cast<Py_ssize_t>(item_size(scalar_type));
  bool aligned = true;
  for (int i = 0; i < rank; ++i) {
    shape[i] = sizes[i];
    strides[i] = byte_strides[i] / size;
    aligned = aligned && byte_strides[i] == strides[i] * size;
  }
  if (!aligned) {
    return what.refuse(error, " has strides that are no multiple of its element size; pass a contiguous copy.");
  }
  return {};
}

Status ArrayView::open_dlpack(PyObject *object, const Subject &what, Error &error) {
  nb::object capsule;
  const nb::object method = nb::getattr(nb::handle(object), "__dlpack__");
  try {
    capsule = method(nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error &failure) {
    if (!failure.matches(PyExc_TypeError)) throw;
    capsule = method();  // a library older than DLPack 1.0 lacks the argument max_version
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    versioned_ = static_cast<VersionedTensor *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    if (versioned_->version.major != 1) {
      return what.refuse(error, " uses version ", versioned_->version.major, " of DLPack; this edgecore supports 1.");
    }
    writable = (versioned_->flags & kDlpackReadOnly) == 0;
    return take(versioned_->tensor, what, error);
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0) {
    managed_ = static_cast<ManagedTensor *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    writable = true;
    return take(managed_->tensor, what, error);
  }
  return what.refuse(error, " returned no DLPack capsule from __dlpack__.");
}

Status ArrayView::take(const edgecore_dl_tensor &tensor, const Subject &what, Error &error) {
  if (tensor.device_type != EDGECORE_DEVICE_CPU) {
    return what.refuse(error, " is on a device (DLPack type ", tensor.device_type, "); move it to the CPU.");
  }
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank) {
    return what.refuse(error, " has ", tensor.ndim, " dims; at most ", kMaxRank, " are supported.");
  }
  scalar_type = scalar_type_of(tensor.dtype);
  if (scalar_type == kUnknownType) {
    return what.refuse(error, " has elements of DLPack type (", tensor.dtype.code, ", ", tensor.dtype.bits,
                       " bits), which is not supported.");
  }
  data = static_cast<uint8_t *>(tensor.data) + tensor.byte_offset;
  ndim = tensor.ndim;
  for (int i = ndim - 1; i >= 0; --i) {
    shape[i] = tensor.shape[i];
    strides[i] = tensor.strides != nullptr ? tensor.strides[i] : i + 1 == ndim ? 1 : strides[i + 1] * shape[i + 1];
  }
  return {};
}

void ArrayView::release() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
  if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
}

bool ArrayView::dense_in(const uint8_t *dim_order) const {
  int64_t expected = 1;
  for (int i = ndim - 1; i >= 0; --i) {
    const int dim = dim_order[i];
    if (shape[dim] > 1 && strides[dim] != expected) return false;
    expected *= shape[dim];
  }
  return true;
}

bool ArrayView::fits(Span<const int32_t> max_shape) const {
  bool fits = static_cast<size_t>(ndim) == max_shape.size();
  for (size_t i = 0; fits && i < max_shape.size(); ++i) fits = shape[i] <= max_shape[i];
  return fits;
}

uint64_t ArrayView::bytes() const {
  uint64_t count = item_size(scalar_type);
  for (int i = 0; i < ndim; ++i) count *= static_cast<uint64_t>(shape[i]);
  return count;
}

void dense_strides(int ndim, const int64_t *shape, const uint8_t *dim_order, int64_t *strides) {
  int64_t next = 1;
  for (int i = ndim - 1; i >= 0; --i) {
    strides[dim_order[i]] = next;
    next *= shape[dim_order[i]] > 1 ? shape[dim_order[i]] : 1;
  }
}

void copy_dense(const ArrayView &from, const uint8_t *dim_order, void *to) {
  if (from.bytes() == 0) return;
  switch (item_size(from.scalar_type)) {
    case 1:
      return copy_all<uint8_t>(from, dim_order, to);
    case 2:
      return copy_all<uint16_t>(from, dim_order, to);
    case 4:
      return copy_all<uint32_t>(from, dim_order, to);
    case 8:
      return copy_all<uint64_t>(from, dim_order, to);
    default:
      return copy_all<Element16>(from, dim_order, to);
  }
}

}  // namespace edgecore::python
