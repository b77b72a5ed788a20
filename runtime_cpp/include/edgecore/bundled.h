// .bpte files: a program together with test cases (inputs and their expected outputs).
#ifndef EDGECORE_BUNDLED_H_
#define EDGECORE_BUNDLED_H_

#include "edgecore/limits.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// Returns true if the file has the magic number of a .bpte file. The file may still be damaged.
bool is_bundled(Bytes file);

// Returns the .pte file inside of `file`, a .bpte file; the .pte starts at an offset in `file` that is a multiple of 32
// bytes. No copy is made, so nothing (for example another process) may change the memory while the function checks it.
// Errors: INVALID_PROGRAM (damaged or truncated), NOT_SUPPORTED (a newer version, or not a .bpte file).
Result<Bytes> bundled_program(Bytes file, const Limits &limits, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_BUNDLED_H_
