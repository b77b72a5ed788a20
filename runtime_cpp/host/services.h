// The services (functions for backends and kernels) on a system with threads.
#ifndef EDGECORE_HOST_SERVICES_H_
#define EDGECORE_HOST_SERVICES_H_

#include <cstdint>

#include "edgecore/host.h"

namespace edgecore {

class Trace;

// The host layer's own data for an object of a plugin (driver, program, delegate...), in edgecore_scope::context.
struct HostContext {
  uint32_t threads = 1;    // maximum threads of a parallel loop; 1 except for delegates and kernels of a method
  Trace *loops = nullptr;  // receives the time of each thread in each loop; NULL: no trace
};

// Returns the table of services, which all backends and kernels share. Its log and heap functions come from the
// platform (edgecore/platform.h), by default from host/platform.h.
const edgecore_host *host_services();

}  // namespace edgecore

#endif  // EDGECORE_HOST_SERVICES_H_
