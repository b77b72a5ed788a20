#ifndef EDGECORE_CORE_SHA256_H_
#define EDGECORE_CORE_SHA256_H_

#include "edgecore/span.h"

namespace edgecore {

// SHA-256 of `data` (FIPS 180-4) into `digest`.
void sha256(Bytes data, uint8_t (&digest)[32]);

}  // namespace edgecore

#endif  // EDGECORE_CORE_SHA256_H_
