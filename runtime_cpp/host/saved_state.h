// Saves and restores the mutable state of a program as bytes: its buffers, and the state of its backends.
#ifndef EDGECORE_HOST_SAVED_STATE_H_
#define EDGECORE_HOST_SAVED_STATE_H_

#include <vector>

#include "edgecore/method.h"

namespace edgecore {

// Save and restore the state of one backend, in the backend's own format. Errors: NOT_SUPPORTED, and errors of the
// backend.
Status export_state(const LoadedBackend &backend, std::vector<uint8_t> &state, Error &error);
Status import_state(const LoadedBackend &backend, Bytes state, Error &error);

// Save and restore the state of all methods and backends. The format has a header and a record for each buffer and for
// each backend that exports its state. A record consists of a text that describes the buffer or backend, and its bytes.
// An import requires the same descriptions, so the state of another file is accepted if its buffers have the same
// names, dtypes and shapes. An import that fails changes nothing.
// Errors: NOT_SUPPORTED (a backend has state that it does not export), and errors of a backend; for importing also
// INVALID_ARGUMENT (damaged, or of another program).
Status export_state(Span<Method *const> methods, Span<const LoadedBackend> backends, std::vector<uint8_t> &state,
                    Error &error);
Status import_state(Span<Method *const> methods, Span<const LoadedBackend> backends, Bytes state, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_SAVED_STATE_H_
