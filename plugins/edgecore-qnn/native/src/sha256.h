#ifndef EDGECORE_QNN_SHA256_H_
#define EDGECORE_QNN_SHA256_H_

#include <array>
#include <cstdint>

#include "edgecore/backend.h"

namespace edgecore_qnn {

using Digest = std::array<uint8_t, 32>;

// Computes the SHA-256 of bytes (FIPS 180-4). The runtime has this function too, but plugins do not link the runtime.
Digest sha256(edgecore_bytes bytes);

}  // namespace edgecore_qnn

#endif  // EDGECORE_QNN_SHA256_H_
