// Copies arguments of a delegate call that do not meet the delegate's buffer requirements, before and after execute.
#include <string.h>

#include "core/method_impl.h"

namespace edgecore {
namespace {

// Copies the bytes of an argument at its current shape, and records the copy as a trace event, so that a profile shows
// the cost of staging.
void traced_copy(const MethodImpl &method, const DelegateArgument &argument, void *to, const void *from) {
  EventTracer *tracer = method.config.tracer;
  const uint64_t event =
      tracer == nullptr ? 0 : tracer->begin(EventKind::kCopy, argument.backend.table->backend_id, argument.pc, -1);
  memcpy(to, from, static_cast<size_t>(current_bytes(argument.slot)));
  if (tracer != nullptr) tracer->end(event);
}

bool meets(const TensorSlot &slot, const edgecore_buffer_requirement &need) {
  const uint64_t bytes = current_bytes(slot);
  const uint64_t readable = (bytes + need.granule - 1) / need.granule * need.granule + need.tail_padding;
  const uintptr_t address = reinterpret_cast<uintptr_t>(slot.tensor.dl.data);
  return bytes == 0 || (address % need.alignment == 0 && slot.readable >= readable);
}

// Returns true if the copy of an argument must begin with the argument's current content. This holds for an input, and
// for an output that is also another argument or a mutable buffer, because the delegate may overwrite only a part of
// such an output.
bool is_read(const DelegateArgument &argument) {
  return !argument.staging.written || argument.staging.repeated ||
         (argument.slot.tensor.flags & EDGECORE_TENSOR_STATE) != 0;
}

// For one delegate call, replaces the data of an argument by a copy that meets the backend's buffer requirement.
Status copy_in(MethodImpl &method, const DelegateArgument &argument, Error &error) {
  Staging &staging = argument.staging;
  edgecore_tensor &tensor = argument.slot.tensor;
  const uint64_t max_bytes = padded_bytes(argument.slot, staging.requirement);
  if (staging.capacity < max_bytes) {
    const uint64_t required = staging.requirement.alignment;
    const uint64_t alignment = required > kMinAlignment ? required : kMinAlignment;
    staging.buffer = method.config.allocator->allocate(static_cast<size_t>(max_bytes), static_cast<size_t>(alignment));
    staging.capacity = staging.buffer == nullptr ? 0 : max_bytes;
    if (staging.buffer == nullptr) {
      return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "Method '", method.name, "': no memory for a copy of ",
                  max_bytes, " bytes for a backend's buffer requirement.");
    }
    memset(staging.buffer, 0, static_cast<size_t>(max_bytes));
    method.memory.staging += max_bytes;
  }
  if (is_read(argument)) traced_copy(method, argument, staging.buffer, tensor.dl.data);
  staging.original = tensor.dl.data;
  tensor.dl.data = staging.buffer;
  return Status();
}

}  // namespace

uint64_t padded_bytes(const TensorSlot &slot, const edgecore_buffer_requirement &requirement) {
  uint64_t bytes = slot.element_size;
  for (int32_t i = 0; i < slot.tensor.dl.ndim; ++i) bytes *= static_cast<uint64_t>(slot.tensor.max_shape[i]);
  return bytes + requirement.granule + requirement.tail_padding;
}

Status MethodImpl::stage_in(size_t pc, Error &error) {
  const Instruction &instruction = instructions[pc];
  const LoadedBackend &backend = *delegates.slots[instruction.target].backend;
  for (size_t i = 0; i < instruction.args.size(); ++i) {
    if (run_state.args[i].tag != EDGECORE_TAG_TENSOR) continue;
    const DelegateArgument argument = {backend, pc, instruction.call->staging[i], slot_of(run_state.args[i].as.tensor)};
    const edgecore_tensor &tensor = argument.slot.tensor;
    // the tensor is already in device memory, perhaps because it is also an earlier argument of the call
    if (tensor.buffer != nullptr) continue;
    if (tensor.dl.data == nullptr && current_bytes(argument.slot) != 0) {
      return fail(error, EDGECORE_INVALID_STATE, "Method '", name, "', instruction ", pc, ", backend '",
                  backend.table->backend_id, "': argument ", i, " (value ", instruction.args[i], ") has no memory.");
    }
    if (argument.staging.requirement.memory_kind != 0) {
      EDGECORE_TRY(config.devices->stage_in(*this, argument, is_read(argument), error));
    } else if (!meets(argument.slot, argument.staging.requirement)) {
      EDGECORE_TRY(copy_in(*this, argument, error));
    }
  }
  return Status();
}

Status MethodImpl::stage_out(size_t pc, bool copy, Error &error) {
  const Instruction &instruction = instructions[pc];
  const LoadedBackend &backend = *delegates.slots[instruction.target].backend;
  Status status;
  // Restore in reverse order: for a tensor that is passed twice, stage_in saved the tensor's own data pointer at the
  // first argument, so this pointer must be restored last.
  for (size_t i = instruction.args.size(); i-- > 0;) {
    Staging &staging = instruction.call->staging[i];
    if (run_state.args[i].tag != EDGECORE_TAG_TENSOR || staging.original == nullptr) continue;
    const DelegateArgument argument = {backend, pc, staging, slot_of(run_state.args[i].as.tensor)};
    edgecore_tensor &tensor = argument.slot.tensor;
    tensor.dl.data = staging.original;
    staging.original = nullptr;
    if (staging.requirement.memory_kind != 0) {
      const Status copied = config.devices->stage_out(*this, argument, copy && staging.written, error);
      if (status.ok()) status = copied;
    } else if (copy && staging.written) {
      traced_copy(*this, argument, tensor.dl.data, staging.buffer);
    }
  }
  return status;
}

}  // namespace edgecore
