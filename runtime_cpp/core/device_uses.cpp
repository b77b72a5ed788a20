#include "core/device_uses.h"

namespace edgecore {
namespace {

// Special values of ValueUse::last: inputs are used before the first instruction, outputs after the last one.
constexpr uint32_t kBefore = kNoUse - 2, kAfter = kNoUse - 1;

bool same_layout(const TensorSlot &a, const TensorSlot &b) {
  const auto order = [](const TensorSlot &slot) {
    return Span<const uint8_t>(slot.tensor.dim_order, static_cast<size_t>(slot.tensor.dl.ndim));
  };
  return a.tensor.scalar_type == b.tensor.scalar_type && same_items(shape_of(a.tensor), shape_of(b.tensor)) &&
         same_items(order(a), order(b)) && ((a.tensor.flags | b.tensor.flags) & EDGECORE_TENSOR_RESIZABLE) == 0;
}

}  // namespace

Status DeviceUses::find(Error &error) {
  const size_t count = method_.bindings.values.size();
  EDGECORE_TRY(method_.make_array(count, uses_, error));
  for (ValueUse &use : uses_) use.last = use.update = kNoUse;
  for (const int32_t value : span_of(method_.plan->inputs())) note_host(static_cast<size_t>(value), kBefore, true);
  for (size_t i = 0; i < method_.instructions.size(); ++i) {
    const Instruction &instruction = method_.instructions[i];
    const uint32_t pc = static_cast<uint32_t>(i);
    if (instruction.op == Op::kJumpFalse || instruction.op == Op::kMove) is_straight_ = false;
    if (instruction.op == Op::kKernel && is_update(instruction)) {
      note_update(instruction, pc);
    } else if (instruction.op == Op::kKernel) {
      note_kernel(instruction, pc);
    }
    if (instruction.op == Op::kDelegate) note_delegate(instruction, pc);
  }
  for (const int32_t value : span_of(method_.plan->outputs())) note_host(static_cast<size_t>(value), kAfter, false);
  for (const ListSlot *list : method_.bindings.list_of) {
    if (list == nullptr) continue;
    for (const int32_t value : list->tensor_values) {
      if (value >= 0) note_host(static_cast<size_t>(value), kAfter, false);
    }
  }
  // Choosing a value's memory compares the value with all others. A damaged file may have millions of values, so
  // Limits::items bounds the number of comparisons. Values beyond the limit stay in host memory.
  steps_ = count == 0 ? 0 : method_.owner->limits().items / count;
  for (const StateSlot *state = method_.bindings.states; state != nullptr; state = state->next) {
    const size_t value = static_cast<size_t>(state->value);
    if (choose_state(value) || uses_[value].update == kNoUse) continue;
    uses_[value].on_host = true;  // this buffer stays in host memory, where the kernel aten::copy_ updates it
    uses_[uses_[value].content].on_host = true;
  }
  for (size_t value = 0; value < count; ++value) {
    const ValueUse &use = uses_[value];
    if (use.backend != nullptr && use.home == Home::kHost && !use.has_new_content) choose(value);
  }
  for (const Instruction &instruction : method_.instructions) {
    for (size_t i = 0; instruction.op == Op::kDelegate && i < instruction.args.size(); ++i) {
      Staging &staging = instruction.call->staging[i];
      staging.is_fresh = staging.is_fresh && uses_[static_cast<size_t>(instruction.args[i])].has_one_copy;
    }
  }
  return Status();
}

ValueUse &DeviceUses::note(size_t value, uint32_t pc, bool writes) {
  ValueUse &use = uses_[value];
  if (use.last == kNoUse) {
    use.written_first = writes;
  } else {
    use.read = use.read || !writes;
  }
  use.last = pc;
  return use;
}

void DeviceUses::note_host(size_t value, uint32_t pc, bool writes) {
  ValueUse &use = note(value, pc, writes);
  use.on_host = true;
  use.is_fresh = use.is_fresh && !writes;
}

void DeviceUses::note_kernel(const Instruction &instruction, uint32_t pc) {
  if (instruction.is_view) {
    uses_[static_cast<size_t>(instruction.args[0])].is_viewed = uses_[instruction.result].is_viewed = true;
  }
  note_host(instruction.result, pc, !instruction.is_view);
  if (const ListSlot *results = method_.bindings.list_of[instruction.result]) {
    for (const int32_t value : results->tensor_values) {
      if (value >= 0) note_host(static_cast<size_t>(value), pc, true);
    }
  }
  // A kernel whose result is not a tensor may write to any of its arguments, as executorch_prim::et_copy_index does. A
  // kernel of another package may do the same, because its operator's schema may declare writes to arguments.
  const bool may_write =
      !method_.kernels[instruction.target].is_own || (method_.bindings.tensor_of[instruction.result] == nullptr &&
                                                      method_.bindings.list_of[instruction.result] == nullptr);
  for (const int32_t value : instruction.args) {
    note_host(static_cast<size_t>(value), pc, false);
    if (may_write) uses_[static_cast<size_t>(value)].is_fresh = false;
  }
}

void DeviceUses::note_delegate(const Instruction &instruction, uint32_t pc) {
  const LoadedBackend *backend = method_.delegates.slots[instruction.target].backend;
  for (size_t i = 0; i < instruction.args.size(); ++i) {
    const size_t value = static_cast<size_t>(instruction.args[i]);
    if (method_.bindings.tensor_of[value] == nullptr) continue;
    Staging &staging = instruction.call->staging[i];
    const edgecore_buffer_requirement &need = staging.requirement;
    const bool twice = uses_[value].last == pc;
    if (need.memory_kind == 0) {
      note_host(value, pc, staging.written);
      continue;
    }
    ValueUse &use = note(value, pc, staging.written);
    use.twice = use.twice || twice;
    if (use.backend == nullptr) {
      use.backend = backend;
      use.memory_kind = need.memory_kind;
    }
    use.several = use.several || use.backend != backend || use.memory_kind != need.memory_kind;
    const uint64_t bytes = padded_bytes(*method_.bindings.tensor_of[value], need);
    if (bytes > use.bytes) use.bytes = bytes;
    if (need.alignment > use.alignment) use.alignment = need.alignment;
    staging.is_fresh = use.is_fresh;
    use.is_fresh = true;
    use.last_on_device = pc;
  }
}

// Returns true if a kernel call copies a value to a mutable buffer of the same layout: `aten::copy_(buffer, value)`.
bool DeviceUses::is_update(const Instruction &instruction) const {
  if (method_.operator_name(instruction.target).name != StringView("aten::copy_") || instruction.args.size() < 2 ||
      static_cast<uint32_t>(instruction.args[0]) != instruction.result || instruction.args[1] == instruction.args[0]) {
    return false;
  }
  const TensorSlot *state = method_.bindings.tensor_of[instruction.result];
  const TensorSlot *content = method_.bindings.tensor_of[static_cast<size_t>(instruction.args[1])];
  return state != nullptr && content != nullptr && state->state != nullptr && content->state == nullptr &&
         same_layout(*state, *content) && uses_[instruction.result].update == kNoUse;
}

void DeviceUses::note_update(const Instruction &instruction, uint32_t pc) {
  ValueUse &state = note(instruction.result, pc, true);
  state.update = pc;
  state.content = static_cast<uint32_t>(instruction.args[1]);
  ValueUse &content = note(state.content, pc, false);
  // this value is the new content of several mutable buffers, but can swap memory with only one of them
  if (content.update != kNoUse) content.several = true;
  content.update = pc;
  content.is_fresh_at_update = content.is_fresh;
}

bool DeviceUses::is_planned(size_t value) const {
  const TensorSlot *slot = method_.bindings.tensor_of[value];
  return slot != nullptr && slot->storage == Storage::kPlanned && slot->tensor.capacity != 0;
}

// Returns true if the arena addresses of two tensors in planned memory overlap.
bool DeviceUses::overlap(size_t a, size_t b) const {
  const BaseStorage first = storage_of(*method_.bindings.tensor_of[a]);
  const BaseStorage second = storage_of(*method_.bindings.tensor_of[b]);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(first.data), other = reinterpret_cast<uintptr_t>(second.data);
  return begin < other + second.capacity && other < begin + first.capacity;
}

// Returns true if another value at overlapping addresses of the arena may expect the content of `value` there: the
// other value is a mutable buffer, or the first instruction that uses the other value does not write it. If `value`
// itself is a mutable buffer, every used value at overlapping addresses counts.
bool DeviceUses::has_alias(size_t value) const {
  const bool is_state = method_.bindings.tensor_of[value]->state != nullptr;
  for (size_t i = 0; i < uses_.size(); ++i) {
    if (i == value || !is_planned(i) || !overlap(i, value)) continue;
    // value `i` is a mutable buffer, which other methods may use
    if (method_.bindings.tensor_of[i]->state != nullptr) return true;
    if (uses_[i].last != kNoUse && (is_state || !uses_[i].written_first)) return true;
  }
  return false;
}

bool DeviceUses::on_same_device(const ValueUse &use, const ValueUse &other) const {
  return !other.several && other.backend == use.backend && other.memory_kind == use.memory_kind;
}

// Returns true if all delegate calls that use a value in host memory can share one copy of the value on the device.
bool DeviceUses::can_have_one_copy(size_t value) const {
  const ValueUse &use = uses_[value];
  return is_straight_ && !use.several && !use.twice && !use.is_viewed &&
         method_.bindings.tensor_of[value]->storage != Storage::kView && !(is_planned(value) && has_alias(value));
}

// Returns true if only delegates of a device use a value that is planned in arena memory, and the first use writes the
// value.
bool DeviceUses::is_on_device(size_t value) const {
  return is_planned(value) && !uses_[value].on_host && uses_[value].written_first;
}

// `value` is the source of an aten::copy_ that updates a mutable buffer. The mutable buffer has two device buffers: one
// holds its content, the other is spare. Returns true if a run can compute the value directly in the spare device
// buffer, so that a swap of the two device buffers replaces the copy.
bool DeviceUses::can_hold_new_content(size_t value) const {
  const ValueUse &use = uses_[value];
  return use.backend != nullptr && use.last_on_device < use.update && can_have_one_copy(value) &&
         (is_on_device(value) || use.is_fresh_at_update);
}

// Decides whether a mutable buffer stays in device memory in this method; if so, sets `home` for the buffer, its
// aliases and its new content.
bool DeviceUses::choose_state(size_t state) {
  ValueUse &use = uses_[state];
  const bool has_update = use.update != kNoUse;
  if (!is_straight_ || !is_planned(state) || use.on_host || use.several || !spend()) return false;
  if (has_update && !can_hold_new_content(use.content)) return false;
  const ValueUse *user = use.backend != nullptr ? &use : has_update ? &uses_[use.content] : nullptr;
  for (size_t i = 0; i < uses_.size(); ++i) {
    if (i == state || !is_planned(i) || uses_[i].last == kNoUse || !overlap(i, state)) continue;
    const TensorSlot &slot = *method_.bindings.tensor_of[i], &buffer = *method_.bindings.tensor_of[state];
    const bool is_same = slot.tensor.dl.data == buffer.tensor.dl.data && slot.tensor.capacity == buffer.tensor.capacity;
    if (user == nullptr) user = &uses_[i];
    // If an aten::copy_ updates the buffer, refuse aliases: a write to an alias changes the content, which must survive
    // a failed run.
    if (!is_same || slot.state != nullptr || has_update || uses_[i].on_host || !on_same_device(*user, uses_[i])) {
      return false;
    }
  }
  if (user == nullptr || user->backend == nullptr || (has_update && !on_same_device(*user, uses_[use.content]))) {
    return false;
  }
  const DeviceState &device = method_.bindings.tensor_of[state]->state->device();
  const bool is_free = device.table == nullptr;
  if (!is_free && (device.table != user->backend->table || device.driver != user->backend->driver ||
                   device.memory_kind != user->memory_kind)) {
    return false;  // other methods have the buffer's content on another device
  }
  use.backend = user->backend;
  use.memory_kind = user->memory_kind;
  for (size_t i = 0; i < uses_.size(); ++i) {
    const bool is_content = has_update && i == use.content;
    if (i != state && !is_content && (!is_planned(i) || uses_[i].last == kNoUse || !overlap(i, state))) continue;
    uses_[i].has_new_content = is_content && !is_on_device(i);
    uses_[i].has_one_copy = uses_[i].has_new_content;
    if (!uses_[i].has_new_content) uses_[i].home = is_content ? Home::kNewContent : Home::kState;
    uses_[i].state = static_cast<uint32_t>(state);
    if (uses_[i].bytes > use.bytes) use.bytes = uses_[i].bytes;
    if (uses_[i].alignment > use.alignment) use.alignment = uses_[i].alignment;
  }
  return true;
}

// Decides whether the delegate calls that use a value can share one copy of the value on the device, and whether a
// value other than a mutable buffer lives in device memory.
void DeviceUses::choose(size_t value) {
  ValueUse &use = uses_[value];
  const TensorSlot &slot = *method_.bindings.tensor_of[value];
  if (!spend() || !can_have_one_copy(value)) return;
  use.has_one_copy = true;
  if (slot.state == nullptr && is_on_device(value) && use.read) use.home = Home::kDevice;
}

bool DeviceUses::spend() {
  if (steps_ == 0) return false;
  --steps_;
  return true;
}

}  // namespace edgecore
