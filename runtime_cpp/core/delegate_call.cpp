// Runs one delegate instruction: calls prepare if shapes have changed, allocates the memory that prepare asks for,
// stages (copies) arguments that do not meet the buffer requirements, and calls execute.
#include <string.h>

#include "core/checked.h"
#include "core/method_impl.h"

namespace edgecore {
namespace {

constexpr uint64_t kMaxNeeds = 256;

// A delegate's request for memory, either declared in the file or returned by prepare.
struct Need {
  uint32_t kind;
  bool on_host;
  uint64_t bytes;
  StringView group;
};

const edgecore_memory_need &need_at(const edgecore_prepared &prepared, size_t i) {
  return *reinterpret_cast<const edgecore_memory_need *>(reinterpret_cast<const uint8_t *>(prepared.needs) +
                                                         i * prepared.need_stride);
}

Need returned_need(const edgecore_prepared &prepared, size_t i) {
  const edgecore_memory_need &need = need_at(prepared, i);
  return {need.kind, need.space == 0, need.bytes, StringView(need.shared_group)};
}

// Adds up all memory needs of one kind (host or device), in bytes. Needs with the same non-empty group share memory, so
// only the largest of them counts. Returns UINT64_MAX if the sum overflows.
template <typename NeedAt>
uint64_t total_of(size_t count, uint32_t kind, bool on_host, NeedAt need_at_index) {
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    const Need need = need_at_index(i);
    if (need.kind != kind || need.on_host != on_host) continue;
    uint64_t bytes = need.bytes;
    for (size_t j = 0; j < count && !need.group.empty(); ++j) {
      const Need other = need_at_index(j);
      if (other.group != need.group || other.kind != kind || other.on_host != on_host) continue;
      if (j < i) bytes = 0;  // skip this need: the total already has the largest need of its group
      if (j > i && bytes != 0 && other.bytes > bytes) bytes = other.bytes;
    }
    if (add_overflows(total, bytes, &total)) return UINT64_MAX;
  }
  return total;
}

StringView kind_name(uint32_t kind) {
  return kind == EDGECORE_MEMORY_SCRATCH ? "scratch" : kind == EDGECORE_MEMORY_PERSISTENT ? "persistent" : "staging";
}

// Prepares one delegate call and allocates the memory that the delegate asks for.
class Preparation {
 public:
  Preparation(MethodImpl &method, size_t pc, Error &error)
      : method_(method),
        instruction_(method.instructions[pc]),
        state_(method.delegates.slots[instruction_.target]),
        pc_(pc),
        error_(error) {}

  Status run() {
    state_.prepared_for = nullptr;
    memset(&prepared_, 0, sizeof(prepared_));
    prepared_.header = header_of<edgecore_prepared>();
    method_.call_error.clear();
    for (size_t i = 0; i < instruction_.args.size(); ++i) instruction_.call->staging[i].written = false;
    method_.run_state.preparing = instruction_.call->staging;
    const int32_t code =
        state_.backend->table->prepare(state_.instance, method_.run_state.args.data(), instruction_.args.size(),
                                       sizeof(edgecore_value), &prepared_, &method_.call_error);
    method_.run_state.preparing = nullptr;
    if (code != EDGECORE_OK) return refuse(code, method_.call_error.sentence());
    EDGECORE_TRY(check_needs());
    EDGECORE_TRY(check_declared());
    EDGECORE_TRY(assign_memory());
    remember_shapes();
    state_.prepared_for = instruction_.call;
    return Status();
  }

 private:
  void name_backend(int32_t code) {
    (void)fail(error_, code, "Method '", method_.name, "', instruction ", pc_, ", backend '",
               state_.backend->table->backend_id, "': ");
  }

  template <typename... Pieces>
  Status refuse(int32_t code, const Pieces &...pieces) {
    name_backend(code);
    return extend(error_, pieces...);
  }

  Status check_needs() {
    if (prepared_.need_count > kMaxNeeds ||
        (prepared_.need_count != 0 &&
         (prepared_.needs == nullptr || prepared_.need_stride < sizeof(edgecore_memory_need)))) {
      return refuse(EDGECORE_INTERNAL, "prepare returned a broken list of ", prepared_.need_count, " memory needs.");
    }
    for (size_t i = 0; i < prepared_.need_count; ++i) {
      const edgecore_memory_need &need = need_at(prepared_, i);
      const uint64_t alignment = need.alignment == 0 ? 1 : need.alignment;
      if (need.kind > EDGECORE_MEMORY_STAGING || !is_power_of_two(alignment) || alignment > (1u << 20) ||
          need.bytes > SIZE_MAX / 2) {
        return refuse(EDGECORE_INTERNAL, "memory need ", i, " has kind ", need.kind, ", ", need.bytes,
                      " bytes and alignment ", need.alignment, ".");
      }
    }
    return Status();
  }

  // Refuses a delegate that asks for more memory than the backend's compiler declared in the file.
  Status check_declared() {
    const MethodInfo info = method_.owner->method(method_.index);
    const size_t delegate = instruction_.target;
    const DelegateInfo declared = info.delegate(delegate);
    if (!declared.has_meta || (state_.backend->table->flags & EDGECORE_OWN_HEAP) != 0) return Status();
    for (uint32_t kind = EDGECORE_MEMORY_SCRATCH; kind <= EDGECORE_MEMORY_STAGING; ++kind) {
      for (const bool on_host : {true, false}) {
        const uint64_t asked = total_of(static_cast<size_t>(prepared_.need_count), kind, on_host,
                                        [this](size_t i) { return returned_need(prepared_, i); });
        const uint64_t limit =
            total_of(static_cast<size_t>(declared.need_count), kind, on_host, [&info, delegate](size_t i) {
              const DeclaredNeed need = info.declared_need(delegate, i);
              return Need{need.kind, need.space == 0, need.bytes, need.shared_group};
            });
        if (asked > limit) {
          return refuse(EDGECORE_DELEGATE_MEMORY_ALLOCATION_FAILED, "it asks for ", asked, " bytes of ",
                        kind_name(kind), " memory", on_host ? "" : " on its device", ", but declared ", limit,
                        " when the file was compiled; compile the model again with the installed package.");
        }
      }
    }
    return Status();
  }

  Result<void *> allocate(uint64_t bytes, uint64_t alignment) {
    void *data = method_.config.allocator->allocate(static_cast<size_t>(bytes), static_cast<size_t>(alignment));
    if (data == nullptr) {
      return refuse(EDGECORE_DELEGATE_MEMORY_ALLOCATION_FAILED, "there is no memory for the ", bytes,
                    " bytes that it needs.");
    }
    method_.memory.delegates += bytes;
    return data;
  }

  Status assign_memory() {
    const size_t count = static_cast<size_t>(prepared_.need_count);
    if (count > state_.block_capacity) EDGECORE_TRY(grow_tables(count));
    state_.blocks = {state_.blocks.data(), count};
    uint64_t scratch = 0;
    uint64_t alignment = kMinAlignment;
    for (size_t i = 0; i < count; ++i) {
      const edgecore_memory_need &need = need_at(prepared_, i);
      const uint64_t wanted = need.alignment > kMinAlignment ? need.alignment : kMinAlignment;
      state_.blocks[i] = {nullptr, need.bytes};
      state_.scratch_offsets[i] = kNotScratch;
      // the backend itself allocates device memory; check_declared has already checked the size
      if (need.space != 0) continue;
      if (need.kind == EDGECORE_MEMORY_SCRATCH) {
        scratch = (scratch + wanted - 1) & ~(wanted - 1);
        state_.scratch_offsets[i] = scratch;
        if (add_overflows(scratch, need.bytes, &scratch) || scratch > SIZE_MAX / 2) {
          return refuse(EDGECORE_DELEGATE_MEMORY_ALLOCATION_FAILED, "its scratch needs exceed the address space.");
        }
        if (wanted > alignment) alignment = wanted;
        continue;
      }
      edgecore_memory_block *block = &state_.owned[i];
      if (need.shared_group.size != 0) EDGECORE_TRY(find_group(need, &block));
      EDGECORE_TRY(grow_block(*block, need.bytes, wanted));
      state_.blocks[i].data = block->data;
    }
    if (scratch > method_.delegates.scratch_area.bytes || alignment > method_.delegates.scratch_alignment) {
      const uint64_t bytes =
          scratch > method_.delegates.scratch_area.bytes ? scratch : method_.delegates.scratch_area.bytes;
      const Result<void *> area = allocate(bytes, alignment);
      EDGECORE_TRY(area.status());
      method_.delegates.scratch_area = {*area, bytes};
      method_.delegates.scratch_alignment = alignment;
    }
    return Status();
  }

  Status grow_tables(size_t count) {
    Span<edgecore_memory_block> blocks;
    Span<edgecore_memory_block> owned;
    Span<uint64_t> offsets;
    EDGECORE_TRY(method_.make_array(count, blocks, error_));
    EDGECORE_TRY(method_.make_array(count, owned, error_));
    EDGECORE_TRY(method_.make_array(count, offsets, error_));
    for (size_t i = 0; i < state_.block_capacity; ++i) owned[i] = state_.owned[i];
    state_.blocks = blocks;
    state_.owned = owned.data();
    state_.scratch_offsets = offsets.data();
    state_.block_capacity = count;
    return Status();
  }

  // Enlarges a memory block of a delegate and keeps its content, because persistent memory must survive a new prepare.
  Status grow_block(edgecore_memory_block &block, uint64_t bytes, uint64_t alignment) {
    const bool aligned = reinterpret_cast<uintptr_t>(block.data) % alignment == 0;
    if (block.data != nullptr && block.bytes >= bytes && aligned) return Status();
    const Result<void *> data = allocate(bytes, alignment);
    EDGECORE_TRY(data.status());
    if (block.data != nullptr)
      memcpy(*data, block.data, static_cast<size_t>(block.bytes < bytes ? block.bytes : bytes));
    block = {*data, bytes};
    return Status();
  }

  Status find_group(const edgecore_memory_need &need, edgecore_memory_block **block) {
    const StringView name(need.shared_group);
    for (MemoryGroup *group = method_.delegates.groups; group != nullptr; group = group->next) {
      if (group->kind == need.kind && group->name == name) {
        *block = &group->block;
        return Status();
      }
    }
    Span<MemoryGroup> group;
    Span<char> text;
    EDGECORE_TRY(method_.make_array(1, group, error_));
    EDGECORE_TRY(method_.make_array(name.size(), text, error_));
    memcpy(text.data(), name.data(), name.size());
    group[0] = {{nullptr, 0}, need.kind, StringView(text.data(), text.size()), method_.delegates.groups};
    method_.delegates.groups = group.data();
    *block = &group[0].block;
    return Status();
  }

  void remember_shapes() {
    int64_t *shapes = instruction_.call->shapes;
    for (size_t i = 0; i < instruction_.args.size(); ++i) {
      const edgecore_value &argument = method_.run_state.args[i];
      if (argument.tag != EDGECORE_TAG_TENSOR) {
        *shapes++ = argument.as.i;
        continue;
      }
      const edgecore_tensor &tensor = *argument.as.tensor;
      instruction_.call->flags[i] = tensor.flags;
      for (const int64_t size : shape_of(tensor)) *shapes++ = size;
    }
  }

  MethodImpl &method_;
  const Instruction &instruction_;
  DelegateState &state_;
  const size_t pc_;
  Error &error_;
  edgecore_prepared prepared_;
};

// Returns true if a number argument, or a tensor argument's shape or flags, has changed since the call's last prepare.
bool arguments_changed(const MethodImpl &method, const Instruction &instruction) {
  const int64_t *shapes = instruction.call->shapes;
  for (size_t i = 0; i < instruction.args.size(); ++i) {
    const edgecore_value &argument = method.run_state.args[i];
    if (argument.tag != EDGECORE_TAG_TENSOR) {
      if (argument.as.i != *shapes++) return true;
      continue;
    }
    const edgecore_tensor &tensor = *argument.as.tensor;
    if (tensor.flags != instruction.call->flags[i]) return true;
    for (const int64_t size : shape_of(tensor)) {
      if (size != *shapes++) return true;
    }
  }
  return false;
}

// Ends a pending delegate call: the backend calls this function, from any thread, when the delegate's work has ended.
void EDGECORE_CALL complete(void *arg, int32_t code, edgecore_str text) {
  MethodImpl &method = *static_cast<MethodImpl *>(arg);
  // Read `completion` from the method before `fired` is set: once `fired` is set, another thread may destroy the
  // method.
  Completion *completion = method.run_state.completion;
  if (code != EDGECORE_OK) (void)fail(method.call_error, code, StringView(text));
  method.run_state.pending.code = code;
  __atomic_store_n(&method.run_state.pending.fired, 1, __ATOMIC_RELEASE);
  completion->ready();
}

void fill_arguments(MethodImpl &method, const Instruction &instruction) {
  method.run_state.arg_count = instruction.args.size();
  for (size_t i = 0; i < instruction.args.size(); ++i) {
    method.run_state.args[i] = method.bindings.values[static_cast<size_t>(instruction.args[i])];
  }
}

}  // namespace

Status MethodImpl::prepare_at_max_shapes(Error &error) {
  for (size_t pc = 0; pc < instructions.size(); ++pc) {
    if (instructions[pc].op != Op::kDelegate) continue;
    fill_arguments(*this, instructions[pc]);
    bool has_numbers = false;
    for (size_t i = 0; i < instructions[pc].args.size(); ++i) {
      edgecore_value &argument = run_state.args[i];
      if (argument.tag == EDGECORE_TAG_TENSOR) continue;
      argument.flags = EDGECORE_VALUE_UNKNOWN;
      has_numbers = true;
    }
    EDGECORE_TRY(Preparation(*this, pc, error).run());
    // The values of number arguments are unknown while loading, so the first call must prepare the delegate again.
    if (has_numbers) delegates.slots[instructions[pc].target].prepared_for = nullptr;
  }
  return config.devices == nullptr ? Status() : config.devices->assign_buffers(*this, error);
}

Status MethodImpl::call_delegate(size_t pc, Error &error) {
  const Instruction &instruction = instructions[pc];
  DelegateState &state = delegates.slots[instruction.target];
  DelegateCall &call = *instruction.call;
  fill_arguments(*this, instruction);
  const StringView backend(state.backend->table->backend_id);
  if (state.prepared_for != &call || arguments_changed(*this, instruction)) {
    const uint64_t event = config.tracer == nullptr ? 0 : config.tracer->begin(EventKind::kPrepare, backend, pc, -1);
    const Status status = Preparation(*this, pc, error).run();
    if (config.tracer != nullptr) config.tracer->end(event);
    // The delegate accepted the maximum shapes when the method was loaded, so the file is valid. Report the delegate's
    // refusal of the current shapes as wrong inputs.
    if (status.code() == EDGECORE_INVALID_PROGRAM) {
      error.code = EDGECORE_INVALID_ARGUMENT;
      return extend(error, " The shapes of the inputs do not fit the program, or each other.");
    }
    EDGECORE_TRY(status);
  }

  const Status staged = stage_in(pc, error);
  if (!staged.ok()) {
    (void)stage_out(pc, false, error);
    return staged;
  }
  // Set the scratch addresses again: the prepare of another delegate may have moved the method's scratch area.
  for (size_t i = 0; i < state.blocks.size(); ++i) {
    if (state.scratch_offsets[i] == kNotScratch) continue;
    state.blocks[i].data = static_cast<uint8_t *>(delegates.scratch_area.data) + state.scratch_offsets[i];
  }
  edgecore_execute_info info;
  memset(&info, 0, sizeof(info));
  info.header = header_of<edgecore_execute_info>();
  info.memory = state.blocks.data();
  info.memory_count = state.blocks.size();
  if (run_state.completion != nullptr) {
    info.completion = complete;
    info.completion_arg = this;
    run_state.pending.fired = 0;
  }
  call_error.clear();
  // mark the delegate's state as interrupted; end_delegate_call clears the mark
  if (state.state_set != nullptr) state.state_set->interrupted = true;
  const int32_t code = state.backend->table->execute(state.instance, &info, run_state.args.data(),
                                                     instruction.args.size(), sizeof(edgecore_value), &call_error);
  if (code == EDGECORE_PENDING && run_state.completion != nullptr) {
    run_state.pending.waiting = true;
    run_state.pending.pc = pc;
    return Status(EDGECORE_PENDING);
  }
  return end_delegate_call(pc, code, error);
}

Status MethodImpl::end_delegate_call(size_t pc, int32_t code, Error &error) {
  const DelegateState &state = delegates.slots[instructions[pc].target];
  if (code == EDGECORE_OK && state.state_set != nullptr) state.state_set->interrupted = false;
  if (code == EDGECORE_OK) return stage_out(pc, true, error);
  (void)stage_out(pc, false, error);
  const StringView backend(state.backend->table->backend_id);
  const bool pending = code == EDGECORE_PENDING;
  return fail(
      error, pending ? EDGECORE_INTERNAL : code, "Method '", name, "', instruction ", pc, ", backend '", backend,
      "': ", pending ? StringView("it left work pending, which this call does not allow.") : call_error.sentence());
}

}  // namespace edgecore
