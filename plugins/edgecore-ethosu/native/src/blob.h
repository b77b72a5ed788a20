// Reads the blob of a delegate: the blocks that Arm's driver needs on a device. src/edgecore_ethosu/blob.py describes
// the format.
#ifndef EDGECORE_ETHOSU_BLOB_H_
#define EDGECORE_ETHOSU_BLOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "edgecore/backend.hpp"

namespace edgecore_ethosu {

// The sizes in bytes of a delegate's arguments.
struct Sizes {
  std::vector<uint64_t> inputs;
  std::vector<uint64_t> outputs;
};

// Checks all numbers of a blob, and returns the sizes of its arguments. Throws a Failure if the blob is damaged.
Sizes read_blob(edgecore_bytes blob);

// Returns the key of the named data with the TOSA graph from which the blob was compiled: a hash of the blob.
std::string tosa_key(edgecore_bytes blob);

}  // namespace edgecore_ethosu

#endif  // EDGECORE_ETHOSU_BLOB_H_
