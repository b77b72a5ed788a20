// Keeps arguments of delegates in device memory: the values themselves, or copies of values that the host also uses.
#include <string.h>

#include "core/device_uses.h"

namespace edgecore {
namespace {

// Copies bytes between host memory and a device buffer. Returns the backend's status code, and sets `error` to its
// message.
int32_t transfer(const edgecore_backend &table, edgecore_buffer *buffer, void *host, uint64_t bytes, bool to_device,
                 Error &error) {
  void *mapped = nullptr;
  int32_t code = EDGECORE_OK;
  if (!to_device && table.buffer_invalidate != nullptr) code = table.buffer_invalidate(buffer, &error);
  if (code == EDGECORE_OK) code = table.buffer_map(buffer, 0, bytes, &mapped, &error);
  if (code != EDGECORE_OK) return code;
  memcpy(to_device ? mapped : host, to_device ? host : mapped, static_cast<size_t>(bytes));
  if (to_device && table.buffer_flush != nullptr) code = table.buffer_flush(buffer, &error);
  Error ignored;  // receives buffer_unmap's error if an earlier step failed: only the first failure is reported
  const int32_t unmapped = table.buffer_unmap(buffer, code == EDGECORE_OK ? &error : &ignored);
  return code == EDGECORE_OK ? unmapped : code;
}

Status create(MethodImpl &method, DeviceBuffers &owner, const LoadedBackend &backend, uint32_t memory_kind,
              uint64_t bytes, uint64_t alignment, edgecore_buffer *&out, Error &error) {
  method.call_error.clear();
  const Result<edgecore_buffer *> buffer = owner.create(backend, bytes, alignment, memory_kind, method.call_error);
  out = *buffer;
  if (buffer.ok()) return Status();
  return fail(error, buffer.status().code(), "Method '", method.name, "': backend '", backend.table->backend_id,
              "' gives no buffer of ", bytes, " bytes in memory of kind ", memory_kind, ": ",
              method.call_error.sentence());
}

void set_buffer(edgecore_tensor &tensor, edgecore_buffer *buffer) {
  tensor.buffer = buffer;
  tensor.dl.device_type = EDGECORE_DEVICE_EXTENSION;
  tensor.dl.data = nullptr;
}

// Copies the bytes of an argument, at its current shape, between host memory and the argument's device buffer: to the
// device if `to_device`, otherwise to the host.
Status copy(MethodImpl &method, const DelegateArgument &argument, void *host, bool to_device, Error &error) {
  const edgecore_backend &table = *argument.backend.table;
  const uint64_t bytes = current_bytes(argument.slot);
  EventTracer *tracer = method.config.tracer;
  const uint64_t event = tracer == nullptr ? 0 : tracer->begin(EventKind::kCopy, table.backend_id, argument.pc, -1);
  method.call_error.clear();
  const int32_t code = transfer(table, argument.staging.device->buffer, host, bytes, to_device, method.call_error);
  if (tracer != nullptr) tracer->end(event);
  if (code == EDGECORE_OK) return Status();
  return fail(error, code, "Method '", method.name, "', instruction ", argument.pc, ", backend '", table.backend_id,
              "': copying ", bytes, to_device ? " bytes to" : " bytes from",
              " a buffer of its device failed: ", method.call_error.sentence());
}

// Binds each tensor that lives in one of the two device buffers of a mutable buffer: a tensor with the new content to
// `spare`, any other tensor to `content`. Called in each run, because the two device buffers swap roles.
void bind_states(MethodImpl &method) {
  for (const ResidentSlot *slot = method.bindings.resident; slot != nullptr; slot = slot->next) {
    edgecore_buffer *&bound = slot->copy == nullptr ? slot->slot->tensor.buffer : slot->copy->buffer;
    bound = slot->is_new_content ? slot->state->spare : slot->state->content;
  }
}

// Allocates device memory for a mutable buffer. Memory that an earlier method allocated is kept if it is large enough,
// and replaced otherwise.
Status reserve(MethodImpl &method, StateSlot &state, const ValueUse &use, Error &error) {
  DeviceState &device = state.device();
  DeviceBuffers &owner = state.shared == nullptr ? method.delegates.buffers : method.config.state->device_buffers();
  const bool needs_spare = use.update != kNoUse || device.spare != nullptr;
  const bool is_enough = device.table != nullptr && device.bytes >= use.bytes && device.alignment >= use.alignment;
  if (!is_enough) {
    EDGECORE_TRY(device.fetch(state.data, state.bytes, error));
    device.host_has_changed();
    device.content = device.spare = nullptr;  // `owner` still has the smaller buffers and destroys them later
    if (use.bytes > device.bytes) device.bytes = use.bytes;
    if (use.alignment > device.alignment) device.alignment = use.alignment;
    EDGECORE_TRY(
        create(method, owner, *use.backend, use.memory_kind, device.bytes, device.alignment, device.content, error));
    method.memory.delegates += device.bytes;
    device.memory_kind = use.memory_kind;
    device.driver = use.backend->driver;
    device.table = use.backend->table;
  }
  if (!needs_spare || device.spare != nullptr) return Status();
  method.memory.delegates += device.bytes;
  return create(method, owner, *use.backend, use.memory_kind, device.bytes, device.alignment, device.spare, error);
}

class Devices final : public DeviceMemory {
 public:
  Status check(const MethodImpl &method, const edgecore_backend &table, Error &error) const override {
    if (EDGECORE_HAS(&table, buffer_invalidate) && table.buffer_create != nullptr && table.buffer_destroy != nullptr &&
        table.buffer_map != nullptr && table.buffer_unmap != nullptr) {
      return Status();
    }
    return fail(error, EDGECORE_NOT_SUPPORTED, "Method '", method.name, "': backend '", table.backend_id,
                "' needs arguments in its memory, but has no functions to create and map buffers.");
  }

  Status assign_buffers(MethodImpl &method, Error &error) const override {
    bool wanted = false;
    for (const Instruction &instruction : method.instructions) {
      for (size_t i = 0; instruction.op == Op::kDelegate && i < instruction.args.size(); ++i) {
        wanted = wanted || instruction.call->staging[i].requirement.memory_kind != 0;
      }
    }
    if (!wanted) return Status();
    DeviceUses uses(method);
    EDGECORE_TRY(uses.find(error));
    Span<DeviceCopy> copies;  // one device copy of each value; add_copy makes more for calls that cannot share it
    EDGECORE_TRY(method.make_array(method.bindings.values.size(), copies, error));
    for (size_t value = 0; value < method.bindings.values.size(); ++value) {
      copies[value] = {nullptr, uses[value].bytes, uses[value].alignment};
      if (uses[value].home == Home::kDevice) EDGECORE_TRY(move_to_device(method, uses[value], value, error));
      if (uses[value].home == Home::kState || uses[value].home == Home::kNewContent || uses[value].has_new_content) {
        EDGECORE_TRY(make_resident(method, uses[value], value, copies[value], error));
      }
    }
    for (const Instruction &instruction : method.instructions) {
      for (size_t i = 0; instruction.op == Op::kDelegate && i < instruction.args.size(); ++i) {
        EDGECORE_TRY(add_copy(method, instruction, i, uses, copies, error));
      }
    }
    return Status();
  }

  Status begin_run(MethodImpl &method, Error &error) const override {
    for (StateSlot *state = method.bindings.states; state != nullptr; state = state->next) {
      DeviceState &device = state->device();
      if (device.table == nullptr) continue;
      if (!state->is_resident) {
        if (device.host_is_stale) EDGECORE_TRY(move_state(method, *state, false, error));
        device.host_has_changed();
        continue;
      }
      if (!device.is_current) EDGECORE_TRY(move_state(method, *state, true, error));
      device.is_current = device.host_is_stale = true;
    }
    bind_states(method);
    return Status();
  }

  void update_state(MethodImpl &method, TensorSlot &slot) const override {
    DeviceState &device = slot.state->device();
    edgecore_buffer *old = device.content;
    device.content = device.spare;
    device.spare = old;
    bind_states(method);
  }

  Status stage_in(MethodImpl &method, const DelegateArgument &argument, bool copies, Error &error) const override {
    Staging &staging = argument.staging;
    edgecore_tensor &tensor = argument.slot.tensor;
    if (current_bytes(argument.slot) == 0) return Status();
    DeviceCopy &device = *staging.device;
    if (device.buffer == nullptr) {
      EDGECORE_TRY(create(method, method.delegates.buffers, argument.backend, staging.requirement.memory_kind,
                          device.bytes, device.alignment, device.buffer, error));
      method.memory.staging += device.bytes;
    }
    if (copies && !staging.is_fresh) EDGECORE_TRY(copy(method, argument, tensor.dl.data, true, error));
    staging.original = tensor.dl.data;
    set_buffer(tensor, device.buffer);
    return Status();
  }

  Status stage_out(MethodImpl &method, const DelegateArgument &argument, bool copies, Error &error) const override {
    edgecore_tensor &tensor = argument.slot.tensor;
    tensor.dl.device_type = EDGECORE_DEVICE_CPU;
    tensor.buffer = nullptr;
    if (!copies || current_bytes(argument.slot) == 0) return Status();
    return copy(method, argument, tensor.dl.data, false, error);
  }

  void destroy(MethodImpl &method) const override { method.delegates.buffers.destroy(); }

 private:
  static Status move_to_device(MethodImpl &method, const ValueUse &use, size_t value, Error &error) {
    TensorSlot &slot = *method.bindings.tensor_of[value];
    edgecore_buffer *buffer = nullptr;
    EDGECORE_TRY(create(method, method.delegates.buffers, *use.backend, use.memory_kind, use.bytes, use.alignment,
                        buffer, error));
    method.memory.delegates += use.bytes;
    slot.readable = 0;
    set_buffer(slot.tensor, buffer);
    if (slot.base != nullptr) *slot.base = storage_of(slot);
    return Status();
  }

  // Lets a tensor use the device memory of a mutable buffer: the buffer itself, an alias of it, or its new content.
  static Status make_resident(MethodImpl &method, const ValueUse &use, size_t value, DeviceCopy &copy, Error &error) {
    TensorSlot &slot = *method.bindings.tensor_of[value];
    StateSlot &state = *method.bindings.tensor_of[use.state]->state;
    if (slot.state != nullptr) {
      EDGECORE_TRY(reserve(method, state, use, error));
      if (use.update != kNoUse) method.instructions[use.update].op = Op::kUpdateState;
      state.is_resident = true;
    }
    Span<ResidentSlot> entry;
    EDGECORE_TRY(method.make_array(1, entry, error));
    entry[0] = {&slot, use.has_new_content ? &copy : nullptr, &state.device(),
                use.has_new_content || use.home == Home::kNewContent, method.bindings.resident};
    method.bindings.resident = entry.data();
    // no buffer yet: bind_states sets the tensor's device buffer in each run
    if (!use.has_new_content) set_buffer(slot.tensor, nullptr);
    return Status();
  }

  static Status add_copy(MethodImpl &method, const Instruction &instruction, size_t argument, const DeviceUses &uses,
                         Span<DeviceCopy> copies, Error &error) {
    const size_t value = static_cast<size_t>(instruction.args[argument]);
    Staging &staging = instruction.call->staging[argument];
    if (staging.requirement.memory_kind == 0 || method.bindings.tensor_of[value] == nullptr) return Status();
    staging.device = &copies[value];
    if (uses[value].has_one_copy) return Status();
    Span<DeviceCopy> own;
    EDGECORE_TRY(method.make_array(1, own, error));
    own[0] = {nullptr, padded_bytes(*method.bindings.tensor_of[value], staging.requirement),
              staging.requirement.alignment};
    staging.device = own.data();
    return Status();
  }

  // Copies a mutable buffer's content between host and device memory, and records the copy as a trace event.
  static Status move_state(MethodImpl &method, StateSlot &state, bool to_device, Error &error) {
    DeviceState &device = state.device();
    EventTracer *tracer = method.config.tracer;
    const uint64_t event = tracer == nullptr ? 0 : tracer->begin(EventKind::kCopy, device.table->backend_id, 0, -1);
    const Status status =
        to_device ? device.send(state.data, state.bytes, error) : device.fetch(state.data, state.bytes, error);
    if (tracer != nullptr) tracer->end(event);
    return status;
  }
};

}  // namespace

Result<edgecore_buffer *> DeviceBuffers::create(const LoadedBackend &backend, uint64_t bytes, uint64_t alignment,
                                                uint32_t memory_kind, Error &error) {
  void *memory = allocator_->allocate(sizeof(Owned), alignof(Owned));
  if (memory == nullptr) return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a buffer's record.");
  edgecore_buffer *buffer = nullptr;
  const int32_t code = backend.table->buffer_create(backend.driver, bytes, alignment, memory_kind, &buffer, &error);
  if (code != EDGECORE_OK) return Status(code);
  first_ = new (memory) Owned{backend.table, buffer, first_};
  return buffer;
}

Status DeviceState::fetch(void *host, uint64_t size, Error &error) {
  if (!host_is_stale) return Status();
  EDGECORE_TRY(copy(host, size, false, error));
  host_is_stale = false;
  return Status();
}

Status DeviceState::send(void *host, uint64_t size, Error &error) {
  EDGECORE_TRY(copy(host, size, true, error));
  is_current = true;
  return Status();
}

Status DeviceState::copy(void *host, uint64_t size, bool to_device, Error &error) {
  Error reason;
  const int32_t code = transfer(*table, content, host, size, to_device, reason);
  if (code == EDGECORE_OK) return Status();
  return fail(error, code, "Backend '", table->backend_id, "': copying the ", size, " bytes of a mutable buffer ",
              to_device ? "to" : "from", " its device failed: ", reason.sentence());
}

const DeviceMemory *device_memory() {
  static const Devices devices;
  return &devices;
}

}  // namespace edgecore
