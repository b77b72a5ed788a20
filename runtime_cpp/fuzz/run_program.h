// Loads and runs a program for the fuzzers, with limits that keep a damaged file from using much time or memory.
#ifndef EDGECORE_FUZZ_RUN_PROGRAM_H_
#define EDGECORE_FUZZ_RUN_PROGRAM_H_

#include "edgecore/kernel.h"
#include "edgecore/program.h"

namespace edgecore {

// Returns the limits for loading a fuzzed program: at most 10000 tables, 100000 list entries and 1 MiB of tensors.
Limits fuzz_limits();

// Loads a .pte file and checks its SHA-256 digests, then loads its first methods, which share mutable buffers, and runs
// each three times: with its maximum shapes, with every dynamic size halved, and after a reset of the buffers.
// Delegates run on the null backend. Returns false if no method loads.
bool run_program(DataLoader &loader, Span<const DataFile *const> data,
                 Span<const edgecore_kernel_library *const> kernels);

}  // namespace edgecore

#endif  // EDGECORE_FUZZ_RUN_PROGRAM_H_
