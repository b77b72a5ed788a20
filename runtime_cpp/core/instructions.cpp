// Decodes a method's instructions and finds the kernels that they call.
#include "core/method_impl.h"
#include "edgecore/scalar_type.h"

namespace edgecore {
namespace {

// Returns true if the last entry of `args` is the result of the call. A .pte appends the result to the arguments if the
// kernel has out arguments. The last entry is then the same tensor or list of tensors as an earlier argument, a list
// with the same tensors as the argument before it (ExecuTorch's split), or a list of the arguments before it. Adds the
// number of compared list entries to `compared`.
bool repeats_result(const MethodImpl &method, Span<const int32_t> args, uint64_t &compared) {
  if (args.size() < 2) return false;
  const size_t last = args.size() - 1;
  const size_t result = static_cast<size_t>(args[last]);
  const ListSlot *list = method.bindings.list_of[result];
  for (size_t i = 0; i < last; ++i) {
    if (args[i] == args[last]) {
      return method.bindings.tensor_of[result] != nullptr || (list != nullptr && !list->tensor_values.empty());
    }
  }
  if (list == nullptr || list->tensor_values.empty()) return false;
  const ListSlot *before = method.bindings.list_of[static_cast<size_t>(args[last - 1])];
  if (before != nullptr && before->tensor_values.size() == list->tensor_values.size()) {
    bool same = true;
    compared += list->tensor_values.size();
    for (size_t i = 0; i < list->tensor_values.size(); ++i) {
      same = same && list->tensor_values[i] == before->tensor_values[i];
    }
    return same;
  }
  if (list->tensor_values.size() > last) return false;
  const size_t first = last - list->tensor_values.size();
  for (size_t i = 0; i < list->tensor_values.size(); ++i) {
    if (list->tensor_values[i] != args[first + i]) return false;
  }
  return true;
}

// Returns true if a move instruction may bind `tensor` to the memory of `moved`. Kernels and delegates were prepared
// for `tensor` as declared. So `moved` must have the dtype and dim order of `tensor`, and must not have a larger
// maximum shape.
bool can_replace(const edgecore_tensor &moved, const edgecore_tensor &tensor) {
  if (moved.scalar_type != tensor.scalar_type || moved.dl.ndim != tensor.dl.ndim) return false;
  for (int32_t i = 0; i < tensor.dl.ndim; ++i) {
    if (moved.dim_order[i] != tensor.dim_order[i] || moved.max_shape[i] > tensor.max_shape[i]) return false;
  }
  return true;
}

void append_operator(Error &error, OperatorName name) {
  append(error, name.name);
  if (name.overload.empty()) return;
  append(error, ".");
  append(error, name.overload);
}

struct KernelMatch {
  const edgecore_kernel *kernel = nullptr;
  const edgecore_kernel_library *library = nullptr;
};

KernelMatch find_kernel(const edgecore_kernel_library &library, OperatorName name) {
  const uint8_t *entry = reinterpret_cast<const uint8_t *>(library.kernels);
  for (uint64_t i = 0; i < library.kernel_count; ++i, entry += library.kernel_stride) {
    const edgecore_kernel *kernel = reinterpret_cast<const edgecore_kernel *>(entry);
    if (StringView(kernel->name) == name.name && StringView(kernel->overload) == name.overload) {
      return {kernel, &library};
    }
  }
  return {};
}

uint64_t dtype_bit(const edgecore_tensor &tensor) { return uint64_t{1} << (tensor.scalar_type & 63); }

// Collects for each operator, in Kernel::dtypes, the dtypes of all tensors that the method passes to it.
Status collect_dtypes(const MethodImpl &method, Error &error) {
  uint64_t entries = 0;
  for (const Instruction &instruction : method.instructions) {
    if (instruction.op != Op::kKernel) continue;
    uint64_t &dtypes = method.kernels[instruction.target].dtypes;
    for (const int32_t arg : instruction.args) {
      const auto value = static_cast<size_t>(arg);
      if (const TensorSlot *slot = method.bindings.tensor_of[value]) dtypes |= dtype_bit(slot->tensor);
      const ListSlot *list = method.bindings.list_of[value];
      if (list == nullptr) continue;
      entries += list->tensor_values.size();
      if (entries > method.owner->limits().items) {
        return fail(error, EDGECORE_INVALID_PROGRAM, "Method '", method.name,
                    "': the arguments of kernels have more than ", method.owner->limits().items,
                    " list entries together (limit items).");
      }
      for (const int32_t entry : list->tensor_values) {
        if (entry >= 0) dtypes |= dtype_bit(method.bindings.tensor_of[static_cast<size_t>(entry)]->tensor);
      }
    }
  }
  return Status();
}

// Appends the dtypes in a bit mask to an error message, such as " for float64 and int8".
void append_dtypes(Error &error, uint64_t dtypes) {
  const char *before = " for ";
  for (int32_t type = 0; type < 64; ++type) {
    if ((dtypes >> type & 1) == 0) continue;
    append(error, before);
    append(error, scalar_type_info(type).name);
    before = " and ";
  }
}

}  // namespace

OperatorName MethodImpl::operator_name(size_t kernel) const { return owner->method(index).operator_name(kernel); }

Status MethodImpl::build_instructions(Error &error) {
  EDGECORE_TRY(make_array(owner->method(index).instruction_count(), instructions, error));
  size_t pc = 0;
  size_t max_args = 0;
  size_t moves = 0;
  uint64_t compared = 0;
  for (uint32_t chain = 0; chain < plan->chains()->size(); ++chain) {
    const size_t first = pc;
    const auto *list = plan->chains()->Get(chain)->instructions();
    for (uint32_t i = 0; i < size_of(list); ++i, ++pc) {
      const fb::Instruction &source = *list->Get(i);
      Instruction &out = instructions[pc];
      switch (source.instr_args_type()) {
        case fb::InstructionArguments::KernelCall: {
          const fb::KernelCall &call = *source.instr_args_as_KernelCall();
          const OperatorName op = operator_name(static_cast<size_t>(call.op_index()));
          out.op = Op::kKernel;
          out.target = static_cast<uint32_t>(call.op_index());
          out.args = span_of(call.args());
          if (out.args.empty()) {
            return fail(error, EDGECORE_INVALID_PROGRAM, "Method '", name, "', instruction ", pc, ": operator ",
                        op.name, " is called without arguments.");
          }
          out.result = static_cast<uint32_t>(out.args[out.args.size() - 1]);
          if (repeats_result(*this, out.args, compared)) out.args = {out.args.data(), out.args.size() - 1};
          if (compared > owner->limits().items) {
            return fail(error, EDGECORE_INVALID_PROGRAM, "Method '", name, "', instruction ", pc,
                        ": the results of instructions repeat more than ", owner->limits().items,
                        " list entries together (limit items).");
          }
          out.is_view = op.name == "executorch_prim::et_view";
          break;
        }
        case fb::InstructionArguments::DelegateCall: {
          const fb::DelegateCall &call = *source.instr_args_as_DelegateCall();
          out.op = Op::kDelegate;
          out.target = static_cast<uint32_t>(call.delegate_index());
          out.args = span_of(call.args());
          break;
        }
        case fb::InstructionArguments::MoveCall:
          out.op = Op::kMove;
          out.target = static_cast<uint32_t>(source.instr_args_as_MoveCall()->move_from());
          out.result = static_cast<uint32_t>(source.instr_args_as_MoveCall()->move_to());
          bindings.uses[out.target] |= kIsRead;
          if (bindings.tensor_of[out.result] == nullptr) break;
          if (!can_replace(bindings.tensor_of[out.target]->tensor, bindings.tensor_of[out.result]->tensor)) {
            return fail(error, EDGECORE_INVALID_PROGRAM, "Method '", name, "', instruction ", pc, " moves value ",
                        out.target, " to value ", out.result,
                        ", a tensor of another element type, rank or dim order, or of a smaller maximum shape.");
          }
          ++moves;
          break;
        case fb::InstructionArguments::JumpFalseCall:
          out.op = Op::kJumpFalse;
          out.target = static_cast<uint32_t>(source.instr_args_as_JumpFalseCall()->cond_value_index());
          out.jump_target = static_cast<uint32_t>(first) +
                            static_cast<uint32_t>(source.instr_args_as_JumpFalseCall()->destination_instruction());
          bindings.uses[out.target] |= kIsRead;
          break;
        default:  // the instruction is a FreeCall, because validate_program refuses all other types
          out.op = Op::kFree;
          out.target = static_cast<uint32_t>(source.instr_args_as_FreeCall()->value_index());
          break;
      }
      if (out.args.size() > max_args) max_args = out.args.size();
      for (const int32_t arg : out.args) {
        uint8_t &uses = bindings.uses[static_cast<size_t>(arg)];
        if ((uses & kHasReadEntries) != 0) continue;
        uses |= kIsRead | kHasReadEntries;
        if (const ListSlot *slot = bindings.list_of[static_cast<size_t>(arg)]) {
          for (const int64_t entry : slot->int_values) bindings.uses[static_cast<size_t>(entry)] |= kIsRead;
        }
      }
    }
  }
  EDGECORE_TRY(make_array(max_args, run_state.args, error));
  return build_rebound(moves, error);
}

Status MethodImpl::build_rebound(size_t move_count, Error &error) {
  EDGECORE_TRY(make_array(move_count, bindings.moved, error));
  size_t rebind_count = 0;
  size_t moves = 0;
  for (const Instruction &instruction : instructions) {
    if (instruction.op == Op::kMove && bindings.tensor_of[instruction.result] != nullptr) {
      bindings.moved[moves++] = static_cast<int32_t>(instruction.result);
      // Mark the source: after the move, the destination is the source's tensor, so a view that rebinds the destination
      // rebinds this tensor.
      bindings.uses[instruction.target] |= kIsRebound;
    }
    if (!instruction.is_view) continue;
    bindings.uses[static_cast<size_t>(instruction.args[instruction.args.size() - 1])] |= kIsRebound;
  }
  for (size_t i = 0; i < bindings.values.size(); ++i) {
    if (bindings.tensor_of[i] == nullptr) continue;
    const Storage storage = bindings.tensor_of[i]->storage;
    if (storage == Storage::kInput || storage == Storage::kOutput || storage == Storage::kView) {
      bindings.uses[i] |= kIsRebound;
    }
    if ((bindings.uses[i] & kIsRebound) != 0) ++rebind_count;
  }
  EDGECORE_TRY(make_array(rebind_count, bindings.rebound, error));
  Span<BaseStorage> bases;
  EDGECORE_TRY(make_array(rebind_count, bases, error));
  rebind_count = 0;
  for (size_t i = 0; i < bindings.values.size(); ++i) {
    TensorSlot *slot = bindings.tensor_of[i];
    if (slot == nullptr || (bindings.uses[i] & kIsRebound) == 0) continue;
    slot->base = &bases[rebind_count];
    *slot->base = storage_of(*slot);
    bindings.rebound[rebind_count++] = slot;
  }
  return Status();
}

Status MethodImpl::resolve_kernels(Error &error) {
  const MethodInfo info = owner->method(index);
  EDGECORE_TRY(make_array(info.operator_count(), kernels, error));
  for (const edgecore_kernel_library *library : config.kernels) {
    if ((library->flags & EDGECORE_KERNELS_SELECTED) == 0) continue;
    EDGECORE_TRY(collect_dtypes(*this, error));
    break;
  }
  size_t missing = 0;
  size_t other_dtypes = 0;  // number of operators that have no kernel for all of their dtypes in the method
  for (size_t i = 0; i < kernels.size(); ++i) {
    const OperatorName op = operator_name(i);
    KernelMatch match;
    for (const edgecore_kernel_library *library : config.kernels) {
      const KernelMatch candidate = find_kernel(*library, op);
      if (candidate.kernel == nullptr) continue;
      if (match.kernel != nullptr) {
        const Status status = fail(error, EDGECORE_REGISTRATION_ALREADY_REGISTERED, "Method '", name, "': operator ");
        append_operator(error, op);
        append(error, " has a kernel in package '");
        append(error, StringView(match.library->package));
        append(error, "' and another in '");
        append(error, StringView(library->package));
        append(error, "'; load one of them.");
        return status;
      }
      match = candidate;
    }
    if (match.kernel == nullptr) {
      ++missing;
      continue;
    }
    kernels[i].run = match.kernel->run;
    kernels[i].is_own = StringView(match.library->package) == StringView("edgecore");
    const bool is_selected = (match.library->flags & EDGECORE_KERNELS_SELECTED) != 0;
    const uint64_t without = is_selected ? kernels[i].dtypes & ~match.kernel->dtypes : 0;
    if (without == 0 || missing != 0) continue;
    if (other_dtypes++ == 0) {
      (void)fail(error, EDGECORE_OPERATOR_MISSING, "Method '", name,
                 "' calls kernels that were selected without its dtypes: ");
    } else {
      append(error, ", ");
    }
    append_operator(error, op);
    append_dtypes(error, without);
  }
  if (missing == 0) {
    return other_dtypes == 0 ? Status() : extend(error, ". Name its file in edgecore_kernels().");
  }
  const Status status = fail(error, EDGECORE_OPERATOR_MISSING, "Method '", name, "' needs ", missing,
                             missing == 1 ? " operator that has no kernel: " : " operators that have no kernel: ");
  bool first = true;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].run != nullptr) continue;
    if (!first) append(error, ", ");
    first = false;
    append_operator(error, operator_name(i));
  }
  append(error, ". Load a library that has them.");
  return status;
}

}  // namespace edgecore
