// Checks what the flatbuffers verifier cannot check in a program. Later code relies on the results: indices are in
// range, required vectors exist, the size of each tensor in bytes does not overflow, and tensors with planned memory
// fit into their arenas.
#include "core/checked.h"
#include "core/program_tables.h"
#include "edgecore/scalar_type.h"

namespace edgecore {
namespace {

// Returns true if the entries of a vector are aligned to their size. The flatbuffers verifier checks only the alignment
// of the vector's 4-byte length field, which does not suffice for entries of eight bytes.
template <typename T>
bool is_aligned(const flatbuffers::Vector<T> *vector) {
  return vector == nullptr || reinterpret_cast<uintptr_t>(vector->data()) % sizeof(T) == 0;
}

// Limits::items limits the number of list entries in a file. Loading searches all kernels or backends for the name of
// each operator and delegate. A search counts as this many list entries, so that a damaged file cannot cause millions
// of searches.
constexpr uint64_t kLookupEntries = 4096;

class PlanValidator {
 public:
  PlanValidator(const ProgramTables &tables, const Limits &limits, const fb::ExecutionPlan &plan, uint64_t &items,
                Error &error)
      : tables_(tables), limits_(limits), plan_(plan), items_(items), error_(error), name_(view_of(plan.name())) {}

  Status validate() {
    EDGECORE_TRY(check_arenas());
    value_count_ = size_of(plan_.values());
    for (uint32_t i = 0; i < value_count_; ++i) EDGECORE_TRY(check_value(i));
    EDGECORE_TRY(check_indices("input", span_of(plan_.inputs())));
    EDGECORE_TRY(check_indices("output", span_of(plan_.outputs())));
    EDGECORE_TRY(count_items((uint64_t{size_of(plan_.operators())} + size_of(plan_.delegates())) * kLookupEntries));
    for (uint32_t i = 0; i < size_of(plan_.operators()); ++i) {
      if (plan_.operators()->Get(i)->name() == nullptr) return invalid("operator ", i, " has no name.");
    }
    for (uint32_t i = 0; i < size_of(plan_.delegates()); ++i) EDGECORE_TRY(check_delegate(i));
    if (size_of(plan_.chains()) == 0) return invalid("there are no instructions.");
    for (uint32_t i = 0; i < plan_.chains()->size(); ++i) EDGECORE_TRY(check_chain(i));
    return Status();
  }

 private:
  template <typename... Pieces>
  Status invalid(const Pieces &...pieces) {
    return fail(error_, EDGECORE_INVALID_PROGRAM, "Method '", name_, "': ", pieces...);
  }

  // Counts the entries of a list again each time that a table uses it: in a small file, many tables may use one long
  // list.
  Status count_items(uint64_t n) {
    items_ += n;
    if (items_ <= limits_.items) return Status();
    return invalid("the program's lists have more than ", limits_.items,
                   " entries together, an operator or delegate counting as ", kLookupEntries, " (limit items).");
  }

  Status check_arenas() {
    if (!is_aligned(plan_.non_const_buffer_sizes())) return invalid("its list of arena sizes is misaligned.");
    const Span<const int64_t> sizes = span_of(plan_.non_const_buffer_sizes());
    EDGECORE_TRY(count_items(sizes.size()));
    uint64_t total = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 0 || (i == 0 && sizes[i] != 0) || add_overflows(total, static_cast<uint64_t>(sizes[i]), &total)) {
        return invalid("planned memory ", i, " has size ", sizes[i], ".");
      }
    }
    if (total > limits_.planned_bytes) {
      return invalid("it plans ", total, " bytes of memory; the limit planned_bytes is ", limits_.planned_bytes, ".");
    }
    for (uint32_t i = 0; i < size_of(plan_.non_const_buffer_device()); ++i) {
      if (plan_.non_const_buffer_device()->Get(i)->device_type() != fb::DeviceType::CPU) {
        return fail(error_, EDGECORE_NOT_SUPPORTED, "Method '", name_, "' plans memory on device type ",
                    static_cast<int32_t>(plan_.non_const_buffer_device()->Get(i)->device_type()),
                    "; this runtime plans host memory only.");
      }
    }
    return Status();
  }

  Status check_value(uint32_t index) {
    const fb::EValue &value = *plan_.values()->Get(index);
    switch (value.val_type()) {
      case fb::KernelTypes::NONE:  // a value without a type counts as Python's None, like Null
      case fb::KernelTypes::Null:
        return Status();
      case fb::KernelTypes::Int:
      case fb::KernelTypes::Bool:
      case fb::KernelTypes::Double:
        return value.val() != nullptr ? Status() : no_content(index);
      case fb::KernelTypes::Tensor:
        return value.val() != nullptr ? check_tensor(index, *value.val_as_Tensor()) : no_content(index);
      case fb::KernelTypes::String:
        if (value.val() == nullptr || value.val_as_String()->string_val() == nullptr) return no_content(index);
        return count_items(value.val_as_String()->string_val()->size());
      case fb::KernelTypes::IntList:
        if (value.val() == nullptr || !is_aligned(value.val_as_IntList()->items())) return no_content(index);
        return check_int_list(index, span_of(value.val_as_IntList()->items()));
      case fb::KernelTypes::DoubleList:
        if (value.val() == nullptr || !is_aligned(value.val_as_DoubleList()->items())) return no_content(index);
        return count_items(size_of(value.val_as_DoubleList()->items()));
      case fb::KernelTypes::BoolList:
        return value.val() != nullptr ? count_items(size_of(value.val_as_BoolList()->items())) : no_content(index);
      case fb::KernelTypes::TensorList:
        return value.val() != nullptr ? check_tensor_list(index, span_of(value.val_as_TensorList()->items()), 0)
                                      : no_content(index);
      case fb::KernelTypes::OptionalTensorList:
        return value.val() != nullptr
                   ? check_tensor_list(index, span_of(value.val_as_OptionalTensorList()->items()), -1)
                   : no_content(index);
    }
    return invalid("value ", index, " has unknown kind ", static_cast<uint32_t>(value.val_type()), ".");
  }

  Status no_content(uint32_t index) {
    return invalid("value ", index, " has no content of its kind, or a misaligned one.");
  }

  bool is_kind(int64_t index, fb::KernelTypes kind) const {
    return index >= 0 && static_cast<uint64_t>(index) < value_count_ &&
           plan_.values()->Get(static_cast<uint32_t>(index))->val_type() == kind;
  }

  Status check_int_list(uint32_t index, Span<const int64_t> items) {
    EDGECORE_TRY(count_items(items.size()));
    for (size_t i = 0; i < items.size(); ++i) {
      if (!is_kind(items[i], fb::KernelTypes::Int)) {
        return invalid("entry ", i, " of the integer list in value ", index, " refers to value ", items[i],
                       ", which is not an integer.");
      }
    }
    return Status();
  }

  Status check_tensor_list(uint32_t index, Span<const int32_t> items, int32_t min_index) {
    EDGECORE_TRY(count_items(items.size()));
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i] == -1 && min_index == -1) continue;
      if (!is_kind(items[i], fb::KernelTypes::Tensor)) {
        return invalid("entry ", i, " of the tensor list in value ", index, " refers to value ", items[i],
                       ", which is not a tensor.");
      }
    }
    return Status();
  }

  Status check_tensor(uint32_t index, const fb::Tensor &tensor) {
    const Span<const int32_t> sizes = span_of(tensor.sizes());
    const Span<const uint8_t> order = span_of(tensor.dim_order());
    const ScalarTypeInfo type = scalar_type_info(static_cast<int32_t>(tensor.scalar_type()));
    if (type.size == 0) {
      return invalid("tensor value ", index, " has unknown element type ", static_cast<int32_t>(tensor.scalar_type()),
                     ".");
    }
    if (sizes.size() > limits_.rank || sizes.size() > 255 || order.size() != sizes.size()) {
      return invalid("tensor value ", index, " has ", sizes.size(), " sizes and ", order.size(),
                     " entries of dim order (limit rank ", limits_.rank, ").");
    }
    EDGECORE_TRY(count_items(sizes.size()));
    uint32_t seen[8] = {};  // one bit per dim: bools would need too much of a microcontroller's stack
    for (const uint8_t dim : order) {
      const uint32_t bit = 1u << dim % 32;
      if (dim >= order.size() || (seen[dim / 32] & bit) != 0) {
        return invalid("tensor value ", index, " has dim order ", order, ", which is no permutation.");
      }
      seen[dim / 32] |= bit;
    }
    // Count a size of 0 as 1, as update_strides does, so that this check also bounds the strides.
    uint64_t reach = type.size;
    for (const int32_t size : sizes) {
      if (size < 0 || multiply_overflows(reach, size == 0 ? 1 : static_cast<uint64_t>(size), &reach) ||
          reach > limits_.tensor_bytes || reach > SIZE_MAX / 2) {
        return invalid("tensor value ", index, " of ", type.name, " with sizes ", sizes,
                       " exceeds the limit tensor_bytes ", limits_.tensor_bytes, " or has a negative size.");
      }
    }
    if (tensor.storage_offset() != 0 || tensor.layout() != 0) {
      return invalid("tensor value ", index, " has storage offset ", tensor.storage_offset(), " and layout ",
                     static_cast<int32_t>(tensor.layout()), "; both must be 0.");
    }
    if (tensor.shape_dynamism() > fb::TensorShapeDynamism::DYNAMIC_UNBOUND) {
      return invalid("tensor value ", index, " has unknown shape dynamism ",
                     static_cast<int32_t>(tensor.shape_dynamism()), ".");
    }
    return check_memory(index, tensor, type.size);
  }

  Status check_memory(uint32_t index, const fb::Tensor &tensor, uint8_t element_size) {
    if (const fb::ExtraTensorInfo *extra = tensor.extra_tensor_info()) {
      if (extra->device_type() != fb::DeviceType::CPU) {
        return fail(error_, EDGECORE_NOT_SUPPORTED, "Method '", name_, "': tensor value ", index, " is on device type ",
                    static_cast<int32_t>(extra->device_type()), "; this runtime has host tensors only.");
      }
      if (is_external(tensor) && extra->fully_qualified_name() == nullptr) {
        return invalid("tensor value ", index, " is external data without a name.");
      }
    }
    if (const fb::AllocationDetails *allocation = tensor.allocation_info()) {
      const Span<const int64_t> arenas = span_of(plan_.non_const_buffer_sizes());
      const uint64_t offset = planned_offset(*allocation);
      if (allocation->memory_id() == 0 || allocation->memory_id() >= arenas.size() || offset % element_size != 0 ||
          !contains(static_cast<uint64_t>(arenas[allocation->memory_id()]), offset, tensor_bytes(tensor))) {
        return invalid("tensor value ", index, " (", tensor_bytes(tensor), " bytes) is planned at offset ", offset,
                       " of memory ", allocation->memory_id(), ", which is too small, misaligned or does not exist.");
      }
    }
    if (tensor.data_buffer_idx() == 0 || is_external(tensor)) return Status();
    Error reason;
    TensorPlace at;
    if (!find_tensor_data(tables_, tensor, at, reason).ok()) {
      return invalid("tensor value ", index, ": ", reason.sentence(), ".");
    }
    // initial data of a mutable buffer may be misaligned: it is copied to an arena
    if (tensor.allocation_info() != nullptr) return Status();
    const uint64_t address = at.in_flatbuffer == nullptr ? tables_.segments[at.segment].offset + at.offset
                                                         : reinterpret_cast<uintptr_t>(at.in_flatbuffer);
    if (address % element_size != 0) {
      return invalid("tensor value ", index, " is a constant at a place that is no multiple of its element size ",
                     element_size, ": the file is damaged.");
    }
    return Status();
  }

  Status check_indices(StringView what, Span<const int32_t> indices) {
    EDGECORE_TRY(count_items(indices.size()));
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || static_cast<size_t>(indices[i]) >= value_count_) {
        return invalid(what, " ", i, " refers to value ", indices[i], " of ", value_count_, ".");
      }
    }
    return Status();
  }

  Status check_delegate(uint32_t index) {
    const fb::BackendDelegate &delegate = *plan_.delegates()->Get(index);
    if (delegate.id() == nullptr || delegate.processed() == nullptr) {
      return invalid("delegate ", index, " has no backend id or no blob.");
    }
    const uint32_t blob = delegate.processed()->index();
    const bool in_segment = delegate.processed()->location() == fb::DataLocation::SEGMENT;
    const size_t count = in_segment ? tables_.segments.size() : size_of(tables_.root->backend_delegate_data());
    if (delegate.processed()->location() > fb::DataLocation::SEGMENT || blob >= count) {
      return invalid("the blob of delegate ", index, " (", view_of(delegate.id()), ") is number ", blob, " of ", count,
                     " at location ", static_cast<int32_t>(delegate.processed()->location()), ".");
    }
    for (uint32_t i = 0; i < size_of(delegate.compile_specs()); ++i) {
      if (delegate.compile_specs()->Get(i)->key() == nullptr) {
        return invalid("compile spec ", i, " of delegate ", index, " has no key.");
      }
    }
    return Status();
  }

  bool is_scalar(int32_t index) const {
    const fb::KernelTypes kind = plan_.values()->Get(static_cast<uint32_t>(index))->val_type();
    return kind <= fb::KernelTypes::Double;
  }

  Status check_chain(uint32_t chain_index) {
    const auto *instructions = plan_.chains()->Get(chain_index)->instructions();
    for (uint32_t i = 0; i < size_of(instructions); ++i) {
      const fb::Instruction &instruction = *instructions->Get(i);
      if (instruction.instr_args() == nullptr) return invalid("instruction ", i, " is empty.");
      where_ = i;
      switch (instruction.instr_args_type()) {
        case fb::InstructionArguments::KernelCall: {
          const fb::KernelCall &call = *instruction.instr_args_as_KernelCall();
          if (!in_range(call.op_index(), size_of(plan_.operators()))) return bad_target("operator", call.op_index());
          EDGECORE_TRY(check_arguments(span_of(call.args())));
          break;
        }
        case fb::InstructionArguments::DelegateCall: {
          const fb::DelegateCall &call = *instruction.instr_args_as_DelegateCall();
          if (!in_range(call.delegate_index(), size_of(plan_.delegates()))) {
            return bad_target("delegate", call.delegate_index());
          }
          EDGECORE_TRY(check_arguments(span_of(call.args())));
          break;
        }
        case fb::InstructionArguments::MoveCall: {
          const fb::MoveCall &move = *instruction.instr_args_as_MoveCall();
          if (!in_range(move.move_from(), value_count_)) return bad_target("value", move.move_from());
          if (!in_range(move.move_to(), value_count_)) return bad_target("value", move.move_to());
          const bool scalars = is_scalar(move.move_from()) && is_scalar(move.move_to());
          const bool tensors =
              is_kind(move.move_from(), fb::KernelTypes::Tensor) && is_kind(move.move_to(), fb::KernelTypes::Tensor);
          if (!scalars && !tensors) {
            return invalid("instruction ", i, " moves value ", move.move_from(), " to value ", move.move_to(),
                           "; both must be scalars or both tensors.");
          }
          break;
        }
        case fb::InstructionArguments::JumpFalseCall: {
          const fb::JumpFalseCall &jump = *instruction.instr_args_as_JumpFalseCall();
          if (!in_range(jump.cond_value_index(), value_count_)) return bad_target("value", jump.cond_value_index());
          if (!in_range(jump.destination_instruction(), uint64_t{instructions->size()} + 1)) {
            return bad_target("instruction", jump.destination_instruction());
          }
          break;
        }
        case fb::InstructionArguments::FreeCall: {
          const int32_t value = instruction.instr_args_as_FreeCall()->value_index();
          if (!is_kind(value, fb::KernelTypes::Tensor)) return bad_target("tensor value", value);
          break;
        }
        default:
          return invalid("instruction ", i, " has unknown kind ", static_cast<uint32_t>(instruction.instr_args_type()),
                         ".");
      }
    }
    return Status();
  }

  static bool in_range(int32_t index, uint64_t count) { return index >= 0 && static_cast<uint64_t>(index) < count; }

  Status bad_target(StringView what, int32_t index) {
    return invalid("instruction ", where_, " refers to ", what, " ", index, ", which does not exist.");
  }

  Status check_arguments(Span<const int32_t> args) {
    EDGECORE_TRY(count_items(args.size()));
    for (size_t i = 0; i < args.size(); ++i) {
      if (!in_range(args[i], value_count_)) return bad_target("value", args[i]);
    }
    return Status();
  }

  const ProgramTables &tables_;
  const Limits &limits_;
  const fb::ExecutionPlan &plan_;
  uint64_t &items_;
  Error &error_;
  StringView name_;
  size_t value_count_ = 0;
  uint32_t where_ = 0;
};

// Maximum number of memory needs (requests for memory) of a delegate. The number is limited because each need is
// compared with every other need.
constexpr size_t kMaxNeeds = 256;

// The size, multiple and offset of every dim are below this limit, so 64-bit arithmetic on them cannot overflow.
constexpr int64_t kSizeLimit = int64_t{1} << 31;

// Checks the metadata of inputs or outputs, if the file has any. Symbolic sizes must be numbered in the order of their
// first use; `symbols` is the number of symbolic sizes so far; this function adds the new symbolic sizes to `symbols`.
Status validate_arguments(const fb::ExecutionPlan &plan, const ArgumentMetas *arguments, Span<const int32_t> values,
                          int32_t &symbols, Error &error) {
  bool fits = size_of(arguments) == 0 || size_of(arguments) == values.size();
  for (uint32_t i = 0; fits && i < size_of(arguments); ++i) {
    const DimMetas *dims = dims_of(arguments->Get(i));
    if (dims == nullptr) continue;
    const fb::Tensor *tensor = plan.values()->Get(static_cast<uint32_t>(values[i]))->val_as_Tensor();
    fits = tensor != nullptr && size_of(tensor->sizes()) == dims->size();
    for (uint32_t d = 0; fits && d < dims->size(); ++d) {
      const fb::meta::Dim &dim = *dims->Get(d);
      fits = dim.min() >= 0 && dim.min() <= tensor->sizes()->Get(d) && dim.multiple() > 0 &&
             dim.multiple() < kSizeLimit && dim.offset() > -kSizeLimit && dim.offset() < kSizeLimit &&
             dim.symbol() >= -1 && dim.symbol() <= symbols;
      if (fits && dim.symbol() == symbols) ++symbols;
    }
  }
  if (fits) return Status();
  return fail(error, EDGECORE_INVALID_PROGRAM, "Metadata of method '", view_of(plan.name()),
              "': its inputs, outputs or their dims are not those of the program.");
}

bool is_digest(const flatbuffers::Vector<uint8_t> *digest) { return size_of(digest) == 0 || size_of(digest) == 32; }

Status validate_digests(const fb::meta::Meta &meta, Error &error) {
  bool fits = is_digest(meta.constants_sha256()) && is_digest(meta.state_sha256());
  for (uint32_t i = 0; fits && i < size_of(meta.data()); ++i) {
    fits = meta.data()->Get(i)->key() != nullptr && size_of(meta.data()->Get(i)->sha256()) == 32;
  }
  if (fits) return Status();
  return fail(error, EDGECORE_INVALID_PROGRAM, "The metadata has a SHA-256 that is not of 32 bytes, or without a key.");
}

Status validate_meta(const ProgramTables &tables, Error &error) {
  EDGECORE_TRY(validate_digests(*tables.meta, error));
  for (uint32_t i = 0; i < tables.method_metas.size(); ++i) {
    if (tables.method_metas[i] == nullptr) continue;
    const fb::meta::Method &method = *tables.method_metas[i];
    const fb::ExecutionPlan &plan = *tables.root->execution_plan()->Get(i);
    int32_t symbols = 0;
    EDGECORE_TRY(validate_arguments(plan, method.inputs(), span_of(plan.inputs()), symbols, error));
    EDGECORE_TRY(validate_arguments(plan, method.outputs(), span_of(plan.outputs()), symbols, error));
    for (uint32_t j = 0; j < size_of(method.delegates()); ++j) {
      const fb::meta::Delegate &delegate = *method.delegates()->Get(j);
      if (size_of(delegate.sha256()) == 32 && size_of(delegate.memory()) <= kMaxNeeds) continue;
      return fail(error, EDGECORE_INVALID_PROGRAM, "Metadata of method '", view_of(method.name()), "', delegate ", j,
                  ": its SHA-256 has ", size_of(delegate.sha256()), " bytes, and it declares ",
                  size_of(delegate.memory()), " memory needs (at most ", kMaxNeeds, ").");
    }
  }
  return Status();
}

}  // namespace

Status validate_program(const ProgramTables &tables, const Limits &limits, Error &error) {
  const auto *plans = tables.root->execution_plan();
  if (size_of(plans) == 0) return fail(error, EDGECORE_INVALID_PROGRAM, "The program has no methods.");
  if (plans->size() > limits.methods) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "The program has ", plans->size(), " methods; the limit methods is ",
                limits.methods, ".");
  }
  const auto *constants = tables.root->constant_segment();
  bool aligned = constants == nullptr || is_aligned(constants->offsets());
  for (uint32_t i = 0; i < size_of(tables.root->mutable_data_segments()); ++i) {
    aligned = aligned && is_aligned(tables.root->mutable_data_segments()->Get(i)->offsets());
  }
  if (!aligned) return fail(error, EDGECORE_INVALID_PROGRAM, "The program's data offsets are misaligned.");
  uint64_t items = 0;
  for (uint32_t i = 0; i < plans->size(); ++i) {
    const fb::ExecutionPlan &plan = *plans->Get(i);
    if (plan.name() == nullptr) return fail(error, EDGECORE_INVALID_PROGRAM, "Method ", i, " has no name.");
    EDGECORE_TRY(PlanValidator(tables, limits, plan, items, error).validate());
  }
  return tables.meta == nullptr ? Status() : validate_meta(tables, error);
}

}  // namespace edgecore
