// Saves the mutable buffers of a session as bytes, and restores them. The runtime or a backend keeps these buffers.
#ifndef EDGECORE_HOST_SAVED_STATE_H_
#define EDGECORE_HOST_SAVED_STATE_H_

#include <vector>

#include "edgecore/method.h"

namespace edgecore {

// Save and restore the mutable buffers of all methods of a session, including the buffers that backends keep in the
// state sets of `store`. The format has a header and a record for each buffer: a line with the buffer's qualified name,
// dtype and shape, and the buffer's elements in row-major order. An import requires the same lines, in any order. So it
// accepts the state of another file if the buffers of both files have the same names, dtypes and shapes, even if other
// backends, or none, keep them. All lines and sizes are checked before the first buffer is changed. If a backend fails
// later, no state set can be used until a reset or an import succeeds. Errors: INVALID_STATE (export: a state set is
// undefined), errors of a backend; for importing also INVALID_ARGUMENT (damaged, or of another program); INTERNAL (a
// backend describes a buffer wrongly).
Status export_state(Span<Method *const> methods, const StateStore &store, std::vector<uint8_t> &state, Error &error);
Status import_state(Span<Method *const> methods, const StateStore &store, Bytes state, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_SAVED_STATE_H_
