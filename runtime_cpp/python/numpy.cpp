#include "numpy.h"

#include <memory>

namespace nb = nanobind;

namespace edgecore::python {
namespace {

struct Row {
  int32_t scalar_type;  // element type: a number of the .pte's ScalarType
  int type_number;      // numpy's NPY_TYPES
};

constexpr int kLong = 7;
constexpr int kLongLong = 9;

// Maps the ScalarType numbers of .pte files to numpy's type numbers. numpy's type numbers stand for C types, so two C
// types of the same size (long and long long, or int and long) have different numbers. Results use the first row that
// has their scalar type. The last two rows are only for inputs, which may be arrays of the other C type of the same
// size.
constexpr Row kTypes[] = {{0, 2},
                          {1, 1},
                          {2, 3},
                          {3, 5},
                          {4, sizeof(long) == 8 ? kLong : kLongLong},
                          {5, 23},
                          {6, 11},
                          {7, 12},
                          {9, 14},
                          {10, 15},
                          {11, 0},
                          {27, 4},
                          {28, 6},
                          {29, sizeof(long) == 8 ? kLong + 1 : kLongLong + 1},
                          {sizeof(long) == 8 ? 4 : 3, sizeof(long) == 8 ? kLongLong : kLong},
                          {sizeof(long) == 8 ? 29 : 28, (sizeof(long) == 8 ? kLongLong : kLong) + 1}};

using NewArray = PyObject *(*)(PyTypeObject *type, int ndim, const Py_ssize_t *shape, int type_number,
                               const Py_ssize_t *strides, void *data, int item_size, int flags, PyObject *object);
using SetBase = int (*)(PyObject *array, PyObject *base);  // steals the reference to `base`

struct Numpy {
  PyTypeObject *ndarray;
  NewArray new_array;
  SetBase set_base;
};

// Reads three entries of numpy's function table, whose indices numpy's ABI fixes: 2 PyArray_Type, 93 PyArray_New, 282
// PyArray_SetBaseObject.
Numpy find_numpy() {
  nb::object module = nb::steal(PyImport_ImportModule("numpy._core._multiarray_umath"));
  if (!module.is_valid()) {
    PyErr_Clear();
    module = nb::module_::import_("numpy.core._multiarray_umath");  // before numpy 2
  }
  const nb::object capsule = module.attr("_ARRAY_API");
  auto **table = static_cast<void **>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (table == nullptr) throw nb::python_error();
  return {static_cast<PyTypeObject *>(table[2]), reinterpret_cast<NewArray>(table[93]),
          reinterpret_cast<SetBase>(table[282])};
}

int type_number_of(int32_t scalar_type) {
  for (const Row &row : kTypes) {
    if (row.scalar_type == scalar_type) return row.type_number;
  }
  return -1;
}

using Owner = std::shared_ptr<Storage>;
constexpr char kOwner[] = "edgecore.storage";

void release(PyObject *capsule) { delete static_cast<Owner *>(PyCapsule_GetPointer(capsule, kOwner)); }

}  // namespace

int32_t scalar_type_of(const NumpyDtype &dtype) {
  constexpr uint16_t kOne = 1;
  const char foreign = *reinterpret_cast<const char *>(&kOne) == 1 ? '>' : '<';
  if (dtype.byte_order == foreign) return kUnknownType;
  for (const Row &row : kTypes) {
    if (row.type_number == dtype.type_number) return row.scalar_type;
  }
  return kUnknownType;
}

nb::object to_numpy(PyTensor &&tensor) {
  static const Numpy numpy = find_numpy();
  const int type_number = type_number_of(tensor.scalar_type);
  if (type_number < 0) return nb::cast(std::move(tensor));
  nb::object array =
      nb::steal(numpy.new_array(numpy.ndarray, tensor.ndim, reinterpret_cast<const Py_ssize_t *>(tensor.shape),
                                type_number, tensor.byte_strides, tensor.data(), 0, kNumpyWritable, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  auto owner = std::make_unique<Owner>(std::move(tensor.storage));
  PyObject *base = PyCapsule_New(owner.get(), kOwner, release);
  if (base == nullptr) throw nb::python_error();
  owner.release();
  if (numpy.set_base(array.ptr(), base) != 0) throw nb::python_error();
  return array;
}

}  // namespace edgecore::python
