// The services for backends and kernels on a system with threads, a heap and a standard error stream.
#ifndef EDGECORE_HOST_SERVICES_H_
#define EDGECORE_HOST_SERVICES_H_

#include <cstdint>

#include "edgecore/host.h"

namespace edgecore {

// The object to which edgecore_scope::context points in every scope of this host.
struct HostContext {
  uint32_t threads = 1;  // maximum for parallel loops of the method; 1 in scopes of drivers and programs
};

// Returns the table of services, the same for all scopes. log writes to stderr; it ignores messages below the level in
// the environment variable EDGECORE_LOG (debug, info, warning, error; default warning).
const edgecore_host *host_services();

}  // namespace edgecore

#endif  // EDGECORE_HOST_SERVICES_H_
