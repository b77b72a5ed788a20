// A backend without hardware that uses every part of edgecore/backend.h, to test hosts.
//
// Its blob is a NullBlob. Output i is `factor` times input i (modulo the number of inputs), float32, same shape.
#ifndef EDGECORE_TESTS_NULL_BACKEND_H_
#define EDGECORE_TESTS_NULL_BACKEND_H_

#include "null_device.h"

// NullBlob.flags
constexpr uint32_t kNullPending = 1;     // leaves its work to null_backend_drain where the host allows it
constexpr uint32_t kNullFails = 2;       // the work fails
constexpr uint32_t kNullState = 4;       // adds the sum of all first inputs so far, which the program keeps
constexpr uint32_t kNullWeights = 8;     // multiplies by the float32 in the named data "null.weights", too
constexpr uint32_t kNullKeepsRest = 16;  // writes the first element of its outputs only

struct NullBlob {
  char magic[4] = {'N', 'U', 'L', '0'};
  uint32_t inputs = 1;
  uint32_t outputs = 1;
  float factor = 2;
  uint32_t scratch_bytes = 0;
  uint32_t persistent_bytes = 0;  // counts its calls there, if at least 8
  uint32_t alignment = 16;        // of every argument
  uint32_t tail_padding = 0;
  uint32_t memory_kind = 0;  // of every argument: 0, or null_device::kMemoryKind
  uint32_t flags = 0;
};

// Options: "gain" (float, at load and at run) multiplies once more; "name" (string, at load).
// Compatibility: "null 1" is optimal, "null 0" works, others do not.

// The table; `flags` replaces the declared flags if not 0.
extern "C" const edgecore_backend *null_backend(uint32_t flags);

// For tests of a host: handles that exist now; calls of prepare, and weights packed, since the start.
extern "C" uint64_t null_backend_live_handles();
extern "C" uint64_t null_backend_packed();
extern "C" uint64_t null_backend_prepares();

#endif  // EDGECORE_TESTS_NULL_BACKEND_H_
