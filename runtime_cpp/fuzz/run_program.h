// Loads a program and runs its methods, within limits that small files do not reach.
#ifndef EDGECORE_FUZZ_RUN_PROGRAM_H_
#define EDGECORE_FUZZ_RUN_PROGRAM_H_

#include "edgecore/kernel.h"
#include "edgecore/program.h"

namespace edgecore {

// The limits of a program that is loaded to be fuzzed.
Limits fuzz_limits();

// Loads a .pte file, checks its digests, and loads and runs its first methods: each twice, on its maximum
// shapes and on half of them where a shape may vary, with state that the methods share, which is reset and runs again.
// Delegates run on the null backend. Returns false if no method loads.
bool run_program(DataLoader &loader, Span<const DataFile *const> data,
                 Span<const edgecore_kernel_library *const> kernels);

}  // namespace edgecore

#endif  // EDGECORE_FUZZ_RUN_PROGRAM_H_
