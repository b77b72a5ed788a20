// A backend without a device: the smallest complete delegate over edgecore/backend.h, to test hosts and to start from.
//
// Its blob is a NullBlob. Output i is `factor` times input i (modulo the number of inputs), float32, same shape.
#ifndef EDGECORE_TESTS_NULL_BACKEND_H_
#define EDGECORE_TESTS_NULL_BACKEND_H_

#include "edgecore/backend.h"

struct NullBlob {
  char magic[4] = {'N', 'U', 'L', '0'};
  uint32_t inputs = 1;
  uint32_t outputs = 1;
  float factor = 2;
  uint32_t scratch_bytes = 0;
  uint32_t persistent_bytes = 0;  // counts its calls there, if at least 8
  uint32_t alignment = 16;        // of every argument
  uint32_t tail_padding = 0;
};

// The table; `flags` replaces the declared flags if not 0.
extern "C" const edgecore_backend *null_backend(uint32_t flags);

// Handles that exist now, and calls of prepare since the start: for tests of a host.
extern "C" uint64_t null_backend_live_handles();
extern "C" uint64_t null_backend_prepares();

#endif  // EDGECORE_TESTS_NULL_BACKEND_H_
