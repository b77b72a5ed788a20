// The services for backends and kernels on a system with threads.
#ifndef EDGECORE_HOST_SERVICES_H_
#define EDGECORE_HOST_SERVICES_H_

#include <cstdint>

#include "edgecore/host.h"

namespace edgecore {

class Trace;

// This host's data for one plugin object (driver, program, delegate, ...): edgecore_scope::context points to it.
struct HostContext {
  uint32_t threads = 1;    // max threads of a parallel loop; more than 1 only for a method's delegates and kernels
  Trace *loops = nullptr;  // receives the times of each thread in each loop; may be NULL
};

// Returns the table of services, shared by all backends and kernels. Log and heap use the platform
// (edgecore/platform.h), with the defaults of host/platform.h.
const edgecore_host *host_services();

}  // namespace edgecore

#endif  // EDGECORE_HOST_SERVICES_H_
