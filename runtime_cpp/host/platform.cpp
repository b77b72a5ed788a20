#include "host/platform.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "core/platform.h"
#include "edgecore/host.h"

namespace edgecore {
namespace {

constexpr const char *kLevels[] = {"debug", "info", "warning", "error", "off"};

int32_t level_of_environment() {
  const char *name = std::getenv("EDGECORE_LOG");
  for (int32_t level = EDGECORE_LOG_DEBUG; name != nullptr && level <= EDGECORE_LOG_OFF; ++level) {
    if (std::strcmp(name, kLevels[level]) == 0) return level;
  }
  return EDGECORE_LOG_WARNING;
}

uint64_t EDGECORE_CALL current_ticks() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

void EDGECORE_CALL nanoseconds(uint64_t *numerator, uint64_t *denominator) { *numerator = *denominator = 1; }

void EDGECORE_CALL print(uint64_t, int32_t level, edgecore_str text) {
  const int32_t shown = std::clamp(level, EDGECORE_LOG_DEBUG, EDGECORE_LOG_ERROR);
  // Write each message with one fprintf, so that messages of several threads do not interleave.
  std::fprintf(stderr, "edgecore %s: %.*s\n", kLevels[shown], static_cast<int>(std::min<uint64_t>(text.size, 4096)),
               text.data);
}

void *EDGECORE_CALL allocate(uint64_t size, uint64_t alignment) {
  void *data = nullptr;
  if (size > SIZE_MAX || alignment > SIZE_MAX) return nullptr;
  const size_t min_alignment = std::max<size_t>(static_cast<size_t>(alignment), sizeof(void *));
  return posix_memalign(&data, min_alignment, static_cast<size_t>(size)) == 0 ? data : nullptr;
}

void EDGECORE_CALL deallocate(void *data) { std::free(data); }
void EDGECORE_CALL end() { std::abort(); }

}  // namespace

void use_host_platform() {
  static std::once_flag once;
  std::call_once(once, [] {
    static constexpr edgecore_platform kPlatform = {
        header_of<edgecore_platform>(), nullptr, end, current_ticks, nanoseconds, print, allocate, deallocate};
    set_default_platform(kPlatform, level_of_environment());
  });
}

}  // namespace edgecore
