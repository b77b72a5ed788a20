// Platform functions for operating systems that have a clock, standard error and a heap.
#ifndef EDGECORE_HOST_PLATFORM_H_
#define EDGECORE_HOST_PLATFORM_H_

namespace edgecore {

// Installs the host's platform functions as defaults. An application can replace them (edgecore/platform.h). The host
// library calls this function before it uses the platform. The environment variable EDGECORE_LOG (debug, info, warning,
// error, off) sets the initial log level.
void use_host_platform();

}  // namespace edgecore

#endif  // EDGECORE_HOST_PLATFORM_H_
