// Program::check_allocated: finds tensors for which the file plans no memory. This is a source file of its own so that
// only applications that call the function contain its code.
#include "core/program_tables.h"

namespace edgecore {
namespace {

class AllocationCheck {
 public:
  AllocationCheck(const fb::ExecutionPlan &plan, Span<bool> allocated, Error &error)
      : plan_(plan), allocated_(allocated), error_(error) {
    for (uint32_t i = 0; i < allocated_.size(); ++i) {
      const fb::Tensor *tensor = value_at(static_cast<int32_t>(i)).val_as_Tensor();
      allocated_[i] = tensor != nullptr && (tensor->allocation_info() != nullptr || tensor->data_buffer_idx() != 0 ||
                                            is_external(*tensor) || tensor_bytes(*tensor) == 0);
    }
    for (const int32_t input : span_of(plan.inputs())) mark(input);
    for (const int32_t output : span_of(plan.outputs())) mark(output);
  }

  // Records that the result of a view or a move has memory, because these instructions bind their result to another
  // tensor's memory. The order of the instructions does not matter here: at run time, the interpreter checks that a
  // tensor is bound before it is used.
  Status note_binding(const fb::Instruction &instruction) {
    if (const fb::MoveCall *move = instruction.instr_args_as_MoveCall()) mark(move->move_to());
    const fb::KernelCall *call = instruction.instr_args_as_KernelCall();
    if (call == nullptr || size_of(call->args()) == 0) return Status();
    const fb::Operator &op = *plan_.operators()->Get(static_cast<uint32_t>(call->op_index()));
    if (view_of(op.name()) == "executorch_prim::et_view") mark(call->args()->Get(call->args()->size() - 1));
    return Status();
  }

  // Fails if an argument of the instruction is a tensor for which memory is neither planned nor bound.
  Status check(const fb::Instruction &instruction) {
    if (const fb::KernelCall *call = instruction.instr_args_as_KernelCall()) EDGECORE_TRY(check_all(call->args()));
    if (const fb::DelegateCall *call = instruction.instr_args_as_DelegateCall()) EDGECORE_TRY(check_all(call->args()));
    if (const fb::MoveCall *move = instruction.instr_args_as_MoveCall()) EDGECORE_TRY(check_value(move->move_from()));
    ++pc_;
    return Status();
  }

 private:
  const fb::EValue &value_at(int32_t value) const { return *plan_.values()->Get(static_cast<uint32_t>(value)); }
  void mark(int32_t value) { allocated_[static_cast<size_t>(value)] = true; }

  Status check_all(const flatbuffers::Vector<int32_t> *values) {
    for (const int32_t value : span_of(values)) EDGECORE_TRY(check_value(value));
    return Status();
  }

  Status check_value(int32_t index) {
    // in a list of optional tensors, an index of -1 means no tensor
    if (index < 0 || allocated_[static_cast<size_t>(index)]) return Status();
    const fb::EValue &value = value_at(index);
    const fb::Tensor *tensor = value.val_as_Tensor();
    if (tensor == nullptr) {
      mark(index);  // the entries of this list need no second check
      if (const fb::TensorList *list = value.val_as_TensorList()) return check_all(list->items());
      const fb::OptionalTensorList *list = value.val_as_OptionalTensorList();
      return list == nullptr ? Status() : check_all(list->items());
    }
    const bool unbounded = tensor->shape_dynamism() == fb::TensorShapeDynamism::DYNAMIC_UNBOUND;
    return fail(
        error_, EDGECORE_NOT_SUPPORTED, "Method '", view_of(plan_.name()), "', instruction ", pc_,
        " uses the tensor value ", index, ", for which the file plans no memory",
        unbounded ? " because its shape has no bound: export the model with a bound on each dynamic size." : ".");
  }

  const fb::ExecutionPlan &plan_;
  Span<bool> allocated_;  // for each value: true for a tensor with memory, and for a list that was checked
  Error &error_;
  size_t pc_ = 0;
};

template <typename Visit>
Status for_each_instruction(const fb::ExecutionPlan &plan, Visit visit) {
  for (uint32_t chain = 0; chain < size_of(plan.chains()); ++chain) {
    const auto *instructions = plan.chains()->Get(chain)->instructions();
    for (uint32_t i = 0; i < size_of(instructions); ++i) EDGECORE_TRY(visit(*instructions->Get(i)));
  }
  return Status();
}

}  // namespace

Status Program::check_allocated(size_t method, Allocator &scratch, Error &error) const {
  const fb::ExecutionPlan &plan = *tables_->root->execution_plan()->Get(static_cast<uint32_t>(method));
  const size_t count = size_of(plan.values());
  bool *allocated = static_cast<bool *>(scratch.allocate(count == 0 ? 1 : count, 1));
  if (allocated == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory to check the ", count, " values of method '",
                view_of(plan.name()), "'.");
  }
  AllocationCheck check(plan, {allocated, count}, error);
  EDGECORE_TRY(for_each_instruction(
      plan, [&check](const fb::Instruction &instruction) { return check.note_binding(instruction); }));
  return for_each_instruction(plan, [&check](const fb::Instruction &instruction) { return check.check(instruction); });
}

}  // namespace edgecore
