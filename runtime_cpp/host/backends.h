// Creates drivers of backends (a driver is a backend's handle for its devices, one per process), and checks options.
#ifndef EDGECORE_HOST_BACKENDS_H_
#define EDGECORE_HOST_BACKENDS_H_

#include "edgecore/host.h"

namespace edgecore {

// Returns the driver of a backend. check_backend must have accepted `table`, the functions of the backend. The first
// call creates the driver, which lives until the process ends. Thread-safe. Returns the backend's errors.
Result<edgecore_driver *> driver_of(const edgecore_backend *table, Error &error);

// Checks that the backend declares each of `options` for the time `when` (EDGECORE_OPTION_AT_LOAD or AT_RUN), with the
// same type. Converts an integer to a float in place where the backend declares a float. Errors: INVALID_ARGUMENT, with
// a message that lists the declared options or the declared type.
Status check_options(const edgecore_backend *table, uint32_t when, Span<edgecore_option> options, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_BACKENDS_H_
