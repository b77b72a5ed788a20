// A .bpte file: a program together with inputs and the outputs that are expected for them.
#ifndef EDGECORE_BUNDLED_H_
#define EDGECORE_BUNDLED_H_

#include "edgecore/limits.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// Whether the file says that it is bundled. It still may be damaged.
bool is_bundled(Bytes file);

// The .pte file within a .bpte file, aligned as far as `file` is. `file` must be private memory: it is checked in
// place. Errors: INVALID_PROGRAM (damaged or truncated), NOT_SUPPORTED (a newer version).
Result<Bytes> bundled_program(Bytes file, const Limits &limits, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_BUNDLED_H_
