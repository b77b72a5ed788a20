// Runs a method's instructions.
#include "core/method_impl.h"

namespace edgecore {
namespace {

bool lacks_memory(const edgecore_tensor &tensor) { return tensor.dl.data == nullptr && element_count(tensor) != 0; }

void restore_base(TensorSlot &slot) {
  slot.tensor.dl.data = slot.base->data;
  slot.tensor.capacity = slot.base->capacity;
  slot.tensor.flags = slot.base->flags;
  slot.readable = slot.base->readable;
}

class Interpreter {
 public:
  Interpreter(MethodImpl &method, Error &error) : method_(method), error_(error) {
    call_.header = header_of<edgecore_call>();
    call_.host = &method.host;
    call_.scope = &method.scope;
    call_.args = method.run_state.args.data();
    call_.arg_stride = sizeof(edgecore_value);
    call_.reserved = 0;
    call_.error = &method.call_error;
  }

  Status start() {
    EDGECORE_TRY(check_ready());
    if (method_.config.devices != nullptr) EDGECORE_TRY(method_.config.devices->begin_run(method_, error_));
    for (TensorSlot *slot : method_.bindings.rebound) restore_base(*slot);
    for (const int32_t value : method_.bindings.moved) {
      method_.bindings.values[static_cast<size_t>(value)].as.tensor =
          &method_.bindings.tensor_of[static_cast<size_t>(value)]->tensor;
    }
    return run();
  }

  // Continues a run that waited for a delegate: ends the delegate call, then executes the following instructions.
  Status resume() {
    const PendingRun &pending = method_.run_state.pending;
    pc_ = pending.pc;
    steps_ = pending.steps;
    const Status status = method_.end_delegate_call(pc_, pending.code, error_);
    if (status.ok()) report_outputs(method_.instructions[pc_]);
    if (method_.config.tracer != nullptr) method_.config.tracer->end(pending.call_event);
    if (method_.config.scratch != nullptr) method_.config.scratch->reset();
    EDGECORE_TRY(status);
    ++pc_;
    return run();
  }

 private:
  Status run() {
    const size_t count = method_.instructions.size();
    while (pc_ < count) {
      EDGECORE_TRY(spend(1));
      const Instruction &instruction = method_.instructions[pc_];
      size_t next = pc_ + 1;
      Status status;
      switch (instruction.op) {
        case Op::kKernel:
          status = traced(EventKind::kKernel, instruction.target, [&] { return call_kernel(instruction); });
          break;
        case Op::kDelegate:
          status = traced(EventKind::kDelegate, instruction.target, [&] { return method_.call_delegate(pc_, error_); });
          if (status.ok()) report_outputs(instruction);
          break;
        case Op::kMove:
          method_.bindings.values[instruction.result] = method_.bindings.values[instruction.target];
          break;
        case Op::kJumpFalse:
          status = jump(instruction, &next);
          break;
        case Op::kFree:
          free(*method_.bindings.tensor_of[instruction.target]);
          break;
        case Op::kUpdateState:
          method_.config.devices->update_state(method_, *method_.bindings.tensor_of[instruction.result]);
          break;
      }
      if (method_.run_state.pending.waiting) {
        method_.run_state.pending.steps = steps_;
        return status;
      }
      if (method_.config.scratch != nullptr) method_.config.scratch->reset();
      if (!status.ok()) return status;
      pc_ = next;
    }
    const Span<const int32_t> outputs = span_of(method_.plan->outputs());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const size_t value = static_cast<size_t>(outputs[i]);
      EDGECORE_TRY(refresh_list(value));
      if (method_.bindings.values[value].tag == EDGECORE_TAG_TENSOR &&
          lacks_memory(*method_.bindings.values[value].as.tensor)) {
        return fail(error_, EDGECORE_INVALID_STATE, "Output ", i, " of method '", method_.name, "' (value ", value,
                    ") was moved from a tensor that has no memory.");
      }
      if (method_.config.values != nullptr) method_.config.values->output(method_.bindings.values[value]);
    }
    return Status();
  }

  // Passes the outputs of a finished delegate call to the listener MethodConfig::values, if there is one.
  void report_outputs(const Instruction &instruction) const {
    if (method_.config.values == nullptr) return;
    for (size_t i = 0; i < instruction.args.size(); ++i) {
      if (!instruction.call->staging[i].written) continue;
      method_.config.values->result(pc_, method_.bindings.values[static_cast<size_t>(instruction.args[i])]);
    }
  }

  // Counts executed instructions and the list entries that they read. Fails when the count exceeds instruction_limit,
  // because a file with an endless loop would otherwise block the caller forever.
  Status spend(uint64_t steps) {
    steps_ += steps;
    if (steps_ <= method_.config.instruction_limit) return Status();
    return fail(error_, EDGECORE_OUT_OF_RESOURCES, "Method '", method_.name, "' has not ended after ",
                method_.config.instruction_limit,
                " instructions and list entries, the limit instructions; raise it for longer programs.");
  }

  template <typename Work>
  Status traced(EventKind kind, uint32_t target, Work work) {
    EventTracer *tracer = method_.config.tracer;
    if (tracer == nullptr) return work();
    const StringView name = kind == EventKind::kKernel
                                ? method_.operator_name(target).name
                                : StringView(method_.delegates.slots[target].backend->table->backend_id);
    const uint64_t event = tracer->begin(kind, name, pc_, -1);
    const Status status = work();
    if (method_.run_state.pending.waiting) {
      method_.run_state.pending.call_event = event;
    } else {
      tracer->end(event);
    }
    return status;
  }

  Status check_ready() {
    for (size_t i = 0; i < method_.bindings.input_set.size(); ++i) {
      if (method_.bindings.input_set[i] != 0) continue;
      name_input(method_, i, error_);
      error_.code = EDGECORE_INVALID_STATE;
      return extend(error_, " was not set before this run.");
    }
    for (const DelegateState &delegate : method_.delegates.slots) {
      if (delegate.state_set != nullptr) EDGECORE_TRY(delegate.state_set->check(error_));
    }
    if (method_.bindings.symbols_unchecked) EDGECORE_TRY(method_.check_relations(error_));
    const Span<const int32_t> outputs = span_of(method_.plan->outputs());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const TensorSlot *slot = method_.bindings.tensor_of[static_cast<size_t>(outputs[i])];
      if (slot == nullptr || slot->storage != Storage::kOutput || slot->base->data != nullptr) continue;
      return fail(error_, EDGECORE_INVALID_STATE, "Output ", i, " of method '", method_.name,
                  "' has no memory yet: call set_output first.");
    }
    return Status();
  }

  void name_kernel(const Instruction &instruction, int32_t code) {
    const OperatorName op = method_.operator_name(instruction.target);
    (void)fail(error_, code, "Method '", method_.name, "', instruction ", pc_, ", operator ", op.name,
               op.overload.empty() ? "" : ".", op.overload, ": ");
  }

  template <typename... Pieces>
  Status kernel_failed(const Instruction &instruction, int32_t code, const Pieces &...pieces) {
    name_kernel(instruction, code);
    return extend(error_, pieces...);
  }

  // Copies the current values of a list's entries into the list.
  Status refresh_list(size_t value) {
    ListSlot *slot = method_.bindings.list_of[value];
    if (slot == nullptr) return Status();
    EDGECORE_TRY(spend(slot->int_values.size() + slot->tensor_values.size()));
    for (size_t i = 0; i < slot->int_values.size(); ++i) {
      const edgecore_value &entry = method_.bindings.values[static_cast<size_t>(slot->int_values[i])];
      if (entry.tag != EDGECORE_TAG_INT) {
        return fail(error_, EDGECORE_INVALID_TYPE, "Method '", method_.name, "', instruction ", pc_, ": entry ", i,
                    " of the integer list in value ", value, " is ", tag_name(entry.tag), ".");
      }
      slot->ints[i] = entry.as.i;
    }
    for (size_t i = 0; i < slot->tensor_values.size(); ++i) {
      const int32_t entry = slot->tensor_values[i];
      slot->tensors[i] = entry < 0 ? nullptr : method_.bindings.values[static_cast<size_t>(entry)].as.tensor;
    }
    return Status();
  }

  Status fill_arguments(const Instruction &instruction) {
    const size_t count = method_.run_state.arg_count = instruction.args.size();
    for (size_t i = 0; i < count; ++i) {
      const size_t value = static_cast<size_t>(instruction.args[i]);
      if (method_.bindings.list_of[value] != nullptr) EDGECORE_TRY(refresh_list(value));
      method_.run_state.args[i] = method_.bindings.values[value];
    }
    EDGECORE_TRY(instruction.is_view ? bind_view(instruction) : check_result(instruction));
    for (size_t i = 0; i < count; ++i) {
      const edgecore_value &arg = method_.run_state.args[i];
      bool lacks = arg.tag == EDGECORE_TAG_TENSOR && lacks_memory(*arg.as.tensor);
      for (uint64_t j = 0; arg.tag == EDGECORE_TAG_TENSOR_LIST && j < arg.as.list->count; ++j) {
        const edgecore_tensor *tensor = arg.as.list->items.tensors[j];
        lacks = lacks || (tensor != nullptr && lacks_memory(*tensor));
      }
      if (lacks) {
        return kernel_failed(instruction, EDGECORE_INVALID_STATE, "argument ", i, " (value ", instruction.args[i],
                             ") has no memory: the file plans none, and no earlier instruction binds it.");
      }
    }
    return Status();
  }

  // Checks that the result of a kernel call is writable. In the file, the result is the call's last argument. This
  // check is needed although resize() refuses read-only tensors, because a kernel of another package may fail to call
  // resize().
  Status check_result(const Instruction &instruction) {
    const ListSlot *list = method_.bindings.list_of[instruction.result];
    const edgecore_value &value = method_.bindings.values[instruction.result];
    bool writable = value.tag != EDGECORE_TAG_TENSOR || (value.as.tensor->flags & EDGECORE_TENSOR_READ_ONLY) == 0;
    for (size_t i = 0; list != nullptr && i < list->tensor_values.size(); ++i) {
      const int32_t entry = list->tensor_values[i];
      if (entry < 0) continue;
      const edgecore_tensor *tensor = method_.bindings.values[static_cast<size_t>(entry)].as.tensor;
      writable = writable && (tensor->flags & EDGECORE_TENSOR_READ_ONLY) == 0;
    }
    if (writable) return Status();
    return kernel_failed(instruction, EDGECORE_INVALID_ARGUMENT, "its result, value ", instruction.result,
                         ", is a constant or a read-only input.");
  }

  // Binds a view to the memory of its base tensor: copies data, capacity and readable bytes, and saves the base's
  // flags.
  Status bind_view(const Instruction &instruction) {
    if (instruction.args.size() != 3 || method_.run_state.args[0].tag != EDGECORE_TAG_TENSOR ||
        method_.run_state.args[2].tag != EDGECORE_TAG_TENSOR) {
      return kernel_failed(instruction, EDGECORE_INVALID_PROGRAM,
                           "a view needs a tensor, a shape and an output tensor.");
    }
    const TensorSlot &base = slot_of(method_.run_state.args[0].as.tensor);
    TensorSlot &view = slot_of(method_.run_state.args[2].as.tensor);
    // Refuse an input as the view: et_view would change the input's shape. In the next run the input has the caller's
    // memory again but keeps the changed shape, which may not fit into that memory.
    if (view.storage == Storage::kInput) {
      return kernel_failed(instruction, EDGECORE_INVALID_PROGRAM, "an input cannot be made a view.");
    }
    if (base.element_size != view.element_size) {
      return kernel_failed(instruction, EDGECORE_INVALID_PROGRAM, "the view has ", view.element_size,
                           " bytes per element, its base ", base.element_size, ".");
    }
    if ((view.base->flags & EDGECORE_TENSOR_RESIZABLE) == 0 && current_bytes(view) > base.tensor.capacity) {
      return kernel_failed(instruction, EDGECORE_INVALID_PROGRAM, "the view has ", current_bytes(view),
                           " bytes, its base ", base.tensor.capacity, ".");
    }
    // A resizable view may still have its shape from the last run. If this shape is too large for the base's memory,
    // set all sizes to 0.
    if (current_bytes(view) > base.tensor.capacity) {
      for (int32_t i = 0; i < view.tensor.dl.ndim; ++i) view.tensor.dl.shape[i] = 0;
      update_strides(view.tensor);
    }
    view.tensor.dl.data = base.tensor.dl.data;
    view.tensor.capacity = base.tensor.capacity;
    view.readable = base.readable;
    constexpr uint32_t kInherited = EDGECORE_TENSOR_READ_ONLY | EDGECORE_TENSOR_CONSTANT;
    // Clear the inherited flags, and let call_kernel add them after the kernel's call: the kernel resizes the view, and
    // resize would refuse a read-only view, although a new shape of the view writes nothing to the base.
    view.tensor.flags = view.base->flags & ~kInherited;
    inherited_ = base.tensor.flags & kInherited;
    return Status();
  }

  Status call_kernel(const Instruction &instruction) {
    EDGECORE_TRY(fill_arguments(instruction));
    const size_t count = instruction.args.size();
    call_.arg_count = count;
    method_.call_error.clear();
    const int32_t code = method_.kernels[instruction.target].run(&call_);
    if (code != EDGECORE_OK) return kernel_failed(instruction, code, method_.call_error.sentence());
    if (instruction.is_view) method_.run_state.args[count - 1].as.tensor->flags |= inherited_;
    const size_t last = static_cast<size_t>(instruction.args[count - 1]);
    if (method_.bindings.tensor_of[last] == nullptr && method_.bindings.list_of[last] == nullptr &&
        method_.run_state.args[count - 1].tag <= EDGECORE_TAG_BOOL) {
      method_.bindings.values[last] = method_.run_state.args[count - 1];
    }
    if (method_.config.values != nullptr) {
      const size_t result = instruction.result;
      if (method_.bindings.list_of[result] != nullptr) EDGECORE_TRY(refresh_list(result));
      method_.config.values->result(pc_, method_.bindings.values[result]);
    }
    return Status();
  }

  Status jump(const Instruction &instruction, size_t *next) {
    const edgecore_value &condition = method_.bindings.values[instruction.target];
    bool holds = true;
    if (condition.tag == EDGECORE_TAG_BOOL) {
      holds = condition.as.b != 0;
    } else if (condition.tag == EDGECORE_TAG_TENSOR && condition.as.tensor->dl.dtype.code == EDGECORE_DL_BOOL &&
               !lacks_memory(*condition.as.tensor)) {
      const uint8_t *flags = static_cast<const uint8_t *>(condition.as.tensor->dl.data);
      const uint64_t count = element_count(*condition.as.tensor);
      for (uint64_t i = 0; i < count && holds; ++i) holds = flags[i] != 0;
    } else {
      return fail(error_, EDGECORE_INVALID_TYPE, "Method '", method_.name, "', instruction ", pc_, ": condition ",
                  instruction.target, " is ", tag_name(condition.tag), ", not a bool or a bool tensor with memory.");
    }
    if (!holds) *next = instruction.jump_target;
    return Status();
  }

  // If a tensor is a view, unbinds the tensor from its base's memory. Any other tensor keeps its memory, which belongs
  // to an arena, the file or the caller.
  static void free(TensorSlot &slot) {
    if (slot.storage == Storage::kView) restore_base(slot);
  }

  MethodImpl &method_;
  Error &error_;
  edgecore_call call_;
  size_t pc_ = 0;
  uint64_t steps_ = 0;
  uint32_t inherited_ = 0;  // flags READ_ONLY and CONSTANT of the base; call_kernel adds them to the view
};

}  // namespace

Status MethodImpl::check_idle(Error &error) const {
  if (!run_state.pending.waiting) return Status();
  return fail(error, EDGECORE_INVALID_STATE, "Method '", name,
              "' has a pending run: it must end (resume) before anything else is done with the method.");
}

Status MethodImpl::start_run(Error &error) {
  run_state.pending.run_event = config.tracer == nullptr ? 0 : config.tracer->begin(EventKind::kExecute, name, 0, -1);
  return finish_run(Interpreter(*this, error).start());
}

Status MethodImpl::resume_run(Error &error) {
  if (!run_state.pending.waiting) {
    return fail(error, EDGECORE_INVALID_STATE, "Method '", name, "' has no pending run that could be resumed.");
  }
  if (__atomic_load_n(&run_state.pending.fired, __ATOMIC_ACQUIRE) == 0) return Status(EDGECORE_PENDING);
  run_state.pending.waiting = false;
  return finish_run(Interpreter(*this, error).resume());
}

Status MethodImpl::finish_run(Status status) {
  if (run_state.pending.waiting) return status;
  if (config.tracer != nullptr) config.tracer->end(run_state.pending.run_event);
  // Inputs in an arena must be set again before the next run, because this run may have written other tensors over
  // these inputs.
  const Span<const int32_t> inputs = span_of(plan->inputs());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorSlot *slot = bindings.tensor_of[static_cast<size_t>(inputs[i])];
    if (slot != nullptr && slot->storage == Storage::kPlanned) bindings.input_set[i] = 0;
  }
  return status;
}

}  // namespace edgecore
