// What Program::load resolved and checked; private to the core.
#ifndef EDGECORE_CORE_PROGRAM_TABLES_H_
#define EDGECORE_CORE_PROGRAM_TABLES_H_

#include "core/schema.h"
#include "edgecore/program.h"

namespace edgecore {

struct ProgramTables {
  const fb::Program *root = nullptr;  // in the private copy
  Bytes file;                         // the caller's bytes
  Span<Bytes> segments;
  const fb::meta::Meta *meta = nullptr;  // in a private copy; NULL in a file from elsewhere
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

// Metadata of a delegate, or NULL.
const fb::meta::Delegate *delegate_meta(const ProgramTables &tables, StringView method, size_t index);

// Checks what flatbuffers' own verifier cannot: every index, size, shape, offset and kind in every method.
Status validate_program(const ProgramTables &tables, const Limits &limits, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_CORE_PROGRAM_TABLES_H_
