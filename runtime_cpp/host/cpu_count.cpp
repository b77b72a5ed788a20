#include "host/cpu_count.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "host/thread_pool.h"

#if defined(__linux__)
#include <sched.h>
#endif
#include <unistd.h>

namespace edgecore {
namespace {

// Returns the lines in the first 4095 bytes of a text file, without line ends; no lines if the file does not exist.
std::vector<std::string> lines_of(const std::string &path) {
  std::FILE *file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return {};
  char text[4096];
  const size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[size] = '\0';
  std::vector<std::string> lines;
  for (const char *at = text; *at != '\0';) {
    const char *end = std::strchr(at, '\n');
    lines.emplace_back(at, end == nullptr ? text + size : end);
    at = end == nullptr ? text + size : end + 1;
  }
  return lines;
}

std::string line_of(const std::string &path) {
  const std::vector<std::string> lines = lines_of(path);
  return lines.empty() ? std::string() : lines.front();
}

// Parses a list of processor numbers such as "0-3,8".
std::set<int> numbers_of(const std::string &list) {
  std::set<int> numbers;
  const char *at = list.c_str();
  while (*at != '\0') {
    char *end = nullptr;
    const long first = std::strtol(at, &end, 10);
    if (end == at) break;
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    for (long n = first; n <= last && numbers.size() < 65536; ++n) numbers.insert(static_cast<int>(n));
    at = *end == ',' ? end + 1 : end;
  }
  return numbers;
}

std::string cpu_file(const std::string &root, int cpu, const char *name) {
  return root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + name;
}

// Reads the speed of each processor from the file `name` in the processor's folder of /sys. Returns the processors with
// at least `share` of the maximum speed; all processors if none of them has this file.
std::vector<int> fastest(const std::string &root, const std::vector<int> &cpus, const char *name, double share) {
  std::vector<double> speeds;
  for (const int cpu : cpus) speeds.push_back(std::atof(line_of(cpu_file(root, cpu, name)).c_str()));
  const double min_speed = share * *std::max_element(speeds.begin(), speeds.end());
  std::vector<int> fast;
  for (size_t i = 0; i < cpus.size(); ++i) {
    if (speeds[i] >= min_speed) fast.push_back(cpus[i]);
  }
  return fast;
}

std::vector<int> performance_cpus(const std::string &root, const std::vector<int> &allowed) {
  const std::set<int> large = numbers_of(line_of(root + "/sys/devices/cpu_core/cpus"));
  std::vector<int> cpus;
  std::copy_if(allowed.begin(), allowed.end(), std::back_inserter(cpus),
               [&](int cpu) { return large.count(cpu) != 0; });
  if (!cpus.empty()) return cpus;
  const bool has_capacity = !line_of(cpu_file(root, allowed.front(), "cpu_capacity")).empty();
  return has_capacity ? fastest(root, allowed, "cpu_capacity", 0.5)
                      : fastest(root, allowed, "cpufreq/cpuinfo_max_freq", 0.75);
}

// Returns the number of processors that the text of a CPU quota allows. The text has two numbers, the time and the
// period in microseconds: "50000 100000" -> 0.5. "max 100000" and "-1 100000" mean no limit.
double processors_of(const std::string &quota) {
  double time = 0, period = 0;
  if (std::sscanf(quota.c_str(), "%lf %lf", &time, &period) != 2 || time <= 0 || period <= 0) return INFINITY;
  return time / period;
}

// Returns the smallest quota of a control group and its parents. In a container, `group` may be a path of the host:
// then only the parents that exist in the container count.
double quota_of(const std::string &folder, std::string group, bool is_version_2) {
  double min_quota = INFINITY;
  for (;;) {
    const std::string prefix = folder + group + "/cpu.";
    min_quota = std::min(min_quota, processors_of(is_version_2 ? line_of(prefix + "max")
                                                               : line_of(prefix + "cfs_quota_us") + " " +
                                                                     line_of(prefix + "cfs_period_us")));
    if (group.empty()) return min_quota;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

double quota(const std::string &root) {
  double min_quota = INFINITY;
  for (const std::string &line : lines_of(root + "/proc/self/cgroup")) {  // each line is NUMBER:CONTROLLERS:PATH
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    const std::string folder = root + "/sys/fs/cgroup";
    if (controllers == ",,") min_quota = std::min(min_quota, quota_of(folder, group, true));
    if (controllers.find(",cpu,") != std::string::npos)
      min_quota = std::min(min_quota, quota_of(folder + "/cpu", group, false));
  }
  return min_quota;
}

}  // namespace

uint32_t thread_count_of(const std::string &root, const std::vector<int> &allowed) {
  if (allowed.empty()) return 1;
  std::set<std::string> cores;
  for (const int cpu : performance_cpus(root, allowed)) {
    const std::string siblings = line_of(cpu_file(root, cpu, "topology/thread_siblings_list"));
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  // Round the quota down: a process that exceeds its quota is stopped until the next period.
  const double max_threads = std::min<double>(kMaxThreads, std::max(1.0, std::floor(quota(root))));
  return std::min(static_cast<uint32_t>(cores.size()), static_cast<uint32_t>(max_threads));
}

uint32_t default_thread_count() {
#if defined(__linux__)
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
  std::vector<int> allowed;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) allowed.push_back(cpu);
  }
  return thread_count_of("", allowed);
#else
  return static_cast<uint32_t>(std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN), 1, kMaxThreads));
#endif
}

}  // namespace edgecore
