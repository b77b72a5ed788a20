#include "host/cpu_count.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "host/thread_pool.h"

#if defined(__linux__)
#include <sched.h>
#endif
#include <unistd.h>

namespace edgecore {

#if defined(__linux__)
namespace {

// First line of a file of /sys/devices/system/cpu/cpuN, or an empty string.
std::string read_cpu_file(int cpu, const char *name) {
  char path[128];
  std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, name);
  std::FILE *file = std::fopen(path, "r");
  if (file == nullptr) return {};
  char line[256] = {};
  const char *read = std::fgets(line, sizeof line, file);
  std::fclose(file);
  return read == nullptr ? std::string() : std::string(line);
}

}  // namespace

uint32_t default_thread_count() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  struct Core {
    std::string siblings;
    long capacity;
  };
  std::vector<Core> cores;
  long fastest = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::string siblings = read_cpu_file(cpu, "topology/thread_siblings_list");
    if (siblings.empty()) siblings = std::to_string(cpu);
    const long capacity = std::atol(read_cpu_file(cpu, "cpu_capacity").c_str());  // 0 where all cores are alike
    fastest = std::max(fastest, capacity);
    cores.push_back({std::move(siblings), capacity});
  }
  std::set<std::string> counted;
  for (const Core &core : cores) {
    if (core.capacity * 2 >= fastest) counted.insert(core.siblings);
  }
  return std::clamp<uint32_t>(static_cast<uint32_t>(counted.size()), 1, kMaxThreads);
}

#else

uint32_t default_thread_count() {
  return static_cast<uint32_t>(std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN), 1, kMaxThreads));
}

#endif

}  // namespace edgecore
