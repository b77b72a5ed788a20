#include "edgecore/kernel_call.h"

#include <deque>
#include <string>

#include "edgecore/host.h"
#include "host/heap.h"
#include "host/tensor_copy.h"

namespace edgecore {
namespace {

// A C++ Tensor together with its C description for kernels, an edgecore_tensor.
struct CTensor {
  edgecore_tensor c = {};
  Tensor tensor;
  std::vector<int64_t> shape, strides;
  std::vector<uint8_t> order;

  void update() {
    shape = tensor.shape();
    strides = tensor.strides();
    order = tensor.dim_order();
    const ScalarTypeInfo type = scalar_type_info(tensor.scalar_type());
    c.header = header_of<edgecore_tensor>();
    c.flags =
        (tensor.read_only() ? EDGECORE_TENSOR_READ_ONLY : 0) | (tensor.resizable() ? EDGECORE_TENSOR_RESIZABLE : 0);
    c.scalar_type = tensor.scalar_type();
    c.dl = {tensor.data(), EDGECORE_DEVICE_CPU, 0, static_cast<int32_t>(shape.size()), {type.dl_code, type.dl_bits, 1},
            shape.data(),  strides.data(),      0};
    c.dim_order = order.data();
    c.max_shape = shape.data();
    c.capacity = tensor.bytes();
  }
};

// A tensor, or a list of tensors, that a kernel receives as an argument. A list entry without a tensor is NULL.
struct Argument {
  CTensor *tensor = nullptr;
  std::vector<CTensor *> list;
};

struct Call {
  std::deque<CTensor> tensors;
  std::deque<edgecore_list> lists;
  std::deque<std::vector<edgecore_tensor *>> tensor_lists;
  std::deque<std::vector<uint8_t>> bool_lists;
  HeapScratch scratch;

  CTensor *add(const Tensor &tensor) {
    CTensor &added = tensors.emplace_back();
    added.tensor = tensor;
    added.update();
    return &added;
  }

  const edgecore_list *add_list(const Value &value, Argument &argument) {
    edgecore_list &list = lists.emplace_back();
    if (value.string() != nullptr) {
      list.items.chars = value.string()->data();
      list.count = value.string()->size();
    } else if (value.ints() != nullptr) {
      list.items.ints = value.ints()->data();
      list.count = value.ints()->size();
    } else if (value.doubles() != nullptr) {
      list.items.doubles = value.doubles()->data();
      list.count = value.doubles()->size();
    } else if (value.bools() != nullptr) {
      const std::vector<uint8_t> &bools = bool_lists.emplace_back(value.bools()->begin(), value.bools()->end());
      list.items.bools = bools.data();
      list.count = bools.size();
    } else {
      std::vector<edgecore_tensor *> &items = tensor_lists.emplace_back();
      for (const Tensor &tensor : *value.tensors()) {
        argument.list.push_back(tensor.empty() ? nullptr : add(tensor));
        items.push_back(tensor.empty() ? nullptr : &argument.list.back()->c);
      }
      list.items.tensors = items.data();
      list.count = items.size();
    }
    return &list;
  }
};

Call &call_of(edgecore_scope *scope) { return *static_cast<Call *>(scope->context); }

void *EDGECORE_CALL scratch(edgecore_scope *scope, uint64_t size, uint64_t alignment) {
  if (size > SIZE_MAX || alignment > SIZE_MAX) return nullptr;
  return call_of(scope).scratch.allocate(static_cast<size_t>(size),
                                         alignment == 0 ? 1 : static_cast<size_t>(alignment));
}

int32_t EDGECORE_CALL named_data(edgecore_scope *, edgecore_str key, edgecore_bytes *, edgecore_error *error) {
  Error ignored;
  return fail(error == nullptr ? ignored : *error, EDGECORE_NOT_FOUND, "call_kernel has no data '", key, "'.").code();
}

int32_t EDGECORE_CALL resize(edgecore_scope *scope, edgecore_tensor *tensor, const int64_t *shape, int32_t ndim,
                             edgecore_error *error) {
  Error ignored;
  Error &reason = error == nullptr ? ignored : *error;
  for (CTensor &known : call_of(scope).tensors) {
    if (&known.c != tensor) continue;
    const std::vector<int64_t> wanted(shape, shape + (ndim < 0 ? 0 : ndim));
    if (known.tensor.read_only()) {
      return fail(reason, EDGECORE_INVALID_ARGUMENT, "A read-only tensor may not be written.").code();
    }
    if (wanted == known.shape) return EDGECORE_OK;
    const Status status = known.tensor.resize(wanted, reason);
    known.update();
    return status.code();
  }
  return fail(reason, EDGECORE_INVALID_ARGUMENT, "resize was called for a tensor that is no argument.").code();
}

const edgecore_host *host_of_calls() {
  static const edgecore_host table = [] {
    edgecore_host host = core_services();
    host.scratch = scratch;
    host.named_data = named_data;
    host.resize = resize;
    host.event_begin = nullptr;
    host.event_end = nullptr;
    return host;
  }();
  return &table;
}

const edgecore_kernel *find(const edgecore_kernel_library &library, StringView op) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(library.kernels);
  for (uint64_t i = 0; i < library.kernel_count; ++i, bytes += library.kernel_stride) {
    const auto *kernel = reinterpret_cast<const edgecore_kernel *>(bytes);
    std::string name(kernel->name.data, static_cast<size_t>(kernel->name.size));
    if (kernel->overload.size != 0) {
      name += "." + std::string(kernel->overload.data, static_cast<size_t>(kernel->overload.size));
    }
    if (op == StringView(name.data(), name.size())) return kernel;
  }
  return nullptr;
}

// Refuses a tensor whose check() fails. In a list, refuses only failed tensors: Tensor() stands for a missing entry.
Status check_tensors(const Value &arg, Error &error) {
  if (arg.is_tensor()) return arg.tensor().check(error);
  if (arg.tensors() == nullptr) return {};
  for (const Tensor &tensor : *arg.tensors()) {
    if (tensor.is_failed()) return tensor.check(error);
  }
  return {};
}

// Returns the value that an argument has after the kernel's call.
Value result_of(const Argument &argument, const edgecore_value &value, const Value &before) {
  if (argument.tensor != nullptr) return argument.tensor->tensor;
  if (before.tensors() != nullptr) {
    std::vector<Tensor> tensors;
    for (const CTensor *tensor : argument.list) tensors.push_back(tensor == nullptr ? Tensor() : tensor->tensor);
    return tensors;
  }
  return before.tag() < EDGECORE_TAG_TENSOR ? Value::copy_of(value) : before;
}

}  // namespace

Status call_kernel(const edgecore_kernel_library &library, StringView op, std::vector<Value> &args, Error &error) {
  const edgecore_kernel *kernel = find(library, op);
  if (kernel == nullptr) {
    return fail(error, EDGECORE_NOT_FOUND, "Package '", library.package, "' has no kernel ", op, ".");
  }
  Call call;
  std::vector<edgecore_value> values;
  std::vector<Argument> passed(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const Value &arg = args[i];
    edgecore_value &value = values.emplace_back();
    value = {arg.tag(), 0, {}};
    if (arg.is_int()) value.as.i = *arg.to_int(error);
    if (arg.is_double()) value.as.d = *arg.to_double(error);
    if (arg.is_bool()) value.as.b = *arg.to_bool(error) ? 1 : 0;
    if (!check_tensors(arg, error).ok()) {
      const Error reason = error;
      return fail(error, EDGECORE_INVALID_ARGUMENT, "Argument ", i, " of ", op, ": ", reason.sentence());
    }
    if (arg.is_tensor()) {
      passed[i].tensor = call.add(arg.tensor());
      value.as.tensor = &passed[i].tensor->c;
    }
    if (arg.tag() >= EDGECORE_TAG_STRING) value.as.list = call.add_list(arg, passed[i]);
  }
  edgecore_scope scope;
  scope.context = &call;
  error.clear();
  const edgecore_call arguments = {header_of<edgecore_call>(),
                                   host_of_calls(),
                                   &scope,
                                   values.data(),
                                   values.size(),
                                   sizeof(edgecore_value),
                                   0,
                                   &error};
  const int32_t code = kernel->run(&arguments);
  if (code != EDGECORE_OK) return Status(code);
  for (size_t i = 0; i < args.size(); ++i) args[i] = result_of(passed[i], values[i], args[i]);
  return {};
}

}  // namespace edgecore
