#include "host/placed.h"

#include <vector>

#include "core/program_tables.h"

namespace edgecore {
namespace {

class Check {
 public:
  Check(const fb::ExecutionPlan &plan, Error &error)
      : plan_(plan), error_(error), placed_(size_of(plan.values()), false) {
    for (uint32_t i = 0; i < placed_.size(); ++i) {
      const fb::Tensor *tensor = value_at(static_cast<int32_t>(i)).val_as_Tensor();
      placed_[i] = tensor != nullptr && (tensor->allocation_info() != nullptr || tensor->data_buffer_idx() != 0 ||
                                         is_external(*tensor) || tensor_bytes(*tensor) == 0);
    }
    for (const int32_t input : span_of(plan.inputs())) place(input);
    for (const int32_t output : span_of(plan.outputs())) place(output);
  }

  // What views and moves bind, whenever they do it.
  void bind(const fb::Instruction &instruction) {
    if (const fb::MoveCall *move = instruction.instr_args_as_MoveCall()) place(move->move_to());
    const fb::KernelCall *call = instruction.instr_args_as_KernelCall();
    if (call == nullptr || size_of(call->args()) == 0) return;
    const fb::Operator &op = *plan_.operators()->Get(static_cast<uint32_t>(call->op_index()));
    if (view_of(op.name()) == "executorch_prim::et_view") place(call->args()->Get(call->args()->size() - 1));
  }

  Status uses(const fb::Instruction &instruction) {
    if (const fb::KernelCall *call = instruction.instr_args_as_KernelCall()) EDGECORE_TRY(use_all(call->args()));
    if (const fb::DelegateCall *call = instruction.instr_args_as_DelegateCall()) EDGECORE_TRY(use_all(call->args()));
    if (const fb::MoveCall *move = instruction.instr_args_as_MoveCall()) EDGECORE_TRY(use(move->move_from()));
    ++pc_;
    return {};
  }

 private:
  const fb::EValue &value_at(int32_t value) const { return *plan_.values()->Get(static_cast<uint32_t>(value)); }
  void place(int32_t value) { placed_[static_cast<size_t>(value)] = true; }

  Status use_all(const flatbuffers::Vector<int32_t> *values) {
    for (const int32_t value : span_of(values)) EDGECORE_TRY(use(value));
    return {};
  }

  Status use(int32_t value) {
    if (value < 0 || placed_[static_cast<size_t>(value)]) return {};  // a list of optional tensors has -1 for none
    const fb::EValue &what = value_at(value);
    const fb::Tensor *tensor = what.val_as_Tensor();
    if (tensor == nullptr) {
      place(value);  // each list is looked through once
      if (const fb::TensorList *list = what.val_as_TensorList()) return use_all(list->items());
      const fb::OptionalTensorList *list = what.val_as_OptionalTensorList();
      return list == nullptr ? Status() : use_all(list->items());
    }
    const bool unbounded = tensor->shape_dynamism() == fb::TensorShapeDynamism::DYNAMIC_UNBOUND;
    return fail(
        error_, EDGECORE_NOT_SUPPORTED, "Method '", view_of(plan_.name()), "', instruction ", pc_,
        " uses the tensor value ", value, ", for which the file plans no memory",
        unbounded ? " because its shape has no bound: export the model with a bound on each dynamic size." : ".");
  }

  const fb::ExecutionPlan &plan_;
  Error &error_;
  std::vector<bool> placed_;
  size_t pc_ = 0;
};

}  // namespace

Status check_placed(const Program &program, size_t method, Error &error) {
  const fb::ExecutionPlan &plan = *program.tables().root->execution_plan()->Get(static_cast<uint32_t>(method));
  Check check(plan, error);
  const auto each = [&plan](auto what) {
    for (uint32_t chain = 0; chain < size_of(plan.chains()); ++chain) {
      const auto *instructions = plan.chains()->Get(chain)->instructions();
      for (uint32_t i = 0; i < size_of(instructions); ++i) EDGECORE_TRY(what(*instructions->Get(i)));
    }
    return Status();
  };
  EDGECORE_TRY(each([&check](const fb::Instruction &instruction) {
    check.bind(instruction);
    return Status();
  }));
  return each([&check](const fb::Instruction &instruction) { return check.uses(instruction); });
}

}  // namespace edgecore
