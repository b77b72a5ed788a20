// Computes the default number of threads of a method.
#ifndef EDGECORE_HOST_CPU_COUNT_H_
#define EDGECORE_HOST_CPU_COUNT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace edgecore {

// Returns the number of performance cores that this process may use (affinity mask), but at most the CPU quota of the
// process's control group, rounded down. Hyperthreads of one core count once. At least 1, at most kMaxThreads.
uint32_t default_thread_count();

// Computes default_thread_count() on Linux for the processors `allowed`, with /proc and /sys below the folder `root`.
// The first of these files that exists tells which processors are performance cores:
//   /sys/devices/cpu_core/cpus         lists them (on machines with two kinds of cores)
//   cpu*/cpu_capacity                  those with at least half of the maximum capacity: large and middle Arm cores
//   cpu*/cpufreq/cpuinfo_max_freq      those with at least three quarters of the maximum frequency
uint32_t thread_count_of(const std::string &root, const std::vector<int> &allowed);

}  // namespace edgecore

#endif  // EDGECORE_HOST_CPU_COUNT_H_
