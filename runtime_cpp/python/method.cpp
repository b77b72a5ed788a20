#include "method.h"

#include <cstring>
#include <memory>
#include <new>

#include "log.h"
#include "numpy.h"

namespace nb = nanobind;

namespace edgecore::python {
namespace {

constexpr uintptr_t kPage = 4096;  // minimum page size of supported systems in bytes

// An array of `size` default-constructed elements, on the stack if there are few elements, otherwise on the heap.
// Unlike a fixed array, SmallArray constructs only `size` elements. Measured for a call with one numpy array: 0.77 us
// with this class, 0.81 us with all arrays on the heap, 0.87 us with fixed arrays of kFew elements.
template <typename T>
class SmallArray {
 public:
  explicit SmallArray(size_t size) : size_(size) {
    if (size > kFew) {
      heap_.reset(new T[size]);
      items_ = heap_.get();
      return;
    }
    items_ = reinterpret_cast<T *>(few_);
    for (size_t i = 0; i < size; ++i) new (items_ + i) T;
  }
  ~SmallArray() {
    if (heap_ == nullptr) std::destroy_n(items_, size_);
  }
  SmallArray(const SmallArray &) = delete;
  SmallArray &operator=(const SmallArray &) = delete;
  T *get() { return items_; }

 private:
  static constexpr size_t kFew = 4;
  alignas(T) unsigned char few_[kFew * sizeof(T)];
  std::unique_ptr<T[]> heap_;
  T *items_;
  size_t size_;
};

// Returns true if `out` is a sequence of buffers, and false if `out` is itself a buffer, for a method with one output.
bool holds_buffers(PyObject *out) {
  if (PyList_Check(out) != 0 || PyTuple_Check(out) != 0) return true;
  const bool is_tensor = PyObject_CheckBuffer(out) != 0 || PyObject_HasAttrString(out, "__dlpack__") != 0;
  return !is_tensor && PySequence_Check(out) != 0;
}

const char *type_text(PyObject *object) {
  const nb::object name = nb::getattr(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(object))), "__name__");
  return nb::borrow<nb::str>(name).c_str();  // the text stays valid, because the Python type keeps its name
}

// Returns true if `view` is one-dimensional raw memory, such as bytes or array.array, that holds exactly the elements
// of the expected tensor. Such an input is read with the shape of the expected tensor.
bool is_flat(const ArrayView &view, const TensorInfo &expected) {
  return view.array_type->library == Library::kNone && view.array_type->exchange == nullptr && view.ndim == 1 &&
         (view.shape[0] <= 1 || view.strides[0] == 1) && expected.shape_kind == EDGECORE_SHAPE_STATIC &&
         (view.scalar_type == expected.scalar_type || view.scalar_type == 0) && view.bytes() == expected.bytes;
}

// Returns the number of bytes from `data` to the end of the page with the tensor's last byte. The whole page is
// readable, so no copy is needed for a delegate that reads past the end of its inputs.
uint64_t readable_bytes(const void *data, uint64_t bytes) {
  const uintptr_t end = reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes);
  return bytes + (kPage - end % kPage) % kPage;
}

// Converts a tensor to an object of the torch type `type`, without a copy.
nb::object to_torch(PyTensor &&tensor, const ArrayType &type) {
  if (type.exchange == nullptr || type.exchange->to_object == nullptr) {
    return nb::module_::import_("torch").attr("from_dlpack")(nb::cast(std::move(tensor)));
  }
  VersionedTensor *exported = export_versioned(std::move(tensor));
  void *object = nullptr;
  if (type.exchange->to_object(exported, &object) != 0) {
    exported->deleter(exported);
    throw nb::python_error();
  }
  return nb::steal(static_cast<PyObject *>(object));
}

}  // namespace

PyMethod::PyMethod(std::shared_ptr<PyProgram> program, size_t index)
    : program_(std::move(program)), index_(index), info_(program_->program().method(index)) {
  inputs_.resize(info_.input_count());
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].info = info_.input(i);
  outputs_.resize(info_.output_count());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].info = info_.output(i);
    if (outputs_[i].info.tag == EDGECORE_TAG_TENSOR) {
      outputs_[i].cache = std::make_shared<BlockCache>(static_cast<size_t>(outputs_[i].info.tensor.bytes));
    }
  }
}

void PyMethod::load() {
  Method &method = ready_method(program_, index_);
  // another thread has loaded the method first: lock_ and method_ may be in use already
  if (method_ != nullptr) return;
  lock_ = program_->locks[index_];
  method_ = &method;
}

void PyMethod::refuse_count(size_t count) const {
  Error error;
  (void)fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", info_.name(), "' takes ", inputs_.size(),
             inputs_.size() == 1 ? " input" : " inputs", "; got ", count, ".");
  raise(error);
}

void PyMethod::set_nesting(nb::object flatten, nb::object unflatten) {
  if (!flatten.is_none()) flatten_ = std::move(flatten);
  if (!unflatten.is_none()) unflatten_ = std::move(unflatten);
}

nb::object PyMethod::flat_inputs(nb::handle inputs, nb::handle keywords) const {
  if (flatten_.is_valid()) {
    nb::object flat = flatten_(inputs, keywords.is_valid() ? nb::borrow(keywords) : nb::dict());
    if (!flat.is_none()) return flat;
  }
  return keywords.is_valid() ? arrange(inputs, keywords) : nb::borrow(inputs);
}

nb::object PyMethod::arrange(nb::handle inputs, nb::handle keywords) const {
  Error error;
  const auto positional = static_cast<size_t>(PyTuple_Size(inputs.ptr()));
  if (positional > inputs_.size()) refuse_count(positional);
  std::vector<nb::object> all(inputs_.size());
  for (size_t i = 0; i < positional; ++i)
    all[i] = nb::borrow(PyTuple_GetItem(inputs.ptr(), static_cast<Py_ssize_t>(i)));
  PyObject *key = nullptr;
  PyObject *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(keywords.ptr(), &at, &key, &value) != 0;) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(key, &size);
    if (text == nullptr) throw nb::python_error();
    const StringView name(text, static_cast<size_t>(size));
    if (name == "out") continue;
    const Result<size_t> index = info_.find_input(name, error);
    if (!index.ok()) raise(error);
    if (all[*index].is_valid()) {
      (void)Subject{nullptr, *index, info_}.refuse(error, " was given by position and by keyword.");
      raise(error);
    }
    all[*index] = nb::borrow(value);
  }
  bool complete = true;
  const nb::object arranged = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(all.size())));
  if (!arranged.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < all.size(); ++i) {
    // An input that was None at export may be omitted.
    if (!all[i].is_valid() && inputs_[i].info.tag == EDGECORE_TAG_NONE) all[i] = nb::none();
    if (all[i].is_valid()) {
      PyTuple_SetItem(arranged.ptr(), static_cast<Py_ssize_t>(i), all[i].release().ptr());
      continue;
    }
    if (complete) (void)fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", info_.name(), "' was not given ");
    (void)extend(error, complete ? "'" : ", '", inputs_[i].info.name, "'");
    complete = false;
  }
  if (!complete) {
    (void)extend(error, ".");
    raise(error);
  }
  return arranged;
}

nb::object PyMethod::call(nb::handle inputs, nb::handle out) {
  Method &method = loaded();
  Error error;
  const auto input_count = static_cast<size_t>(PyTuple_Size(inputs.ptr()));
  if (input_count != inputs_.size()) refuse_count(input_count);
  const ArrayType *kind = nullptr;
  SmallArray<InputArg> args(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    InputArg &arg = args.get()[i];
    const nb::handle object = PyTuple_GetItem(inputs.ptr(), static_cast<Py_ssize_t>(i));
    if (!read_input(i, object.ptr(), arg, error).ok()) raise(error);
    if (kind == nullptr) kind = arg.view.array_type;
  }
  SmallArray<OutputSlot> slots(outputs_.size());
  if (out.is_valid() && !out.is_none()) {
    const bool bare = outputs_.size() == 1 && !holds_buffers(out.ptr());
    const size_t count = bare ? 1 : nb::len(out);
    if (count != outputs_.size()) {
      (void)fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", info_.name(), "' has ", outputs_.size(),
                 outputs_.size() == 1 ? " output" : " outputs", "; got ", count, " buffers in out.");
      raise(error);
    }
    for (size_t i = 0; i < count; ++i) {
      OutputSlot &slot = slots.get()[i];
      slot.object = bare ? nb::borrow(out) : nb::object(out[i]);
      if (!read_out(i, slot.object.ptr(), slot, error).ok()) raise(error);
    }
  }

  Status status;
  {
    const nb::gil_scoped_release release;
    const std::unique_lock<std::mutex> lock = lock_->acquire();
    status = set_arguments(args.get(), slots.get(), error);
    if (status.ok()) status = method.execute(error);
    for (size_t i = 0; status.ok() && i < outputs_.size(); ++i) {
      status = collect_output(method, outputs_[i].info, i, slots.get()[i], error);
    }
  }
  deliver_log();
  if (!status.ok()) raise(error);

  if (outputs_.size() == 1 && !unflatten_.is_valid()) return slots.get()->result(kind);
  nb::list results;
  for (size_t i = 0; i < outputs_.size(); ++i) results.append(slots.get()[i].result(kind));
  return unflatten_.is_valid() ? unflatten_(results) : results;
}

nb::object OutputSlot::result(const ArrayType *kind) {
  if (object.is_valid()) return object;
  switch (value.tag) {
    case EDGECORE_TAG_TENSOR: {
      const Library library = kind == nullptr ? Library::kNone : kind->library;
      return library == Library::kNumpy   ? to_numpy(std::move(tensor))
             : library == Library::kTorch ? to_torch(std::move(tensor), *kind)
                                          : nb::cast(std::move(tensor));
    }
    case EDGECORE_TAG_INT:
      return nb::int_(value.as.i);
    case EDGECORE_TAG_DOUBLE:
      return nb::float_(value.as.d);
    case EDGECORE_TAG_BOOL:
      return nb::bool_(value.as.b != 0);
    case EDGECORE_TAG_STRING: {
      const edgecore_list &text = *value.as.list;
      const nb::object decoded =
          nb::steal(PyUnicode_DecodeUTF8(text.items.chars, static_cast<Py_ssize_t>(text.count), "replace"));
      if (!decoded.is_valid()) nb::raise_python_error();
      return decoded;
    }
    default:
      return nb::none();
  }
}

Status PyMethod::read_input(size_t index, PyObject *object, InputArg &arg, Error &error) {
  const char *expected = "None";
  switch (inputs_[index].info.tag) {
    case EDGECORE_TAG_TENSOR:
      return arg.view.open(object, {nullptr, index, info_}, error);
    case EDGECORE_TAG_INT:
    case EDGECORE_TAG_BOOL:
      if (PyLong_Check(object) != 0) {
        arg.integer = PyLong_AsLongLong(object);
        if (arg.integer != -1 || PyErr_Occurred() == nullptr) return {};
        PyErr_Clear();
      }
      expected = inputs_[index].info.tag == EDGECORE_TAG_INT ? "an int of 64 bits" : "a bool";
      break;
    case EDGECORE_TAG_DOUBLE:
      arg.number = PyFloat_AsDouble(object);
      if (arg.number != -1.0 || PyErr_Occurred() == nullptr) return {};
      PyErr_Clear();
      expected = "a float";
      break;
    default:
      if (object == Py_None) return {};
      expected = "None (its value was fixed when the model was exported)";
  }
  return Subject{nullptr, index, info_}.refuse(error, " must be ", expected, "; got ", type_text(object), ".");
}

Status PyMethod::read_out(size_t index, PyObject *object, OutputSlot &slot, Error &error) {
  const Subject subject = {"The buffer in out for output", index, info_};
  const ValueInfo &info = outputs_[index].info;
  if (info.tag != EDGECORE_TAG_TENSOR) {
    return subject.refuse(error, " is for an output that is no tensor; call without out.");
  }
  EDGECORE_TRY(slot.out.open(object, subject, error));
  const TensorInfo &expected = info.tensor;
  const auto rank = static_cast<int>(expected.sizes.size());
  bool same = slot.out.scalar_type == expected.scalar_type && slot.out.ndim == rank;
  for (int i = 0; same && i < rank; ++i) {
    same =
        slot.out.shape[i] == expected.sizes[static_cast<size_t>(i)] ||
        (expected.shape_kind == EDGECORE_SHAPE_BOUNDED && slot.out.shape[i] < expected.sizes[static_cast<size_t>(i)]);
  }
  const Span<const int64_t> shape(slot.out.shape, static_cast<size_t>(slot.out.ndim));
  if (!same) {
    return subject.refuse(error, " must be ", type_name(expected.scalar_type), " ", expected.sizes, "; got ",
                          type_name(slot.out.scalar_type), " ", shape, ".");
  }
  if (!slot.out.writable) return subject.refuse(error, " is read-only.");
  if (!slot.out.dense_in(expected.dim_order.data())) {
    return subject.refuse(error, " must be contiguous with dim order ", expected.dim_order, ".");
  }
  return {};
}

Status PyMethod::set_arguments(InputArg *args, OutputSlot *slots, Error &error) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    switch (inputs_[i].info.tag) {
      case EDGECORE_TAG_TENSOR:
        EDGECORE_TRY(set_tensor(i, args[i].view, error));
        break;
      case EDGECORE_TAG_DOUBLE:
        EDGECORE_TRY(method_->set_input(i, args[i].number, error));
        break;
      case EDGECORE_TAG_INT:
      case EDGECORE_TAG_BOOL:
        EDGECORE_TRY(method_->set_input(i, args[i].integer, error));
        break;
      case EDGECORE_TAG_NONE:
        EDGECORE_TRY(method_->set_input_none(i, error));
        break;
      default:
        break;  // strings and lists have the values that were fixed at export: they cannot be set
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) EDGECORE_TRY(set_output_memory(i, args, slots[i], error));
  return {};
}

Status PyMethod::set_tensor(size_t index, const ArrayView &view, Error &error) {
  Input &input = inputs_[index];
  const TensorInfo &expected = input.info.tensor;
  TensorArgument argument;
  argument.data = view.data;
  argument.scalar_type = view.scalar_type;
  argument.shape = {view.shape, static_cast<size_t>(view.ndim)};
  argument.readable_bytes = readable_bytes(view.data, view.bytes());
  argument.writable = view.writable;
  int64_t shape[kMaxRank];
  if (is_flat(view, expected)) {
    argument.scalar_type = expected.scalar_type;
    for (size_t i = 0; i < expected.sizes.size(); ++i) shape[i] = expected.sizes[i];
    argument.shape = {shape, expected.sizes.size()};
  } else if (view.scalar_type == expected.scalar_type && view.fits(expected.sizes) &&
             !view.dense_in(expected.dim_order.data())) {
    const uint64_t bytes = view.bytes();
    if (input.copy_bytes < bytes || input.copy == nullptr) {
      input.copy = heap_block(static_cast<size_t>(bytes) + kArenaTail, kArenaAlignment);
      input.copy_bytes = input.copy == nullptr ? 0 : bytes;
      if (input.copy == nullptr) {
        return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a contiguous copy of input ", index,
                    " of method '", info_.name(), "' (", bytes, " bytes).");
      }
    }
    copy_dense(view, expected.dim_order.data(), input.copy.get());
    argument.data = input.copy.get();
    argument.readable_bytes = bytes + kArenaTail;
    // Mark the copy as not writable, so that a program that mutates this input fails instead of changing only the copy.
    argument.writable = false;
  }
  return method_->set_input(index, argument, error);
}

Status PyMethod::set_output_memory(size_t index, const InputArg *args, OutputSlot &slot, Error &error) {
  const Output &output = outputs_[index];
  if (output.info.tag != EDGECORE_TAG_TENSOR) return {};
  const uint64_t bytes = output.info.tensor.bytes;
  const auto *begin = static_cast<const uint8_t *>(slot.out.data);
  slot.direct = begin != nullptr && method_->output_needs_memory(index) && slot.out.bytes() == bytes &&
                reinterpret_cast<uintptr_t>(begin) % 16 == 0;
  for (size_t i = 0; slot.direct && i < inputs_.size(); ++i) {
    if (inputs_[i].info.tag != EDGECORE_TAG_TENSOR) continue;
    const auto *input = static_cast<const uint8_t *>(args[i].view.data);
    slot.direct = begin + bytes <= input || input + args[i].view.bytes() <= begin;
  }
  if (slot.direct) return method_->set_output(index, slot.out.data, bytes, error);
  slot.tensor.storage = std::make_shared<Storage>();
  slot.tensor.storage->cache = output.cache;
  slot.tensor.storage->block = output.cache->take();
  if (slot.tensor.storage->block == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for output ", index, " of method '", info_.name(),
                "' (", bytes, " bytes).");
  }
  if (!method_->output_needs_memory(index)) return {};
  return method_->set_output(index, slot.tensor.data(), bytes, error);
}

Status collect_output(const Method &method, const ValueInfo &declared, size_t index, OutputSlot &slot, Error &error) {
  const edgecore_value &value = method.output(index);
  slot.value = value;
  if (value.tag != EDGECORE_TAG_TENSOR) return {};
  const edgecore_dl_tensor &dl = value.as.tensor->dl;
  const TensorInfo &info = declared.tensor;
  PyTensor &tensor = slot.tensor;
  tensor.scalar_type = info.scalar_type;
  tensor.ndim = dl.ndim;
  const auto size = static_cast<Py_ssize_t>(item_size(info.scalar_type));
  std::memcpy(tensor.shape, dl.shape, static_cast<size_t>(dl.ndim) * sizeof *dl.shape);
  dense_strides(dl.ndim, tensor.shape, info.dim_order.data(), tensor.strides);
  for (int i = 0; i < dl.ndim; ++i) tensor.byte_strides[i] = tensor.strides[i] * size;

  void *target = slot.direct ? slot.out.data : tensor.data();
  if (slot.object.is_valid()) {
    const Span<const int64_t> got(slot.out.shape, static_cast<size_t>(slot.out.ndim));
    const Span<const int64_t> actual(tensor.shape, static_cast<size_t>(tensor.ndim));
    if (std::memcmp(got.data(), actual.data(), actual.size() * sizeof(int64_t)) != 0) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "Output ", index, " of method '", method.info().name(),
                  "' has the shape ", actual, " for these inputs; got a buffer in out of shape ", got, ".");
    }
    target = slot.out.data;
  }
  const uint64_t bytes = tensor.element_count() * static_cast<uint64_t>(size);
  const auto *data = static_cast<const uint8_t *>(dl.data) + dl.byte_offset;
  if (data != target && bytes != 0) std::memcpy(target, data, static_cast<size_t>(bytes));
  return {};
}

}  // namespace edgecore::python
