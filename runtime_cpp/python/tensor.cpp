#include "tensor.h"

#include <cmath>
#include <cstring>
#include <new>

#include "docs.h"
#include "edgecore/method.h"
#include "input.h"
#include "py_buffer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace edgecore::python {
namespace {

double fp16_to_double(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double sign = bits >> 15 != 0 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25));
}

template <typename T>
T read(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

nb::object complex_number(double real, double imaginary) { return nb::steal(PyComplex_FromDoubles(real, imaginary)); }

nb::object element(const uint8_t *at, int32_t scalar_type) {
  switch (scalar_type) {
    case 0:
      return nb::int_(read<uint8_t>(at));
    case 1:
      return nb::int_(read<int8_t>(at));
    case 2:
      return nb::int_(read<int16_t>(at));
    case 3:
      return nb::int_(read<int32_t>(at));
    case 4:
      return nb::int_(read<int64_t>(at));
    case 5:
      return nb::float_(fp16_to_double(read<uint16_t>(at)));
    case 6:
      return nb::float_(static_cast<double>(read<float>(at)));
    case 7:
      return nb::float_(read<double>(at));
    case 9:
      return complex_number(static_cast<double>(read<float>(at)), static_cast<double>(read<float>(at + 4)));
    case 10:
      return complex_number(read<double>(at), read<double>(at + 8));
    case 11:
      return nb::bool_(*at != 0);
    case 15: {
      const uint32_t bits = uint32_t{read<uint16_t>(at)} << 16;
      return nb::float_(static_cast<double>(read<float>(reinterpret_cast<const uint8_t *>(&bits))));
    }
    case 27:
      return nb::int_(read<uint16_t>(at));
    case 28:
      return nb::int_(read<uint32_t>(at));
    case 29:
      return nb::int_(read<uint64_t>(at));
    default:
      throw nb::type_error("Elements of this dtype have no Python equivalent.");
  }
}

nb::object to_list(const PyTensor &tensor, int dim, const uint8_t *at) {
  if (dim == tensor.ndim) return element(at, tensor.scalar_type);
  nb::list items;
  for (int64_t i = 0; i < tensor.shape[dim]; ++i) {
    items.append(to_list(tensor, dim + 1, at + i * tensor.byte_strides[dim]));
  }
  return items;
}

// A DLPack struct together with the tensor that it describes.
template <typename Managed>
struct Exported {
  Managed managed;
  PyTensor tensor;

  static Managed *make(PyTensor &&source) {
    auto *self = new Exported{{}, std::move(source)};
    const PyTensor &tensor = self->tensor;
    self->managed.context = self;
    self->managed.deleter = [](Managed *managed) { delete static_cast<Exported *>(managed->context); };
    self->managed.tensor = {tensor.data(),      EDGECORE_DEVICE_CPU,  0, tensor.ndim, dl_dtype_of(tensor.scalar_type),
                            self->tensor.shape, self->tensor.strides, 0};
    return &self->managed;
  }

  // Frees the tensor of a capsule that no consumer has taken. A consumer renames the capsule, and frees the tensor
  // itself.
  static void destroy_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, name()) != 0) {
      auto *managed = static_cast<Managed *>(PyCapsule_GetPointer(capsule, name()));
      managed->deleter(managed);
    }
  }

  static nb::object capsule(Managed *managed) {
    PyObject *capsule = PyCapsule_New(managed, name(), destroy_capsule);
    if (capsule == nullptr) {
      managed->deleter(managed);
      throw nb::python_error();
    }
    return nb::steal(capsule);
  }

  static const char *name() { return std::is_same_v<Managed, VersionedTensor> ? "dltensor_versioned" : "dltensor"; }
};

nb::object to_dlpack(const PyTensor &tensor, const nb::object &, const nb::object &max_version,
                     const nb::object &dl_device, const nb::object &copy) {
  if (!dl_device.is_none() && !dl_device.equal(nb::make_tuple(EDGECORE_DEVICE_CPU, 0))) {
    throw nb::buffer_error("An edgecore.Tensor is in CPU memory; no other dl_device is supported.");
  }
  if (!copy.is_none() && nb::cast<bool>(copy)) throw nb::buffer_error("An edgecore.Tensor is exported without a copy.");
  if (!max_version.is_none() && nb::cast<int>(max_version[0]) >= 1) {
    return Exported<VersionedTensor>::capsule(export_versioned(PyTensor(tensor)));
  }
  return Exported<ManagedTensor>::capsule(Exported<ManagedTensor>::make(PyTensor(tensor)));
}

int get_buffer(PyObject *self, Py_buffer *view, int flags) {
  view->obj = nullptr;
  auto &tensor = *nb::inst_ptr<PyTensor>(self);
  const char *format = format_of(tensor.scalar_type);
  if (format == nullptr) {
    PyErr_SetString(PyExc_BufferError, "The buffer protocol has no format for bfloat16; use DLPack.");
    return -1;
  }
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !tensor.row_major()) {
    PyErr_SetString(PyExc_BufferError, "This tensor is not row-major; the consumer must accept strides.");
    return -1;
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "shapes are shared with the buffer protocol");
  view->buf = tensor.data();
  view->obj = self;
  Py_INCREF(self);
  view->itemsize = static_cast<Py_ssize_t>(item_size(tensor.scalar_type));
  view->len = static_cast<Py_ssize_t>(tensor.element_count()) * view->itemsize;
  view->readonly = 0;
  view->ndim = tensor.ndim;
  view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char *>(format) : nullptr;
  view->shape = (flags & PyBUF_ND) != 0 ? reinterpret_cast<Py_ssize_t *>(tensor.shape) : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? tensor.byte_strides : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  return 0;
}

nb::tuple shape_tuple(const PyTensor &tensor) {
  nb::list sizes;
  for (int i = 0; i < tensor.ndim; ++i) sizes.append(tensor.shape[i]);
  return nb::tuple(sizes);
}

nb::str dtype_name(const PyTensor &tensor) {
  const StringView name = type_name(tensor.scalar_type);
  return nb::str(name.data(), name.size());
}

}  // namespace

HeapBlock BlockCache::take() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!blocks_.empty()) {
      HeapBlock block = std::move(blocks_.back());
      blocks_.pop_back();
      return block;
    }
  }
  return bytes_ > SIZE_MAX - kArenaTail ? nullptr : heap_block(bytes_ + kArenaTail, kArenaAlignment);
}

void BlockCache::give_back(HeapBlock block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (block != nullptr && blocks_.size() < kMaxBlocks) blocks_.push_back(std::move(block));
}

uint64_t PyTensor::element_count() const {
  uint64_t count = 1;
  for (int i = 0; i < ndim; ++i) count *= static_cast<uint64_t>(shape[i]);
  return count;
}

PyTensor copy_of(const Tensor &source, const uint8_t *dim_order) {
  PyTensor tensor;
  tensor.storage = std::make_shared<Storage>();
  tensor.storage->cache = std::make_shared<BlockCache>(source.bytes());
  tensor.storage->block = tensor.storage->cache->take();
  if (source.empty() || tensor.storage->block == nullptr) throw std::bad_alloc();
  if (source.bytes() != 0) std::memcpy(tensor.data(), source.data(), source.bytes());
  tensor.scalar_type = source.scalar_type();
  tensor.ndim = static_cast<int>(source.shape().size());
  for (size_t i = 0; i < source.shape().size(); ++i) tensor.shape[dim_order[i]] = source.shape()[i];
  dense_strides(tensor.ndim, tensor.shape, dim_order, tensor.strides);
  const auto item = static_cast<Py_ssize_t>(item_size(source.scalar_type()));
  for (int i = 0; i < tensor.ndim; ++i) tensor.byte_strides[i] = tensor.strides[i] * item;
  return tensor;
}

bool PyTensor::row_major() const {
  int64_t expected = 1;
  for (int i = ndim - 1; i >= 0; --i) {
    if (shape[i] > 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

VersionedTensor *export_versioned(PyTensor &&tensor) {
  VersionedTensor *managed = Exported<VersionedTensor>::make(std::move(tensor));
  managed->version = {1, 0};
  return managed;
}

void bind_tensor(nb::module_ &module) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void *>(get_buffer)}, {0, nullptr}};
  nb::class_<PyTensor>(module, "Tensor", nb::type_slots(slots), docs::kTensor)
      .def_prop_ro("shape", shape_tuple, docs::kTensorShape)
      .def_prop_ro("dtype", dtype_name, docs::kTensorDtype)
      .def(
          "tolist",
          [](const PyTensor &tensor) { return to_list(tensor, 0, static_cast<const uint8_t *>(tensor.data())); },
          docs::kTensorTolist)
      .def("__dlpack__", to_dlpack, nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(),
           "dl_device"_a = nb::none(), "copy"_a = nb::none(), docs::kTensorDlpack)
      .def(
          "__dlpack_device__", [](const PyTensor &) { return nb::make_tuple(EDGECORE_DEVICE_CPU, 0); },
          docs::kTensorDlpackDevice)
      .def(
          "__repr__",
          [](const PyTensor &tensor) {
            return nb::str("edgecore.Tensor(shape={}, dtype={})").format(shape_tuple(tensor), dtype_name(tensor));
          },
          "Describe the tensor: its shape and dtype.");
}

}  // namespace edgecore::python
