// The services that backends and kernels get on a system with threads, a heap and a standard error.
#ifndef EDGECORE_HOST_SERVICES_H_
#define EDGECORE_HOST_SERVICES_H_

#include <cstdint>

#include "edgecore/host.h"

namespace edgecore {

// What edgecore_scope::context points at in every scope of this host.
struct HostContext {
  uint32_t threads = 1;  // of the method's parallel loops; 1 in scopes of drivers and programs
};

// The one table. Messages below the level of the environment variable EDGECORE_LOG (debug, info, warning, error;
// default warning) are dropped, others go to stderr.
const edgecore_host *host_services();

}  // namespace edgecore

#endif  // EDGECORE_HOST_SERVICES_H_
