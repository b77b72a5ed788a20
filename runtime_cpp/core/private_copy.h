// Private copies of the parts of a file that are checked before use.
#ifndef EDGECORE_CORE_PRIVATE_COPY_H_
#define EDGECORE_CORE_PRIVATE_COPY_H_

#include "edgecore/allocator.h"
#include "edgecore/data_loader.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// Copies the first `size` bytes of a file, or `bytes`, to memory of `allocator`, so that another process that writes to
// the file cannot change them between the check and their use. kArenaTail readable bytes follow the copy. `what` names
// the bytes in the error. Errors: MEMORY_ALLOCATION_FAILED, and those of the loader.
Result<Bytes> private_copy(DataLoader &loader, uint64_t size, Allocator &allocator, StringView what, Error &error);
Result<Bytes> private_copy(Bytes bytes, Allocator &allocator, StringView what, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_CORE_PRIVATE_COPY_H_
