// The tables of a file, which are checked before use.
#ifndef EDGECORE_CORE_LOAD_TABLES_H_
#define EDGECORE_CORE_LOAD_TABLES_H_

#include "edgecore/allocator.h"
#include "edgecore/data_loader.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// Loads `size` bytes of a file, and copies them to memory of `allocator`, so that another process that writes to the
// file cannot change them between the check and their use. kArenaTail readable bytes follow the copy. With `in_place`
// the bytes are never changed: they are not copied if their address is a multiple of 16. `what` names them in the
// error. Errors: MEMORY_ALLOCATION_FAILED, and those that the loader returns.
Result<Bytes> load_tables(DataLoader &loader, uint64_t offset, uint64_t size, bool in_place, Allocator &allocator,
                          StringView what, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_CORE_LOAD_TABLES_H_
