#include "runner.h"

#include <cstring>
#include <memory>
#include <new>

#include "numpy.h"

namespace nb = nanobind;

namespace edgecore::python {
namespace {

constexpr uintptr_t kPage = 4096;  // no system has smaller ones

// Elements of an array on the stack while there are few, on the heap otherwise. They are large: none is made unasked.
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

// False for the object itself of a method with one output, which needs no list around it.
bool holds_buffers(PyObject *out) {
  if (PyList_Check(out) != 0 || PyTuple_Check(out) != 0) return true;
  const bool is_tensor = PyObject_CheckBuffer(out) != 0 || PyObject_HasAttrString(out, "__dlpack__") != 0;
  return !is_tensor && PySequence_Check(out) != 0;
}

const char *type_text(PyObject *object) {
  const nb::object name = nb::getattr(nb::handle(reinterpret_cast<PyObject *>(Py_TYPE(object))), "__name__");
  return nb::borrow<nb::str>(name).c_str();  // the type keeps its name
}

// Whether a bytes-like object without a shape stands for the whole of a tensor.
bool is_flat(const ArrayView &given, const TensorInfo &expected) {
  return given.array_type->library == Library::kNone && given.array_type->exchange == nullptr && given.ndim == 1 &&
         (given.shape[0] <= 1 || given.strides[0] == 1) && expected.shape_kind == EDGECORE_SHAPE_STATIC &&
         (given.scalar_type == expected.scalar_type || given.scalar_type == 0) && given.bytes() == expected.bytes;
}

// Memory in the page of a tensor's last byte can be read without a fault.
uint64_t readable_bytes(const void *data, uint64_t bytes) {
  const uintptr_t end = reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes);
  return bytes + (kPage - end % kPage) % kPage;
}

nb::object to_torch(Tensor &&tensor, const ArrayType &type) {
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

Runner::Runner(std::shared_ptr<Module> module, Method &method, std::shared_ptr<Turn> turn)
    : turn_(std::move(turn)), module_(std::move(module)), method_(method) {
  const MethodInfo info = method.info();
  inputs_.resize(info.input_count());
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].info = info.input(i);
  outputs_.resize(info.output_count());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].info = info.output(i);
    if (outputs_[i].info.tag == EDGECORE_TAG_TENSOR) {
      outputs_[i].cache = std::make_shared<BlockCache>(static_cast<size_t>(outputs_[i].info.tensor.bytes));
    }
  }
}

void Runner::refuse_count(size_t given) const {
  Error error;
  (void)fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", method_.info().name(), "' takes ", inputs_.size(),
             inputs_.size() == 1 ? " input" : " inputs", "; got ", given, ".");
  raise(error);
}

nb::object Runner::arrange(nb::handle inputs, nb::handle keywords) const {
  Error error;
  const auto given = static_cast<size_t>(PyTuple_Size(inputs.ptr()));
  if (given > inputs_.size()) refuse_count(given);
  std::vector<nb::object> all(inputs_.size());
  for (size_t i = 0; i < given; ++i) all[i] = nb::borrow(PyTuple_GetItem(inputs.ptr(), static_cast<Py_ssize_t>(i)));
  PyObject *key = nullptr;
  PyObject *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(keywords.ptr(), &at, &key, &value) != 0;) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(key, &size);
    if (text == nullptr) throw nb::python_error();
    const StringView name(text, static_cast<size_t>(size));
    if (name == "out") continue;
    const Result<size_t> index = method_.info().find_input(name, error);
    if (!index.ok()) raise(error);
    if (all[*index].is_valid()) {
      (void)Subject{nullptr, *index, &method_}.refuse(error, " was given by position and by keyword.");
      raise(error);
    }
    all[*index] = nb::borrow(value);
  }
  bool complete = true;
  const nb::object arranged = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(all.size())));
  if (!arranged.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < all.size(); ++i) {
    // None was fixed when the model was exported.
    if (!all[i].is_valid() && inputs_[i].info.tag == EDGECORE_TAG_NONE) all[i] = nb::none();
    if (all[i].is_valid()) {
      PyTuple_SetItem(arranged.ptr(), static_cast<Py_ssize_t>(i), all[i].release().ptr());
      continue;
    }
    if (complete) (void)fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", method_.info().name(), "' was not given ");
    (void)extend(error, complete ? "'" : ", '", inputs_[i].info.name, "'");
    complete = false;
  }
  if (!complete) {
    (void)extend(error, ".");
    raise(error);
  }
  return arranged;
}

nb::object Runner::call(nb::handle inputs, nb::handle out) {
  Error error;
  const auto given_count = static_cast<size_t>(PyTuple_Size(inputs.ptr()));
  if (given_count != inputs_.size()) refuse_count(given_count);
  const ArrayType *kind = nullptr;
  SmallArray<Given> given(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Given &input = given.get()[i];
    const nb::handle object = PyTuple_GetItem(inputs.ptr(), static_cast<Py_ssize_t>(i));
    if (!read_input(i, object.ptr(), input, error).ok()) raise(error);
    if (kind == nullptr) kind = input.view.array_type;
  }
  SmallArray<Made> made(outputs_.size());
  if (out.is_valid() && !out.is_none()) {
    const bool bare = outputs_.size() == 1 && !holds_buffers(out.ptr());
    const size_t count = bare ? 1 : nb::len(out);
    if (count != outputs_.size()) {
      (void)fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", method_.info().name(), "' has ", outputs_.size(),
                 outputs_.size() == 1 ? " output" : " outputs", "; got ", count, " buffers in out.");
      raise(error);
    }
    for (size_t i = 0; i < count; ++i) {
      Made &output = made.get()[i];
      output.object = bare ? nb::borrow(out) : nb::object(out[i]);
      if (!read_out(i, output.object.ptr(), output, error).ok()) raise(error);
    }
  }

  Status status;
  {
    const nb::gil_scoped_release release;
    const std::unique_lock<std::mutex> lock = turn_->take();
    status = set_arguments(given.get(), made.get(), error);
    if (status.ok()) status = method_.execute(error);
    for (size_t i = 0; status.ok() && i < outputs_.size(); ++i) status = take_result(i, made.get()[i], error);
  }
  if (!status.ok()) raise(error);

  if (outputs_.size() == 1) return made.get()->result(kind);
  nb::list results;
  for (size_t i = 0; i < outputs_.size(); ++i) results.append(made.get()[i].result(kind));
  return results;
}

nb::object Made::result(const ArrayType *kind) {
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
      const nb::object made =
          nb::steal(PyUnicode_DecodeUTF8(text.items.chars, static_cast<Py_ssize_t>(text.count), "replace"));
      if (!made.is_valid()) nb::raise_python_error();
      return made;
    }
    default:
      return nb::none();
  }
}

Status Runner::read_input(size_t index, PyObject *object, Given &given, Error &error) {
  const char *wanted = "None";
  switch (inputs_[index].info.tag) {
    case EDGECORE_TAG_TENSOR:
      return given.view.open(object, {nullptr, index, &method_}, error);
    case EDGECORE_TAG_INT:
    case EDGECORE_TAG_BOOL:
      if (PyLong_Check(object) != 0) {
        given.integer = PyLong_AsLongLong(object);
        if (given.integer != -1 || PyErr_Occurred() == nullptr) return {};
        PyErr_Clear();
      }
      wanted = inputs_[index].info.tag == EDGECORE_TAG_INT ? "an int of 64 bits" : "a bool";
      break;
    case EDGECORE_TAG_DOUBLE:
      given.number = PyFloat_AsDouble(object);
      if (given.number != -1.0 || PyErr_Occurred() == nullptr) return {};
      PyErr_Clear();
      wanted = "a float";
      break;
    default:
      if (object == Py_None) return {};
      wanted = "None (its value was fixed when the model was exported)";
  }
  return Subject{nullptr, index, &method_}.refuse(error, " must be ", wanted, "; got ", type_text(object), ".");
}

Status Runner::read_out(size_t index, PyObject *object, Made &made, Error &error) {
  const Subject what = {"The buffer in out for output", index, &method_};
  const ValueInfo &info = outputs_[index].info;
  if (info.tag != EDGECORE_TAG_TENSOR) {
    return what.refuse(error, " is for an output that is no tensor; call without out.");
  }
  EDGECORE_TRY(made.out.open(object, what, error));
  const TensorInfo &expected = info.tensor;
  const auto rank = static_cast<int>(expected.sizes.size());
  bool same = made.out.scalar_type == expected.scalar_type && made.out.ndim == rank;
  for (int i = 0; same && i < rank; ++i) {
    same =
        made.out.shape[i] == expected.sizes[static_cast<size_t>(i)] ||
        (expected.shape_kind == EDGECORE_SHAPE_BOUNDED && made.out.shape[i] < expected.sizes[static_cast<size_t>(i)]);
  }
  const Span<const int64_t> shape(made.out.shape, static_cast<size_t>(made.out.ndim));
  if (!same) {
    return what.refuse(error, " must be ", type_name(expected.scalar_type), " ", expected.sizes, "; got ",
                       type_name(made.out.scalar_type), " ", shape, ".");
  }
  if (!made.out.writable) return what.refuse(error, " is read-only.");
  if (!made.out.dense_in(expected.dim_order.data())) {
    return what.refuse(error, " must be contiguous with dim order ", expected.dim_order, ".");
  }
  return {};
}

Status Runner::set_arguments(Given *given, Made *made, Error &error) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    switch (inputs_[i].info.tag) {
      case EDGECORE_TAG_TENSOR:
        EDGECORE_TRY(set_tensor(i, given[i].view, error));
        break;
      case EDGECORE_TAG_DOUBLE:
        EDGECORE_TRY(method_.set_input(i, given[i].number, error));
        break;
      case EDGECORE_TAG_INT:
      case EDGECORE_TAG_BOOL:
        EDGECORE_TRY(method_.set_input(i, given[i].integer, error));
        break;
      case EDGECORE_TAG_NONE:
        EDGECORE_TRY(method_.set_input_none(i, error));
        break;
      default:
        break;  // strings and lists are in the file
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) EDGECORE_TRY(give_memory(i, given, made[i], error));
  return {};
}

Status Runner::set_tensor(size_t index, const ArrayView &given, Error &error) {
  Input &input = inputs_[index];
  const TensorInfo &expected = input.info.tensor;
  TensorArgument argument;
  argument.data = given.data;
  argument.scalar_type = given.scalar_type;
  argument.shape = {given.shape, static_cast<size_t>(given.ndim)};
  argument.readable_bytes = readable_bytes(given.data, given.bytes());
  argument.writable = given.writable;
  int64_t whole[kMaxRank];
  if (is_flat(given, expected)) {
    argument.scalar_type = expected.scalar_type;
    for (size_t i = 0; i < expected.sizes.size(); ++i) whole[i] = expected.sizes[i];
    argument.shape = {whole, expected.sizes.size()};
  } else if (given.scalar_type == expected.scalar_type && given.fits(expected.sizes) &&
             !given.dense_in(expected.dim_order.data())) {
    const uint64_t bytes = given.bytes();
    if (input.copy_bytes < bytes || input.copy == nullptr) {
      input.copy = heap_block(static_cast<size_t>(bytes) + kArenaTail, kArenaAlignment);
      input.copy_bytes = input.copy == nullptr ? 0 : bytes;
      if (input.copy == nullptr) {
        return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a contiguous copy of input ", index,
                    " of method '", method_.info().name(), "' (", bytes, " bytes).");
      }
    }
    copy_dense(given, expected.dim_order.data(), input.copy.get());
    argument.data = input.copy.get();
    argument.readable_bytes = bytes + kArenaTail;
    // A program that mutates the input would change the copy, unseen by the caller: refused as read-only.
    argument.writable = false;
  }
  return method_.set_input(index, argument, error);
}

Status Runner::give_memory(size_t index, const Given *given, Made &made, Error &error) {
  const Output &output = outputs_[index];
  if (output.info.tag != EDGECORE_TAG_TENSOR) return {};
  const uint64_t bytes = output.info.tensor.bytes;
  const auto *begin = static_cast<const uint8_t *>(made.out.data);
  made.direct = begin != nullptr && method_.output_needs_memory(index) && made.out.bytes() == bytes &&
                reinterpret_cast<uintptr_t>(begin) % 16 == 0;
  for (size_t i = 0; made.direct && i < inputs_.size(); ++i) {
    if (inputs_[i].info.tag != EDGECORE_TAG_TENSOR) continue;
    const auto *input = static_cast<const uint8_t *>(given[i].view.data);
    made.direct = begin + bytes <= input || input + given[i].view.bytes() <= begin;
  }
  if (made.direct) return method_.set_output(index, made.out.data, bytes, error);
  made.tensor.storage = std::make_shared<Storage>();
  made.tensor.storage->cache = output.cache;
  made.tensor.storage->block = output.cache->take();
  if (made.tensor.storage->block == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for output ", index, " of method '",
                method_.info().name(), "' (", bytes, " bytes).");
  }
  if (!method_.output_needs_memory(index)) return {};
  return method_.set_output(index, made.tensor.data(), bytes, error);
}

Status take_result(const Method &method, const ValueInfo &declared, size_t index, Made &made, Error &error) {
  const edgecore_value &value = method.output(index);
  made.value = value;
  if (value.tag != EDGECORE_TAG_TENSOR) return {};
  const edgecore_dl_tensor &dl = value.as.tensor->dl;
  const TensorInfo &info = declared.tensor;
  Tensor &tensor = made.tensor;
  tensor.scalar_type = info.scalar_type;
  tensor.ndim = dl.ndim;
  const auto size = static_cast<Py_ssize_t>(item_size(info.scalar_type));
  std::memcpy(tensor.shape, dl.shape, static_cast<size_t>(dl.ndim) * sizeof *dl.shape);
  dense_strides(dl.ndim, tensor.shape, info.dim_order.data(), tensor.strides);
  for (int i = 0; i < dl.ndim; ++i) tensor.byte_strides[i] = tensor.strides[i] * size;

  void *wanted = made.direct ? made.out.data : tensor.data();
  if (made.object.is_valid()) {
    const Span<const int64_t> got(made.out.shape, static_cast<size_t>(made.out.ndim));
    const Span<const int64_t> is(tensor.shape, static_cast<size_t>(tensor.ndim));
    if (std::memcmp(got.data(), is.data(), is.size() * sizeof(int64_t)) != 0) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "Output ", index, " of method '", method.info().name(),
                  "' has the shape ", is, " for these inputs; got a buffer in out of shape ", got, ".");
    }
    wanted = made.out.data;
  }
  const uint64_t bytes = tensor.element_count() * static_cast<uint64_t>(size);
  const auto *data = static_cast<const uint8_t *>(dl.data) + dl.byte_offset;
  if (data != wanted && bytes != 0) std::memcpy(wanted, data, static_cast<size_t>(bytes));
  return {};
}

}  // namespace edgecore::python
