// Implements the members of class Module that run methods.
#include <utility>

#include "host/module_state.h"
#include "host/tensor_copy.h"

namespace edgecore {
namespace {

Status set_tensor(Method &method, size_t index, const Tensor &tensor, Error &error) {
  if (!tensor.check(error).ok()) {
    const Error reason = error;
    name_input(method.info(), index, error);
    return extend(error, " is an empty tensor: ", reason.sentence());
  }
  TensorArgument argument;
  argument.data = tensor.data();
  argument.scalar_type = tensor.scalar_type();
  argument.shape = span_of(tensor.shape());
  argument.strides = span_of(tensor.strides());
  argument.readable_bytes = tensor.readable_bytes();
  argument.writable = !tensor.read_only();
  return method.set_input(index, argument, error);
}

Status set_value(Method &method, size_t index, const Value &value, Error &error) {
  switch (value.tag()) {
    case EDGECORE_TAG_NONE:
      return method.set_input_none(index, error);
    case EDGECORE_TAG_INT:
      return method.set_input(index, *value.to_int(error), error);
    case EDGECORE_TAG_DOUBLE:
      return method.set_input(index, *value.to_double(error), error);
    case EDGECORE_TAG_BOOL:
      return method.set_input(index, int64_t{*value.to_bool(error)}, error);
    case EDGECORE_TAG_TENSOR:
      return set_tensor(method, index, value.tensor(), error);
    default:
      name_input(method.info(), index, error);
      return extend(error, " was given ", Value::kind_name(value.tag()),
                    ": a program keeps strings and lists as constants, so it takes none.");
  }
}

// Returns true if a method can write an output directly to the memory of `tensor`, which has the declared layout.
bool fits(const TensorInfo &info, const Tensor &tensor) {
  const std::vector<int64_t> shape(info.sizes.begin(), info.sizes.end());
  const std::vector<uint8_t> order(info.dim_order.begin(), info.dim_order.end());
  return tensor.shape() == shape && has_strides(shape, tensor.strides(), strides_in_order(shape, order));
}

// Copies an output to `tensor`, which belongs to the application, unless the method has written the output there
// directly.
Status receive(const edgecore_tensor &value, Tensor &tensor, Error &error) {
  const std::vector<int64_t> shape(value.dl.shape, value.dl.shape + value.dl.ndim);
  if (shape != tensor.shape()) EDGECORE_TRY(tensor.resize(shape, error));
  if (static_cast<uint8_t *>(value.dl.data) + value.dl.byte_offset == tensor.data()) return {};
  return tensor.copy_from(copy_of(value), error);
}

}  // namespace

Result<size_t> Module::ready_method(StringView name, Error &error) {
  const Result<size_t> index = find_method(name, error);
  EDGECORE_TRY(index.status());
  if (!is_loaded(*index)) EDGECORE_TRY(load_at(*index, {}, error));
  return index;
}

Status Module::give_output_memory(size_t method, size_t output, Error &error) {
  OpenMethod &open = *state_->methods[method];
  if (!open.method->output_needs_memory(output)) return {};
  const MethodInfo info = open.method->info();
  const uint64_t bytes = info.output(output).tensor.bytes;
  HeapBlock &block = open.output_memory[output];
  if (block == nullptr && bytes <= SIZE_MAX - kArenaTail) {
    block = heap_block(static_cast<size_t>(bytes) + kArenaTail, kArenaAlignment);
  }
  if (block == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for the ", bytes, " bytes of output ", output,
                " of method ", info.name(), ".");
  }
  return open.method->set_output(output, block.get(), bytes, error);
}

Status Module::allocate_outputs(size_t method, Error &error) {
  for (size_t i = 0; i < methods_[method]->info().output_count(); ++i) {
    EDGECORE_TRY(give_output_memory(method, i, error));
  }
  return {};
}

Status Module::run(StringView name, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs, Error &error) {
  const Result<size_t> index = find_method(name, error);
  EDGECORE_TRY(index.status());
  if (!is_loaded(*index)) {
    return fail(error, EDGECORE_INVALID_STATE, "Method '", name,
                "' is not loaded: call load_methods or load_method first.");
  }
  Method &target = *methods_[*index];
  const MethodInfo info = target.info();
  size_t used = 0;  // number of tensors in `inputs` that have already been assigned to inputs
  for (size_t i = 0; i < info.input_count(); ++i) {
    const uint32_t tag = info.input(i).tag;
    if (tag == EDGECORE_TAG_NONE) EDGECORE_TRY(target.set_input_none(i, error));
    if (tag != EDGECORE_TAG_TENSOR) continue;
    if (used == inputs.size()) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "Input ", i, " of method '", name, "' is missing.");
    }
    EDGECORE_TRY(set_tensor(target, i, inputs[used++], error));
  }
  if (used != inputs.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", name, "' takes ", used, " tensors; got ", inputs.size(),
                ".");
  }
  EDGECORE_TRY(allocate_outputs(*index, error));
  EDGECORE_TRY(target.execute(error));
  outputs.clear();
  for (size_t i = 0; i < info.output_count(); ++i) {
    const edgecore_value &value = target.output(i);
    if (value.tag == EDGECORE_TAG_TENSOR) outputs.push_back(copy_of(*value.as.tensor));
  }
  return {};
}

Status Module::execute(StringView name, const std::vector<Value> &inputs, std::vector<Value> &outputs, Error &error) {
  const Result<size_t> index = ready_method(name, error);
  EDGECORE_TRY(index.status());
  OpenMethod &open = *state_->methods[*index];
  const MethodInfo info = open.method->info();
  if (inputs.size() > info.input_count()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", name, "' takes ", info.input_count(),
                info.input_count() == 1 ? " input; got " : " inputs; got ", inputs.size(), ".");
  }
  std::vector<Value> values = open.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_none()) values[i] = inputs[i];
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t tag = info.input(i).tag;
    if (values[i].is_none() && (tag == EDGECORE_TAG_NONE || tag >= EDGECORE_TAG_STRING)) continue;
    if (values[i].is_none()) {
      name_input(info, i, error);
      return extend(error, " has no value: pass it, or call set_input.");
    }
    EDGECORE_TRY(set_value(*open.method, i, values[i], error));
    open.last_inputs[i] = std::move(values[i]);  // keep this input's memory alive even if a later input is refused
  }
  for (size_t i = 0; i < open.outputs.size(); ++i) {
    Tensor &tensor = open.outputs[i];
    if (!tensor.empty() && open.method->output_needs_memory(i) && fits(info.output(i).tensor, tensor)) {
      EDGECORE_TRY(open.method->set_output(i, tensor.data(), tensor.bytes(), error));
    } else {
      EDGECORE_TRY(give_output_memory(*index, i, error));
    }
  }
  EDGECORE_TRY(open.method->execute(error));
  outputs.clear();
  for (size_t i = 0; i < open.outputs.size(); ++i) {
    const edgecore_value &value = open.method->output(i);
    Tensor tensor = open.outputs[i];
    if (tensor.empty()) {
      outputs.push_back(Value::copy_of(value));
      continue;
    }
    EDGECORE_TRY(receive(*value.as.tensor, tensor, error));
    outputs.emplace_back(std::move(tensor));
  }
  return {};
}

Status Module::set_input(StringView name, size_t index, Value value, Error &error) {
  const Result<size_t> method = ready_method(name, error);
  EDGECORE_TRY(method.status());
  std::vector<Value> &inputs = state_->methods[*method]->inputs;
  if (index >= inputs.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", name, "' takes ", inputs.size(),
                inputs.size() == 1 ? " input" : " inputs", "; there is no input ", index, ".");
  }
  inputs[index] = std::move(value);
  return {};
}

Status Module::set_inputs(StringView name, std::vector<Value> values, Error &error) {
  const Result<size_t> method = ready_method(name, error);
  EDGECORE_TRY(method.status());
  std::vector<Value> &inputs = state_->methods[*method]->inputs;
  if (values.size() != inputs.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", name, "' takes ", inputs.size(),
                inputs.size() == 1 ? " input; got " : " inputs; got ", values.size(), ".");
  }
  inputs = std::move(values);
  return {};
}

Status Module::set_output(StringView name, size_t index, Tensor tensor, Error &error) {
  const Result<size_t> method = ready_method(name, error);
  EDGECORE_TRY(method.status());
  OpenMethod &open = *state_->methods[*method];
  const MethodInfo info = open.method->info();
  if (index >= info.output_count()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", name, "' has ", info.output_count(),
                info.output_count() == 1 ? " output" : " outputs", "; there is no output ", index, ".");
  }
  if (tensor.is_failed()) return tensor.check(error);
  const ValueInfo output = info.output(index);
  if (!tensor.empty()) {
    if (output.tag != EDGECORE_TAG_TENSOR) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "Output ", index, " of method '", name, "' is ",
                  Value::kind_name(output.tag), ", not a tensor.");
    }
    if (tensor.scalar_type() != output.tensor.scalar_type || tensor.shape().size() != output.tensor.sizes.size()) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "Output ", index, " of method '", name, "' is ",
                  scalar_type_info(output.tensor.scalar_type).name, " of shape ", output.tensor.sizes,
                  "; the tensor is ", scalar_type_info(tensor.scalar_type()).name, " of shape ",
                  span_of(tensor.shape()), ".");
    }
    if (tensor.bytes() < output.tensor.bytes || tensor.read_only()) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "Output ", index, " of method '", name, "' needs ",
                  output.tensor.bytes, " bytes; the tensor ", tensor.read_only() ? "is read-only and " : "", "has ",
                  tensor.bytes(), ".");
    }
  }
  open.outputs[index] = std::move(tensor);
  return {};
}

}  // namespace edgecore
