// Arguments of delegates in device memory: values that stay there, and copies of values that the host uses as well.
#include <string.h>

#include "core/checked.h"
#include "core/method_impl.h"

namespace edgecore {
namespace {

constexpr uint32_t kUnused = UINT32_MAX;

// Records which delegates use each tensor value of a method, and whether kernels or the caller use it as well, to find
// the values that can stay in device memory.
class Uses {
 public:
  explicit Uses(MethodImpl &method) : method_(method) {}

  Status find(Error &error) {
    const size_t count = method_.bindings.values.size();
    EDGECORE_TRY(method_.make_array(count, values_, error));
    for (Use &use : values_) use.call = kUnused;
    for (const int32_t value : span_of(method_.plan->inputs())) note_host(static_cast<size_t>(value), true);
    for (size_t pc = 0; pc < method_.instructions.size(); ++pc) {
      const Instruction &instruction = method_.instructions[pc];
      if (instruction.op == Op::kJumpFalse || instruction.op == Op::kMove) straight_ = false;
      if (instruction.op == Op::kKernel) note_kernel(instruction);
      if (instruction.op == Op::kDelegate) note_delegate(instruction, static_cast<uint32_t>(pc));
    }
    for (const int32_t value : span_of(method_.plan->outputs())) note_host(static_cast<size_t>(value), false);
    for (const ListSlot *list : method_.bindings.list_of) {
      if (list == nullptr) continue;
      for (const int32_t value : list->tensor_values) {
        if (value >= 0) note_host(static_cast<size_t>(value), false);
      }
    }
    return Status();
  }

  // Returns true if the value can be moved from its arena to device memory. Conditions: the method has no branches and
  // no moves; the value is not a mutable buffer; only delegates of one backend and memory kind use the value; the first
  // of them writes it and another one reads it; and it has no aliases. An alias is a value at overlapping addresses of
  // the arena that is used without being written first.
  bool can_move(size_t value) const {
    const Use &use = values_[value];
    const TensorSlot *slot = method_.bindings.tensor_of[value];
    if (!straight_ || slot == nullptr || slot->storage != Storage::kPlanned || slot->base.capacity == 0) return false;
    if ((slot->base.flags & EDGECORE_TENSOR_STATE) != 0) return false;
    if (use.on_host || use.call == kUnused || !use.written_first || !use.read) return false;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(slot->base.data);
    for (size_t i = 0; i < values_.size(); ++i) {
      const TensorSlot *other = method_.bindings.tensor_of[i];
      if (i == value || other == nullptr || other->storage != Storage::kPlanned) continue;
      const uintptr_t at = reinterpret_cast<uintptr_t>(other->base.data);
      const bool apart = at >= begin + slot->base.capacity || begin >= at + other->base.capacity;
      if (!apart && !values_[i].written_first && (values_[i].on_host || values_[i].call != kUnused)) return false;
    }
    return true;
  }

  // Return the instruction of the first delegate call that uses the value, and the index of its argument there.
  size_t call(size_t value) const { return values_[value].call; }
  size_t argument(size_t value) const { return values_[value].argument; }

 private:
  struct Use {
    uint32_t call;       // instruction of the first delegate call that uses the value
    uint32_t argument;   // index of the value among the arguments of that call
    bool on_host;        // the value is used by a kernel, the caller, a list, or several backends or memory kinds
    bool written_first;  // the first use of the value writes it
    bool read;           // a delegate reads the value after its first use
  };

  void note_host(size_t value, bool written) {
    Use &use = values_[value];
    if (!use.on_host && use.call == kUnused) use.written_first = written;
    use.on_host = true;
  }

  void note_kernel(const Instruction &instruction) {
    note_host(instruction.other, !instruction.is_view);
    for (const int32_t value : instruction.args) note_host(static_cast<size_t>(value), false);
  }

  void note_delegate(const Instruction &instruction, uint32_t pc) {
    for (size_t i = 0; i < instruction.args.size(); ++i) {
      Use &use = values_[static_cast<size_t>(instruction.args[i])];
      const Staging &staging = instruction.call->staging[i];
      if (use.call == kUnused) {
        if (!use.on_host) use.written_first = staging.written;
        use.call = pc;
        use.argument = static_cast<uint32_t>(i);
      } else {
        const Instruction &first = method_.instructions[use.call];
        const uint32_t kind = first.call->staging[use.argument].requirement.memory_kind;
        const bool same =
            method_.delegates.slots[first.target].backend == method_.delegates.slots[instruction.target].backend;
        use.read = use.read || !staging.written;
        use.on_host = use.on_host || !same || kind != staging.requirement.memory_kind;
      }
      use.on_host = use.on_host || staging.requirement.memory_kind == 0;
    }
  }

  MethodImpl &method_;
  Span<Use> values_;
  bool straight_ = true;  // the method has no branches and no moves
};

Status create(MethodImpl &method, const LoadedBackend &backend, const edgecore_buffer_requirement &need, uint64_t bytes,
              edgecore_buffer **out, Error &error) {
  Span<OwnedBuffer> owned;
  EDGECORE_TRY(method.make_array(1, owned, error));
  method.call_error.clear();
  const int32_t code =
      backend.table->buffer_create(backend.driver, bytes, need.alignment, need.memory_kind, out, &method.call_error);
  if (code != EDGECORE_OK) {
    return fail(error, code, "Method '", method.name, "': backend '", backend.table->backend_id,
                "' gives no buffer of ", bytes, " bytes in memory of kind ", need.memory_kind, ": ",
                method.call_error.sentence());
  }
  owned[0] = {backend.table, *out, method.delegates.buffers};
  method.delegates.buffers = owned.data();
  return Status();
}

// Copies the current bytes of an argument from host memory to its device buffer, or back.
Status copy(MethodImpl &method, const DelegateArgument &argument, void *host, bool to_device, Error &error) {
  const edgecore_backend &table = *argument.backend.table;
  edgecore_buffer *buffer = argument.staging.device;
  const uint64_t bytes = current_bytes(argument.slot);
  EventTracer *tracer = method.config.tracer;
  const uint64_t event = tracer == nullptr ? 0 : tracer->begin(EventKind::kCopy, table.backend_id, argument.pc, -1);
  method.call_error.clear();
  void *mapped = nullptr;
  int32_t code = EDGECORE_OK;
  if (!to_device && table.buffer_invalidate != nullptr) code = table.buffer_invalidate(buffer, &method.call_error);
  if (code == EDGECORE_OK) code = table.buffer_map(buffer, 0, bytes, &mapped, &method.call_error);
  if (code == EDGECORE_OK) {
    memcpy(to_device ? mapped : host, to_device ? host : mapped, static_cast<size_t>(bytes));
    if (to_device && table.buffer_flush != nullptr) code = table.buffer_flush(buffer, &method.call_error);
    Error ignored;  // the first failure is reported
    const int32_t unmapped = table.buffer_unmap(buffer, code == EDGECORE_OK ? &method.call_error : &ignored);
    if (code == EDGECORE_OK) code = unmapped;
  }
  if (tracer != nullptr) tracer->end(event);
  if (code == EDGECORE_OK) return Status();
  return fail(error, code, "Method '", method.name, "', instruction ", argument.pc, ", backend '", table.backend_id,
              "': copying ", bytes, to_device ? " bytes to" : " bytes from",
              " a buffer of its device failed: ", method.call_error.sentence());
}

class Devices final : public DeviceMemory {
 public:
  Status check(const MethodImpl &method, const edgecore_backend &table, Error &error) const override {
    if (EDGECORE_HAS(&table, buffer_invalidate) && table.buffer_create != nullptr && table.buffer_destroy != nullptr &&
        table.buffer_map != nullptr && table.buffer_unmap != nullptr) {
      return Status();
    }
    return fail(error, EDGECORE_NOT_SUPPORTED, "Method '", method.name, "': backend '", table.backend_id,
                "' needs arguments in memory of its device, but lacks functions to create and map buffers there.");
  }

  Status assign_buffers(MethodImpl &method, Error &error) const override {
    bool wanted = false;
    for (const Instruction &instruction : method.instructions) {
      for (size_t i = 0; instruction.op == Op::kDelegate && i < instruction.args.size(); ++i) {
        wanted = wanted || instruction.call->staging[i].requirement.memory_kind != 0;
      }
    }
    if (!wanted) return Status();
    Uses uses(method);
    EDGECORE_TRY(uses.find(error));
    // can_move compares a value with all others. `steps` limits that work for a damaged file; values past the limit
    // stay in host memory and are copied for each call.
    uint64_t steps = method.owner->limits().items;
    for (size_t value = 0; value < method.bindings.values.size() && steps >= method.bindings.values.size(); ++value) {
      if (uses.call(value) == kUnused) continue;
      steps -= method.bindings.values.size();
      if (!uses.can_move(value)) continue;
      const Instruction &writer = method.instructions[uses.call(value)];
      edgecore_buffer_requirement need = writer.call->staging[uses.argument(value)].requirement;
      uint64_t bytes = 0;
      for (const Instruction &reader : method.instructions) {
        for (size_t i = 0; reader.op == Op::kDelegate && i < reader.args.size(); ++i) {
          if (static_cast<size_t>(reader.args[i]) != value) continue;
          const edgecore_buffer_requirement &other = reader.call->staging[i].requirement;
          const uint64_t padded = padded_bytes(*method.bindings.tensor_of[value], other);
          if (padded > bytes) bytes = padded;
          if (other.alignment > need.alignment) need.alignment = other.alignment;
        }
      }
      TensorSlot &slot = *method.bindings.tensor_of[value];
      edgecore_tensor &tensor = slot.tensor;
      EDGECORE_TRY(create(method, *method.delegates.slots[writer.target].backend, need, bytes, &tensor.buffer, error));
      method.memory.delegates += bytes;
      tensor.dl.device_type = EDGECORE_DEVICE_EXTENSION;
      tensor.dl.data = slot.base.data = nullptr;
      slot.readable = slot.base.readable = 0;
    }
    return Status();
  }

  Status stage_in(MethodImpl &method, const DelegateArgument &argument, bool copies, Error &error) const override {
    Staging &staging = argument.staging;
    edgecore_tensor &tensor = argument.slot.tensor;
    if (current_bytes(argument.slot) == 0) return Status();
    if (staging.device == nullptr) {
      const uint64_t bytes = padded_bytes(argument.slot, staging.requirement);
      EDGECORE_TRY(create(method, argument.backend, staging.requirement, bytes, &staging.device, error));
      method.memory.staging += bytes;
    }
    if (copies) EDGECORE_TRY(copy(method, argument, tensor.dl.data, true, error));
    staging.original = tensor.dl.data;
    tensor.dl.data = nullptr;
    tensor.dl.device_type = EDGECORE_DEVICE_EXTENSION;
    tensor.buffer = staging.device;
    return Status();
  }

  Status stage_out(MethodImpl &method, const DelegateArgument &argument, bool copies, Error &error) const override {
    edgecore_tensor &tensor = argument.slot.tensor;
    tensor.dl.device_type = EDGECORE_DEVICE_CPU;
    tensor.buffer = nullptr;
    if (!copies || current_bytes(argument.slot) == 0) return Status();
    return copy(method, argument, tensor.dl.data, false, error);
  }

  void destroy(MethodImpl &method) const override {
    for (; method.delegates.buffers != nullptr; method.delegates.buffers = method.delegates.buffers->next) {
      method.delegates.buffers->table->buffer_destroy(method.delegates.buffers->buffer);
    }
  }
};

}  // namespace

const DeviceMemory *device_memory() {
  static const Devices devices;
  return &devices;
}

}  // namespace edgecore
