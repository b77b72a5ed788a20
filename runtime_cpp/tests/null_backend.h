// A backend without hardware that uses every part of edgecore/backend.h, for the tests of the runtime and of other
// callers of backends.
//
// The blob of a delegate is a NullBlob. Output i is `factor` times input i (modulo the number of inputs), in float32,
// with the same shape.
#ifndef EDGECORE_TESTS_NULL_BACKEND_H_
#define EDGECORE_TESTS_NULL_BACKEND_H_

#include "null_device.h"

// Bits of NullBlob.flags, which change what a delegate does:
constexpr uint32_t kNullPending = 1;  // execute leaves its work to null_backend_drain, if the host allows pending runs
constexpr uint32_t kNullFails = 2;    // execute fails
constexpr uint32_t kNullState = 4;    // adds the sum of all input elements of all runs so far: the buffer "sum" of the
                                      // state set; execute fails for NaN
constexpr uint32_t kNullWeights = 8;  // also multiplies by the float32 in the named data "null.weights"
constexpr uint32_t kNullKeepsRest = 16;  // writes only the first element of each output
constexpr uint32_t kNullSecond = 32;     // with kNullState: the buffer is called "second"
constexpr uint32_t kNullNumber = 64;     // the last argument is an integer, a factor of outputs from its prepare on

struct NullBlob {
  char magic[4] = {'N', 'U', 'L', '0'};
  uint32_t inputs = 1;
  uint32_t outputs = 1;
  float factor = 2;
  uint32_t scratch_bytes = 0;
  uint32_t persistent_bytes = 0;  // if at least 8, the delegate counts its calls in this memory
  uint32_t alignment = 16;        // for every argument
  uint32_t tail_padding = 0;
  uint32_t memory_kind = 0;  // for every argument: 0, or null_device::kMemoryKind
  uint32_t flags = 0;
};

// The backend has two options: "gain" (float, set at load or at run time) is another factor of all outputs; "name"
// (string, set at load) has no effect.
// check_compatibility returns COMPATIBLE for the string "null 1", COMPATIBLE_RECOMPILE for "null 0", and INCOMPATIBLE
// for any other string.

// Returns the function table of the backend. If `flags` is not 0, it replaces the member `flags` of the table.
extern "C" const edgecore_backend *null_backend(uint32_t flags);

// Counters for tests: existing handles (drivers, programs, state sets, delegates, instances), to detect leaks; how
// often weights were packed; how often prepare was called. The last two count from the start of the process.
extern "C" uint64_t null_backend_live_handles();
extern "C" uint64_t null_backend_packed();
extern "C" uint64_t null_backend_prepares();

#endif  // EDGECORE_TESTS_NULL_BACKEND_H_
