#include "edgecore/method.h"

#include <string.h>

#include "core/method_impl.h"
#include "edgecore/scalar_type.h"

namespace edgecore {
namespace {

Status build(MethodImpl &method, Error &error) {
  EDGECORE_TRY(method.build_arenas(error));
  EDGECORE_TRY(method.build_values(error));
  EDGECORE_TRY(method.build_instructions(error));
  EDGECORE_TRY(method.make_array(size_of(method.plan->inputs()), method.bindings.input_set, error));
  for (size_t i = 0; i < method.bindings.input_set.size(); ++i) {
    const uint32_t tag =
        method.bindings.values[static_cast<size_t>(method.plan->inputs()->Get(static_cast<uint32_t>(i)))].tag;
    // Input strings and lists count as set: export fixed their values in the program, and no call can set them.
    method.bindings.input_set[i] = tag == EDGECORE_TAG_NONE || tag >= EDGECORE_TAG_STRING;
  }
  EDGECORE_TRY(method.make_array(method.symbol_count(), method.bindings.symbols, error));
  EDGECORE_TRY(method.resolve_kernels(error));
  return method.load_delegates(error);
}

template <typename... Pieces>
Status bad_input(const MethodImpl &method, size_t index, Error &error, const Pieces &...pieces) {
  name_input(method, index, error);
  return extend(error, " ", pieces...);
}

// Returns the index in Bindings::values of an input. Fails if an argument of type `argument_tag` cannot be assigned to
// this input.
Result<size_t> input_value(const MethodImpl &method, size_t index, uint32_t argument_tag, Error &error) {
  EDGECORE_TRY(method.check_idle(error));
  const Span<const int32_t> inputs = span_of(method.plan->inputs());
  if (index >= inputs.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", method.name, "' takes ", inputs.size(),
                inputs.size() == 1 ? " input" : " inputs", "; there is no input ", index, ".");
  }
  const size_t value = static_cast<size_t>(inputs[index]);
  const uint32_t tag = method.bindings.declared[index].tag;
  const bool fits = tag == argument_tag ||
                    (argument_tag == EDGECORE_TAG_INT && (tag == EDGECORE_TAG_BOOL || tag == EDGECORE_TAG_DOUBLE));
  if (!fits) {
    return bad_input(method, index, error, "is ", tag_name(tag), ", but ", tag_name(argument_tag), " was given.");
  }
  return value;
}

// Returns true if `strides` describe a dense tensor in the dim order of `tensor`. Strides of dims of size 1 do not
// matter.
bool is_dense(const edgecore_tensor &tensor, Span<const int64_t> shape, Span<const int64_t> strides) {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    const uint8_t dim = tensor.dim_order[i];
    if (shape[dim] == 0) return true;
    if (shape[dim] != 1 && strides[dim] != expected) return false;
    expected *= shape[dim];
  }
  return true;
}

Status check_tensor(const MethodImpl &method, size_t index, const edgecore_tensor &tensor,
                    const TensorArgument &argument, Error &error) {
  if (argument.scalar_type != tensor.scalar_type) {
    return bad_input(method, index, error, "must be ", scalar_type_info(tensor.scalar_type).name, ", not ",
                     scalar_type_info(argument.scalar_type).name, ".");
  }
  EDGECORE_TRY(method.check_shape(index, tensor, argument.shape, error));
  if (argument.strides.empty()) return Status();
  if (argument.strides.size() != argument.shape.size() || !is_dense(tensor, argument.shape, argument.strides)) {
    return bad_input(method, index, error, "has shape ", argument.shape, " and strides ", argument.strides,
                     "; it must be dense in dim order ",
                     Span<const uint8_t>(tensor.dim_order, static_cast<size_t>(tensor.dl.ndim)),
                     " (outermost first): pass a contiguous copy.");
  }
  return Status();
}

Status set_scalar(MethodImpl &method, size_t index, const edgecore_value &argument, Error &error) {
  const Result<size_t> id = input_value(method, index, argument.tag, error);
  EDGECORE_TRY(id.status());
  edgecore_value value = argument;
  const edgecore_value &declared = method.bindings.declared[index];
  if (declared.tag == EDGECORE_TAG_DOUBLE && argument.tag == EDGECORE_TAG_INT) {
    value.as.d = static_cast<double>(argument.as.i);
  }
  if (declared.tag == EDGECORE_TAG_BOOL) {
    if (argument.as.i != 0 && argument.as.i != 1) {
      return bad_input(method, index, error, "is a bool, not ", argument.as.i, ".");
    }
    value.as.b = argument.as.i;
  }
  value.tag = declared.tag;
  // no instruction reads this input: export used its value as a constant
  if ((method.bindings.uses[*id] & kIsRead) == 0) {
    const bool same = value.tag == EDGECORE_TAG_DOUBLE ? memcmp(&value.as.d, &declared.as.d, sizeof(double)) == 0
                                                       : value.as.i == declared.as.i;
    if (!same) {
      if (value.tag == EDGECORE_TAG_DOUBLE) {
        return bad_input(method, index, error, "was fixed to another number when the model was exported.");
      }
      return bad_input(method, index, error, "was fixed to ", declared.as.i, " when the model was exported, not ",
                       value.as.i, ".");
    }
  }
  method.bindings.values[*id] = value;
  method.bindings.input_set[index] = 1;
  return Status();
}

// Returns the TensorSlot of a tensor input or output; NULL if the input or output is not a tensor, or if `index` is out
// of range.
const TensorSlot *slot_at(const MethodImpl &method, const flatbuffers::Vector<int32_t> *values, size_t index) {
  const auto list = span_of(values);
  return index < list.size() ? method.bindings.tensor_of[static_cast<size_t>(list[index])] : nullptr;
}

}  // namespace

Status MethodImpl::allocate_entries(size_t count, size_t size, size_t alignment, void *&out, Error &error) {
  size_t bytes;
  out = __builtin_mul_overflow(count, size, &bytes) ? nullptr : config.allocator->allocate(bytes, alignment);
  if (out == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "Method '", name, "': no memory for ", count,
                " internal entries of ", size, " bytes.");
  }
  memset(out, 0, bytes);
  return Status();
}

Result<Method *> Method::load(const Program &program, StringView name, const MethodConfig &config, Error &error) {
  if (config.allocator == nullptr) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method::load needs MethodConfig.allocator.");
  }
  const Result<size_t> index = program.find_method(name, error);
  EDGECORE_TRY(index.status());
  void *memory = config.allocator->allocate(sizeof(MethodImpl), alignof(MethodImpl));
  if (memory == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for the Method object of '", name, "'.");
  }
  MethodImpl *method = new (memory) MethodImpl(program, *index, config);
  if (method->config.instruction_limit == 0) method->config.instruction_limit = program.limits().instructions;
  method->plan = program.tables().root->execution_plan()->Get(static_cast<uint32_t>(*index));
  method->name = program.method(*index).name();
  method->meta = method_meta(program.tables(), *index);
  method->host = config.host == nullptr ? core_services() : *config.host;
  method->host.header.struct_size = sizeof(edgecore_host);
  if (config.tracer == nullptr) {
    method->host.event_begin = nullptr;
    method->host.event_end = nullptr;
    method->host.event_add = nullptr;
  }
  method->scope = {&program, method, config.context};
  const Status status = build(*method, error);
  if (!status.ok()) {
    method->destroy();
    return status;
  }
  return method;
}

void Method::destroy() { MethodImpl::of(this).destroy_delegates(); }

void Method::set_tracer(EventTracer *tracer) {
  MethodImpl &method = MethodImpl::of(this);
  const edgecore_host services = method.config.host == nullptr ? core_services() : *method.config.host;
  method.config.tracer = tracer;
  method.host.event_begin = tracer == nullptr ? nullptr : services.event_begin;
  method.host.event_end = tracer == nullptr ? nullptr : services.event_end;
  method.host.event_add = tracer == nullptr ? nullptr : services.event_add;
}

const Program &Method::program() const { return *MethodImpl::of(this).owner; }

MethodInfo Method::info() const { return program().method(MethodImpl::of(this).index); }

Status Method::set_input(size_t index, const TensorArgument &argument, Error &error) {
  MethodImpl &method = MethodImpl::of(this);
  const Result<size_t> value = input_value(method, index, EDGECORE_TAG_TENSOR, error);
  EDGECORE_TRY(value.status());
  TensorSlot &slot = *method.bindings.tensor_of[*value];
  edgecore_tensor &tensor = slot.tensor;
  EDGECORE_TRY(check_tensor(method, index, tensor, argument, error));
  uint64_t bytes = slot.element_size;
  for (const int64_t size : argument.shape) bytes *= static_cast<uint64_t>(size);
  if (argument.data == nullptr && bytes != 0) return bad_input(method, index, error, "has no data.");
  if (argument.readable_bytes != 0 && argument.readable_bytes < bytes) {
    return bad_input(method, index, error, "needs ", bytes, " bytes, ", argument.readable_bytes, " can be read.");
  }
  if (slot.storage == Storage::kConstant) return bad_input(method, index, error, "is a constant of the program.");
  if (slot.storage != Storage::kPlanned && reinterpret_cast<uintptr_t>(argument.data) % slot.element_size != 0) {
    return bad_input(method, index, error, "is not aligned to its element size of ", slot.element_size, " bytes.");
  }
  if (!argument.shape.empty()) memcpy(tensor.dl.shape, argument.shape.data(), argument.shape.size() * sizeof(int64_t));
  update_strides(tensor);
  if (slot.storage == Storage::kPlanned) {
    void *planned = base_data(slot);
    if (bytes != 0 && argument.data != planned) {
      memcpy(planned, argument.data, static_cast<size_t>(bytes));
    }
  } else {
    BaseStorage &base = *slot.base;
    base.data = argument.data;
    base.capacity = static_cast<size_t>(bytes);
    base.readable = static_cast<size_t>(argument.readable_bytes == 0 ? bytes : argument.readable_bytes);
    base.flags = argument.writable ? base.flags & ~EDGECORE_TENSOR_READ_ONLY : base.flags | EDGECORE_TENSOR_READ_ONLY;
  }
  method.bindings.input_set[index] = 1;
  method.bindings.symbols_unchecked = !method.bindings.symbols.empty();
  return Status();
}

Status Method::set_input(size_t index, int64_t value, Error &error) {
  edgecore_value argument = {EDGECORE_TAG_INT, 0, {}};
  argument.as.i = value;
  return set_scalar(MethodImpl::of(this), index, argument, error);
}

Status Method::set_input(size_t index, double value, Error &error) {
  edgecore_value argument = {EDGECORE_TAG_DOUBLE, 0, {}};
  argument.as.d = value;
  return set_scalar(MethodImpl::of(this), index, argument, error);
}

Status Method::set_input_none(size_t index, Error &error) {
  return input_value(MethodImpl::of(this), index, EDGECORE_TAG_NONE, error).status();
}

bool Method::input_is_copied(size_t index) const {
  const MethodImpl &method = MethodImpl::of(this);
  const TensorSlot *slot = slot_at(method, method.plan->inputs(), index);
  return slot == nullptr || slot->storage == Storage::kPlanned;
}

void *Method::planned_input(size_t index) {
  const MethodImpl &method = MethodImpl::of(this);
  const TensorSlot *slot = slot_at(method, method.plan->inputs(), index);
  const bool is_planned = slot != nullptr && slot->storage == Storage::kPlanned && !pending();
  return is_planned ? base_data(*slot) : nullptr;
}

bool Method::output_needs_memory(size_t index) const {
  const MethodImpl &method = MethodImpl::of(this);
  const TensorSlot *slot = slot_at(method, method.plan->outputs(), index);
  return slot != nullptr && slot->storage == Storage::kOutput;
}

Status Method::set_output(size_t index, void *data, uint64_t bytes, Error &error) {
  MethodImpl &method = MethodImpl::of(this);
  EDGECORE_TRY(method.check_idle(error));
  const Span<const int32_t> outputs = span_of(method.plan->outputs());
  if (index >= outputs.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", method.name, "' has ", outputs.size(),
                outputs.size() == 1 ? " output" : " outputs", "; there is no output ", index, ".");
  }
  if (!output_needs_memory(index)) {
    return fail(error, EDGECORE_INVALID_STATE, "Output ", index, " of method '", method.name,
                "' gets its memory from the program: do not call set_output for it.");
  }
  TensorSlot &slot = *method.bindings.tensor_of[static_cast<size_t>(outputs[index])];
  uint64_t needed = slot.element_size;
  for (int32_t i = 0; i < slot.tensor.dl.ndim; ++i) needed *= static_cast<uint64_t>(slot.tensor.max_shape[i]);
  if (data == nullptr || bytes < needed || reinterpret_cast<uintptr_t>(data) % slot.element_size != 0) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Output ", index, " of method '", method.name, "' needs ", needed,
                " bytes aligned to ", slot.element_size, "; ", data == nullptr ? 0 : bytes,
                " were given, or they are not aligned.");
  }
  slot.base->data = data;
  slot.base->capacity = static_cast<size_t>(bytes);
  slot.base->readable = static_cast<size_t>(bytes);
  return Status();
}

Status Method::execute(Error &error) {
  MethodImpl &method = MethodImpl::of(this);
  EDGECORE_TRY(method.check_idle(error));
  method.run_state.completion = nullptr;
  return method.start_run(error);
}

Status Method::start(Completion &completion, Error &error) {
  MethodImpl &method = MethodImpl::of(this);
  EDGECORE_TRY(method.check_idle(error));
  method.run_state.completion = &completion;
  return method.start_run(error);
}

Status Method::resume(Error &error) { return MethodImpl::of(this).resume_run(error); }

bool Method::pending() const { return MethodImpl::of(this).run_state.pending.waiting; }

Status Method::set_option(StringView backend_id, const edgecore_option &option, Error &error) {
  MethodImpl &method = MethodImpl::of(this);
  EDGECORE_TRY(method.check_idle(error));
  bool has_delegate = false;
  for (const DelegateState &state : method.delegates.slots) {
    const edgecore_backend &table = *state.backend->table;
    if (StringView(table.backend_id) != backend_id) continue;
    has_delegate = true;
    method.call_error.clear();
    const int32_t code = table.set_option == nullptr ? EDGECORE_NOT_SUPPORTED
                                                     : table.set_option(state.instance, &option, &method.call_error);
    if (code != EDGECORE_OK) {
      return fail(error, code, "Method '", method.name, "': backend '", backend_id, "' does not accept the option '",
                  option.name, "': ",
                  table.set_option == nullptr ? StringView("it has none that can be set after loading.")
                                              : method.call_error.sentence());
    }
  }
  if (has_delegate) return Status();
  return fail(error, EDGECORE_NOT_FOUND, "Method '", method.name, "' has no delegate of backend '", backend_id, "'.");
}

const edgecore_value &Method::output(size_t index) const {
  const MethodImpl &method = MethodImpl::of(this);
  return method.bindings.values[static_cast<size_t>(span_of(method.plan->outputs())[index])];
}

void Method::reset() {
  for (StateSlot *state = MethodImpl::of(this).bindings.states; state != nullptr; state = state->next) {
    if (state->bytes == 0 || state->shared != nullptr) continue;
    state->own.host_has_changed();
    if (state->initial == nullptr) {
      memset(state->data, 0, static_cast<size_t>(state->bytes));
    } else {
      memcpy(state->data, state->initial, static_cast<size_t>(state->bytes));
    }
  }
}

bool Method::shares_state() const {
  const MethodImpl &method = MethodImpl::of(this);
  bool shares = method.bindings.shares_state;
  for (const DelegateState &state : method.delegates.slots) {
    const StateSet *set = state.state_set;
    // all methods share a StateSet that has no method name, so methods that are loaded later may add tensors to it
    shares = shares || (set != nullptr && set->method.empty());
  }
  return shares;
}

uint64_t Method::planned_bytes() const { return MethodImpl::of(this).memory.planned; }
uint64_t Method::delegate_bytes() const { return MethodImpl::of(this).memory.delegates; }
uint64_t Method::staging_bytes() const { return MethodImpl::of(this).memory.staging; }

}  // namespace edgecore
