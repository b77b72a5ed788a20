// How many threads a method gets unless told otherwise.
#ifndef EDGECORE_HOST_CPU_COUNT_H_
#define EDGECORE_HOST_CPU_COUNT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace edgecore {

// The performance cores, hyperthreads counted once, that this process may run on (affinity mask), but no more than the
// whole processors of its control group's quota. At least 1, at most kMaxThreads.
uint32_t default_thread_count();

// The same on Linux for the processors `allowed`, with /proc and /sys under the folder `root`. Performance cores are,
// of those allowed, the first of these that the kernel tells:
//   /sys/devices/cpu_core/cpus         processors with cores of two kinds
//   cpu*/cpu_capacity                  at least half of the largest: the large and middle cores of Arm systems
//   cpu*/cpufreq/cpuinfo_max_freq      at least three quarters of the largest
uint32_t thread_count_of(const std::string &root, const std::vector<int> &allowed);

}  // namespace edgecore

#endif  // EDGECORE_HOST_CPU_COUNT_H_
