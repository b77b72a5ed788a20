// The mutable state of a program as bytes, and back: its buffers, and what backends keep.
#ifndef EDGECORE_HOST_SAVED_STATE_H_
#define EDGECORE_HOST_SAVED_STATE_H_

#include <vector>

#include "edgecore/method.h"

namespace edgecore {

// Of one backend, in a form of its own. Errors: NOT_SUPPORTED, and what the backend gave.
Status export_state(const LoadedBackend &backend, std::vector<uint8_t> &state, Error &error);
Status import_state(const LoadedBackend &backend, Bytes state, Error &error);

// Of all: a header, then for each buffer, and for each backend that exports its state, a line that describes it and its
// bytes. Importing wants the same lines: the state of another file serves if its buffers are alike.
// Errors: NOT_SUPPORTED (a backend has state that it does not export), and what a backend gave; importing also
// INVALID_ARGUMENT (damaged, or of another program). An import that fails changes nothing.
Status export_state(Span<Method *const> methods, Span<const LoadedBackend> backends, std::vector<uint8_t> &state,
                    Error &error);
Status import_state(Span<Method *const> methods, Span<const LoadedBackend> backends, Bytes state, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_SAVED_STATE_H_
