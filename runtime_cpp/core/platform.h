// Declares the platform functions in use (see edgecore/platform.h). Private to the runtime.
#ifndef EDGECORE_CORE_PLATFORM_H_
#define EDGECORE_CORE_PLATFORM_H_

#include "edgecore/platform.h"

namespace edgecore {

// Replaces the core's default platform functions with the functions of a host layer. `defaults` must have all members,
// and its functions must stay valid until the process ends. `level` is the log level until the application sets one.
void set_default_platform(const edgecore_platform &defaults, int32_t level);

uint64_t platform_nanoseconds();
bool platform_has_heap();
void *platform_allocate(uint64_t size, uint64_t alignment);
void platform_free(void *data);

// Logs that `condition` does not hold, and aborts.
[[noreturn]] void platform_abort(const char *condition);

}  // namespace edgecore

#endif  // EDGECORE_CORE_PLATFORM_H_
