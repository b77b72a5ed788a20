// Loads the flatbuffer tables of a file into private memory, so that the tables cannot change after they were checked.
#ifndef EDGECORE_CORE_LOAD_TABLES_H_
#define EDGECORE_CORE_LOAD_TABLES_H_

#include "edgecore/allocator.h"
#include "edgecore/data_loader.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// Loads `size` bytes of a file and copies them to memory of `allocator`, so that a process that writes to the file
// cannot change the bytes after they were checked. kArenaTail readable bytes follow the copy. With `in_place`, the
// caller promises that the bytes never change. Then this function copies the bytes only if their address is not a
// multiple of 16. `what` names the bytes in error messages. Errors: MEMORY_ALLOCATION_FAILED, and the errors of the
// loader.
Result<Bytes> load_tables(DataLoader &loader, uint64_t offset, uint64_t size, bool in_place, Allocator &allocator,
                          StringView what, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_CORE_LOAD_TABLES_H_
