// How many threads a method gets unless told otherwise.
#ifndef EDGECORE_HOST_CPU_COUNT_H_
#define EDGECORE_HOST_CPU_COUNT_H_

#include <cstdint>

namespace edgecore {

// Cores, hyperthreads counted once, that this process may run on and that have at least half the capacity of the
// fastest (the big ones where a system has big and little). At least 1, at most kMaxThreads.
uint32_t default_thread_count();

}  // namespace edgecore

#endif  // EDGECORE_HOST_CPU_COUNT_H_
