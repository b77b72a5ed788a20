// The flatbuffer tables and segments of a program, validated by Program::load. Private to the core.
#ifndef EDGECORE_CORE_PROGRAM_TABLES_H_
#define EDGECORE_CORE_PROGRAM_TABLES_H_

#include "core/schema.h"
#include "core/segments.h"
#include "edgecore/program.h"

namespace edgecore {

constexpr StringView kMetaKey = "edgecore.meta.v1";

struct ProgramTables {
  const fb::Program *root = nullptr;  // the root table, in a private copy or in the file (tables_in_place)
  size_t tail = 0;                    // number of readable bytes after the end of each constant in `root`
  uint64_t file_size = 0;
  Segments segments;
  const fb::meta::Meta *meta = nullptr;         // edgecore's metadata; NULL if another toolchain wrote the file
  Span<const fb::meta::Method *> method_metas;  // metadata of each method, or NULL; empty if the file has none
};

// Returns the size in bytes of a validated tensor at its declared (maximum) shape.
uint64_t tensor_bytes(const fb::Tensor &tensor);

inline uint64_t planned_offset(const fb::AllocationDetails &allocation) {
  return static_cast<uint64_t>(allocation.memory_offset_high()) << 32 | allocation.memory_offset_low();
}

inline bool is_external(const fb::Tensor &tensor) {
  return tensor.extra_tensor_info() != nullptr &&
         tensor.extra_tensor_info()->location() == fb::TensorDataLocation::EXTERNAL;
}

// The place of a tensor's data in the program file: in a segment, or in the flatbuffer.
struct TensorPlace {
  const uint8_t *in_flatbuffer = nullptr;  // address of a tensor's data in the flatbuffer; NULL: it is in a segment
  uint32_t segment = 0;
  uint64_t offset = 0;  // position of the data in the segment, in bytes
};

// Finds the data of a tensor (tensor_bytes() bytes) in the program file: the value of a constant, or the initial
// content of a mutable buffer. The tensor must not be external (in a .ptd), and its data_buffer_idx must not be 0.
// Errors: INVALID_PROGRAM; the message lacks the beginning and the period of a sentence, which the caller adds.
Status find_tensor_data(const ProgramTables &tables, const fb::Tensor &tensor, TensorPlace &place, Error &error);

// Returns the metadata of a method, or NULL if the file has none.
inline const fb::meta::Method *method_meta(const ProgramTables &tables, size_t method) {
  return tables.method_metas.empty() ? nullptr : tables.method_metas[method];
}

// Returns the metadata of a delegate, or NULL if the file has none.
const fb::meta::Delegate *delegate_meta(const ProgramTables &tables, size_t method, size_t index);

using ArgumentMetas = flatbuffers::Vector<flatbuffers::Offset<fb::meta::Argument>>;
using DimMetas = flatbuffers::Vector<flatbuffers::Offset<fb::meta::Dim>>;

// argument_at returns the metadata of an input or output, dims_of the metadata of its dims, and name_of its name. They
// return NULL or an empty name if the file has no such metadata.
inline const fb::meta::Argument *argument_at(const ArgumentMetas *arguments, size_t index) {
  return size_of(arguments) == 0 ? nullptr : arguments->Get(static_cast<uint32_t>(index));
}
inline const DimMetas *dims_of(const fb::meta::Argument *argument) {
  return argument == nullptr || size_of(argument->dims()) == 0 ? nullptr : argument->dims();
}
// Returns true if a dim's `size` is multiple * n + offset for an integer n. The dim's minimum and maximum are not
// checked.
inline bool is_multiple(const fb::meta::Dim &dim, int64_t size) {
  const int64_t multiple = dim.multiple();
  // a multiple of 1, the most common, allows every size: skip the slow division
  return multiple == 1 || (size - dim.offset()) % multiple == 0;
}
// Returns the largest size multiple * n + offset that does not exceed `size`, the size of the dim that the program
// declares. Returns `size` itself if that number is below the dim's minimum.
inline int64_t max_of(const fb::meta::Dim &dim, int64_t size) {
  const int64_t rest = (size - dim.offset()) % dim.multiple();
  return rest > 0 && size - rest >= dim.min() ? size - rest : size;
}
inline StringView name_of(const fb::meta::Argument *argument) {
  return argument == nullptr ? StringView() : view_of(argument->name());
}

// Checks in every method what the flatbuffers verifier cannot: that every index, size, shape, offset and kind is valid.
Status validate_program(const ProgramTables &tables, const Limits &limits, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_CORE_PROGRAM_TABLES_H_
