// The services (functions for backends and kernels) on a system with threads.
#ifndef EDGECORE_HOST_SERVICES_H_
#define EDGECORE_HOST_SERVICES_H_

#include <cstdint>

#include "edgecore/host.h"

namespace edgecore {

class Trace;

// The data that the host layer keeps for an object of a plugin (driver, program, delegate...). edgecore_scope::context
// points to it.
struct HostContext {
  // maximum number of threads of a parallel loop; above 1 only for delegates and kernels of a method
  uint32_t threads = 1;
  Trace *loops = nullptr;  // receives the times of each thread in each loop; NULL: loops are not traced
};

// Returns the table of services, which all backends and kernels share. Its log and heap functions come from the
// platform (edgecore/platform.h), by default from host/platform.h.
const edgecore_host *host_services();

}  // namespace edgecore

#endif  // EDGECORE_HOST_SERVICES_H_
