#ifndef EDGECORE_CORE_SHA256_H_
#define EDGECORE_CORE_SHA256_H_

#include "edgecore/span.h"

namespace edgecore {

// Computes the SHA-256 hash of `data` (FIPS 180-4).
void sha256(Bytes data, uint8_t (&digest)[32]);

}  // namespace edgecore

#endif  // EDGECORE_CORE_SHA256_H_
