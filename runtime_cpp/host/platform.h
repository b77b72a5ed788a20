// The platform functions of a system with a clock, standard error and a heap.
#ifndef EDGECORE_HOST_PLATFORM_H_
#define EDGECORE_HOST_PLATFORM_H_

namespace edgecore {

// Makes these functions the defaults, which an application's table replaces (edgecore/platform.h). The host library
// calls it before it uses the platform. The variable EDGECORE_LOG (debug, info, warning, error, off) sets the first log
// level.
void use_host_platform();

}  // namespace edgecore

#endif  // EDGECORE_HOST_PLATFORM_H_
