// Loads a program and runs its methods, within limits that small files do not reach.
#ifndef EDGECORE_FUZZ_RUN_PROGRAM_H_
#define EDGECORE_FUZZ_RUN_PROGRAM_H_

#include "edgecore/kernel.h"
#include "edgecore/program.h"

namespace edgecore {

// The limits of a program that is loaded to be fuzzed.
Limits fuzz_limits();

// Loads a .pte file and checks its digests, then loads its first methods, which share state, and runs each three times:
// with its maximum shapes, with half of each size that may vary, and again after a reset of the state. Delegates run on
// the null backend. Returns false if no method loads.
bool run_program(DataLoader &loader, Span<const DataFile *const> data,
                 Span<const edgecore_kernel_library *const> kernels);

}  // namespace edgecore

#endif  // EDGECORE_FUZZ_RUN_PROGRAM_H_
