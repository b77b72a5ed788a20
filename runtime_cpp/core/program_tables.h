// What Program::load resolved and checked; private to the core.
#ifndef EDGECORE_CORE_PROGRAM_TABLES_H_
#define EDGECORE_CORE_PROGRAM_TABLES_H_

#include "core/schema.h"
#include "edgecore/program.h"

namespace edgecore {

constexpr StringView kMetaKey = "edgecore.meta.v1";

struct ProgramTables {
  const fb::Program *root = nullptr;  // in the private copy
  Bytes file;                         // the caller's bytes
  Span<Bytes> segments;
  const fb::meta::Meta *meta = nullptr;         // in a private copy; NULL in a file from elsewhere
  Span<const fb::meta::Method *> method_metas;  // by method; NULL where the metadata lack it. Empty without metadata
};

// Bytes of a tensor at its declared sizes; the tensor has been validated.
uint64_t tensor_bytes(const fb::Tensor &tensor);

inline uint64_t planned_offset(const fb::AllocationDetails &place) {
  return static_cast<uint64_t>(place.memory_offset_high()) << 32 | place.memory_offset_low();
}

inline bool is_external(const fb::Tensor &tensor) {
  return tensor.extra_tensor_info() != nullptr &&
         tensor.extra_tensor_info()->location() == fb::TensorDataLocation::EXTERNAL;
}

// Initial or constant data of a tensor with data_buffer_idx > 0 that is not external: exactly its bytes.
Result<Bytes> tensor_data(const ProgramTables &tables, const fb::Tensor &tensor, Error &error);

// The blob of a delegate.
Bytes delegate_blob(const ProgramTables &tables, const fb::BackendDelegate &delegate);

// Metadata of a method, or NULL.
inline const fb::meta::Method *method_meta(const ProgramTables &tables, size_t method) {
  return tables.method_metas.empty() ? nullptr : tables.method_metas[method];
}

// Metadata of a delegate, or NULL.
const fb::meta::Delegate *delegate_meta(const ProgramTables &tables, size_t method, size_t index);

using ArgumentMetas = flatbuffers::Vector<flatbuffers::Offset<fb::meta::Argument>>;
using DimMetas = flatbuffers::Vector<flatbuffers::Offset<fb::meta::Dim>>;

// Metadata of an input or output, of its dims, and its name: NULL or empty where the file does not say.
inline const fb::meta::Argument *argument_at(const ArgumentMetas *arguments, size_t index) {
  return size_of(arguments) == 0 ? nullptr : arguments->Get(static_cast<uint32_t>(index));
}
inline const DimMetas *dims_of(const fb::meta::Argument *argument) {
  return argument == nullptr || size_of(argument->dims()) == 0 ? nullptr : argument->dims();
}
// Whether the dim may have this size, apart from its minimum and maximum.
inline bool is_multiple(const fb::meta::Dim &dim, int64_t size) {
  const int64_t multiple = dim.multiple();
  return multiple == 1 || (size - dim.offset()) % multiple == 0;  // most are 1, and a division is slow
}
// The maximum of a dim whose size in the program is `size`, which need not be one that the dim may have.
inline int64_t max_of(const fb::meta::Dim &dim, int64_t size) {
  const int64_t rest = (size - dim.offset()) % dim.multiple();
  return rest > 0 && size - rest >= dim.min() ? size - rest : size;
}
inline StringView name_of(const fb::meta::Argument *argument) {
  return argument == nullptr ? StringView() : view_of(argument->name());
}

// Checks what flatbuffers' own verifier cannot: every index, size, shape, offset and kind in every method.
Status validate_program(const ProgramTables &tables, const Limits &limits, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_CORE_PROGRAM_TABLES_H_
