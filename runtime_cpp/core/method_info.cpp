// Implements MethodInfo, which describes a method of a validated program: its inputs, outputs, operators and delegates.
#include "core/checked.h"
#include "core/program_tables.h"
#include "edgecore/program.h"
#include "edgecore/scalar_type.h"

namespace edgecore {
namespace {

const fb::ExecutionPlan &plan_of(const Program *program, size_t index) {
  return *program->tables().root->execution_plan()->Get(static_cast<uint32_t>(index));
}

const ArgumentMetas *inputs_of(const Program *program, size_t index) {
  const fb::meta::Method *meta = method_meta(program->tables(), index);
  return meta == nullptr ? nullptr : meta->inputs();
}

const ArgumentMetas *outputs_of(const Program *program, size_t index) {
  const fb::meta::Method *meta = method_meta(program->tables(), index);
  return meta == nullptr ? nullptr : meta->outputs();
}

DimInfo dim_info(const TensorInfo &tensor, const fb::meta::Argument *argument, size_t index) {
  DimInfo info;
  info.max = tensor.sizes[index];
  info.min = tensor.shape_kind == EDGECORE_SHAPE_STATIC ? info.max : 0;
  const DimMetas *dims = dims_of(argument);
  if (dims == nullptr) return info;
  const fb::meta::Dim &dim = *dims->Get(static_cast<uint32_t>(index));
  info.name = view_of(dim.name());
  info.min = dim.min();
  info.max = max_of(dim, info.max);
  info.symbol = dim.symbol();
  info.multiple = dim.multiple();
  info.offset = dim.offset();
  return info;
}

ValueInfo value_info(const fb::ExecutionPlan &plan, int32_t index) {
  const fb::EValue &value = *plan.values()->Get(static_cast<uint32_t>(index));
  ValueInfo info;
  switch (value.val_type()) {
    case fb::KernelTypes::Tensor: {
      const fb::Tensor &tensor = *value.val_as_Tensor();
      info.tag = EDGECORE_TAG_TENSOR;
      info.tensor.scalar_type = static_cast<int32_t>(tensor.scalar_type());
      const bool is_static = tensor.shape_dynamism() == fb::TensorShapeDynamism::STATIC;
      info.tensor.shape_kind = is_static ? EDGECORE_SHAPE_STATIC : EDGECORE_SHAPE_BOUNDED;
      info.tensor.sizes = span_of(tensor.sizes());
      info.tensor.dim_order = span_of(tensor.dim_order());
      info.tensor.bytes = tensor_bytes(tensor);
      info.tensor.planned = tensor.allocation_info() != nullptr || tensor.data_buffer_idx() != 0 || is_external(tensor);
      return info;
    }
    case fb::KernelTypes::Int:
      info.tag = EDGECORE_TAG_INT;
      return info;
    case fb::KernelTypes::Double:
      info.tag = EDGECORE_TAG_DOUBLE;
      return info;
    case fb::KernelTypes::Bool:
      info.tag = EDGECORE_TAG_BOOL;
      return info;
    case fb::KernelTypes::String:
      info.tag = EDGECORE_TAG_STRING;
      return info;
    case fb::KernelTypes::IntList:
      info.tag = EDGECORE_TAG_INT_LIST;
      return info;
    case fb::KernelTypes::DoubleList:
      info.tag = EDGECORE_TAG_DOUBLE_LIST;
      return info;
    case fb::KernelTypes::BoolList:
      info.tag = EDGECORE_TAG_BOOL_LIST;
      return info;
    case fb::KernelTypes::TensorList:
    case fb::KernelTypes::OptionalTensorList:
      info.tag = EDGECORE_TAG_TENSOR_LIST;
      return info;
    default:
      return info;
  }
}

}  // namespace

StringView MethodInfo::name() const { return view_of(plan_of(program_, index_).name()); }

size_t MethodInfo::input_count() const { return size_of(plan_of(program_, index_).inputs()); }

ValueInfo MethodInfo::input(size_t index) const {
  const fb::ExecutionPlan &plan = plan_of(program_, index_);
  ValueInfo info = value_info(plan, plan.inputs()->Get(static_cast<uint32_t>(index)));
  info.name = input_name(index);
  return info;
}

StringView MethodInfo::input_name(size_t index) const {
  return name_of(argument_at(inputs_of(program_, index_), index));
}

DimInfo MethodInfo::input_dim(size_t index, size_t dim) const {
  return dim_info(input(index).tensor, argument_at(inputs_of(program_, index_), index), dim);
}

Result<size_t> MethodInfo::find_input(StringView wanted, Error &error) const {
  const ArgumentMetas *inputs = inputs_of(program_, index_);
  for (uint32_t i = 0; i < size_of(inputs); ++i) {
    if (name_of(inputs->Get(i)) == wanted) return static_cast<size_t>(i);
  }
  const Status status =
      fail(error, EDGECORE_NOT_FOUND, "Method '", name(), "' has no input '", wanted, "'; ",
           size_of(inputs) == 0 ? StringView("the file holds no names of inputs") : StringView("it takes "));
  for (uint32_t i = 0; i < size_of(inputs); ++i) {
    (void)extend(error, i == 0 ? "'" : ", '", name_of(inputs->Get(i)), "'");
  }
  append(error, ".");
  return status;
}

size_t MethodInfo::output_count() const { return size_of(plan_of(program_, index_).outputs()); }

ValueInfo MethodInfo::output(size_t index) const {
  const fb::ExecutionPlan &plan = plan_of(program_, index_);
  ValueInfo info = value_info(plan, plan.outputs()->Get(static_cast<uint32_t>(index)));
  info.name = name_of(argument_at(outputs_of(program_, index_), index));
  return info;
}

StringView MethodInfo::input_containers() const {
  const fb::ContainerMetadata *containers = plan_of(program_, index_).container_meta_type();
  return containers == nullptr ? StringView() : view_of(containers->encoded_inp_str());
}

StringView MethodInfo::output_containers() const {
  const fb::ContainerMetadata *containers = plan_of(program_, index_).container_meta_type();
  return containers == nullptr ? StringView() : view_of(containers->encoded_out_str());
}

DimInfo MethodInfo::output_dim(size_t index, size_t dim) const {
  return dim_info(output(index).tensor, argument_at(outputs_of(program_, index_), index), dim);
}

size_t MethodInfo::arena_count() const {
  const size_t sizes = size_of(plan_of(program_, index_).non_const_buffer_sizes());
  return sizes == 0 ? 0 : sizes - 1;
}

uint64_t MethodInfo::arena_bytes(size_t index) const {
  return static_cast<uint64_t>(
      plan_of(program_, index_).non_const_buffer_sizes()->Get(static_cast<uint32_t>(index + 1)));
}

size_t MethodInfo::delegate_count() const { return size_of(plan_of(program_, index_).delegates()); }

DelegateInfo MethodInfo::delegate(size_t index) const {
  const fb::BackendDelegate &delegate = *plan_of(program_, index_).delegates()->Get(static_cast<uint32_t>(index));
  DelegateInfo info;
  info.backend_id = view_of(delegate.id());
  const uint32_t blob = delegate.processed()->index();
  info.blob_bytes = delegate.processed()->location() == fb::DataLocation::SEGMENT
                        ? program_->tables().segments[blob].size
                        : size_of(program_->tables().root->backend_delegate_data()->Get(blob)->data());
  const fb::meta::Delegate *meta = delegate_meta(program_->tables(), index_, index);
  if (meta == nullptr) return info;
  info.has_meta = true;
  info.compatibility = view_of(meta->compatibility());
  info.sha256 = span_of(meta->sha256());
  info.distribution = view_of(meta->distribution());
  info.version = view_of(meta->distribution_version());
  info.need_count = size_of(meta->memory());
  return info;
}

DeclaredNeed MethodInfo::declared_need(size_t delegate, size_t index) const {
  const fb::meta::MemoryNeed &need =
      *delegate_meta(program_->tables(), index_, delegate)->memory()->Get(static_cast<uint32_t>(index));
  DeclaredNeed declared;
  declared.kind = static_cast<uint32_t>(need.kind());
  declared.space = need.space();
  declared.bytes = need.bytes();
  declared.alignment = need.alignment();
  declared.shared_group = view_of(need.shared_group());
  return declared;
}

size_t MethodInfo::operator_count() const { return size_of(plan_of(program_, index_).operators()); }

OperatorName MethodInfo::operator_name(size_t index) const {
  const fb::Operator &op = *plan_of(program_, index_).operators()->Get(static_cast<uint32_t>(index));
  return {view_of(op.name()), view_of(op.overload())};
}

size_t MethodInfo::instruction_count() const {
  const fb::ExecutionPlan &plan = plan_of(program_, index_);
  size_t count = 0;
  for (uint32_t i = 0; i < size_of(plan.chains()); ++i) count += size_of(plan.chains()->Get(i)->instructions());
  return count;
}

uint64_t tensor_bytes(const fb::Tensor &tensor) {
  uint64_t bytes = scalar_type_info(static_cast<int32_t>(tensor.scalar_type())).size;
  for (const int32_t size : span_of(tensor.sizes())) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

const fb::meta::Delegate *delegate_meta(const ProgramTables &tables, size_t method, size_t index) {
  const fb::meta::Method *meta = method_meta(tables, method);
  if (meta == nullptr || index >= size_of(meta->delegates())) return nullptr;
  return meta->delegates()->Get(static_cast<uint32_t>(index));
}

Status find_tensor_data(const ProgramTables &tables, const fb::Tensor &tensor, TensorPlace &place, Error &error) {
  const uint32_t index = tensor.data_buffer_idx();
  const uint64_t bytes = tensor_bytes(tensor);
  const fb::SubsegmentOffsets *offsets = tables.root->constant_segment();
  if (tensor.allocation_info() != nullptr) {
    // Initial data of mutable buffers is in the first mutable segment, whatever mutable_data_segments_idx says.
    if (size_of(tables.root->mutable_data_segments()) == 0) {
      return fail(error, EDGECORE_INVALID_PROGRAM, "initial data ", index, " is used, but there is no mutable segment");
    }
    offsets = tables.root->mutable_data_segments()->Get(0);
  } else if (offsets == nullptr || size_of(offsets->offsets()) <= 1) {
    const auto *buffers = tables.root->constant_buffer();
    const Bytes stored = index < size_of(buffers) ? span_of(buffers->Get(index)->storage()) : Bytes();
    if (index >= size_of(buffers) || stored.size() < bytes) {
      return fail(error, EDGECORE_INVALID_PROGRAM, "constant ", index, " of ", bytes, " bytes is not in the file");
    }
    place.in_flatbuffer = stored.data();
    return Status();
  }
  place.segment = offsets->segment_index();
  if (index >= size_of(offsets->offsets()) || place.segment >= tables.segments.size()) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "data ", index, " of ", size_of(offsets->offsets()), " in segment ",
                place.segment, " of ", tables.segments.size(), " does not exist");
  }
  place.offset = offsets->offsets()->Get(index);
  if (!contains(tables.segments[place.segment].size, place.offset, bytes)) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "its ", bytes, " bytes at offset ", place.offset, " exceed segment ",
                place.segment, " of ", tables.segments[place.segment].size, " bytes");
  }
  return Status();
}

}  // namespace edgecore
