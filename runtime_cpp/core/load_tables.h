// Loads the tables of a file for the check before their use.
#ifndef EDGECORE_CORE_LOAD_TABLES_H_
#define EDGECORE_CORE_LOAD_TABLES_H_

#include "edgecore/allocator.h"
#include "edgecore/data_loader.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// Loads `size` bytes of a file, and copies them to memory of `allocator`, so that another process that writes to the
// file cannot change them between the check and their use. kArenaTail readable bytes follow the copy. `in_place`
// promises that the bytes never change: then they are copied only if their address is not a multiple of 16. `what`
// names the bytes in the error. Errors: MEMORY_ALLOCATION_FAILED, and the errors of the loader.
Result<Bytes> load_tables(DataLoader &loader, uint64_t offset, uint64_t size, bool in_place, Allocator &allocator,
                          StringView what, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_CORE_LOAD_TABLES_H_
