#include "core/platform.h"

#include <string.h>

#include "edgecore/log.h"

namespace edgecore {
namespace {

uint64_t EDGECORE_CALL no_ticks() { return 0; }
void EDGECORE_CALL same_ticks(uint64_t *numerator, uint64_t *denominator) { *numerator = *denominator = 1; }
void EDGECORE_CALL no_log(uint64_t, int32_t, edgecore_str) {}
void EDGECORE_CALL trap() { __builtin_trap(); }

constexpr int32_t kUnset = -1;

// All state is initialized at compile time, so that it can be used before main.
edgecore_platform defaults = {{}, nullptr, trap, no_ticks, same_ticks, no_log, nullptr, nullptr};
edgecore_platform registered = {};  // members that are NULL have their default
int32_t default_level = EDGECORE_LOG_WARNING;
int32_t chosen_level = kUnset;
uint8_t heap_used = 0;

template <typename Function>
Function chosen(Function edgecore_platform::*member) {
  return registered.*member != nullptr ? registered.*member : defaults.*member;
}

}  // namespace

void set_default_platform(const edgecore_platform &platform, int32_t level) {
  defaults = platform;
  default_level = level;
}

uint64_t platform_nanoseconds() {
  const uint64_t ticks = chosen(&edgecore_platform::current_ticks)();
  uint64_t numerator = 1, denominator = 1;
  chosen (&edgecore_platform::ticks_to_ns_multiplier)(&numerator, &denominator);
  if (denominator == 0) return 0;
  return ticks / denominator * numerator + ticks % denominator * numerator / denominator;
}

bool platform_has_heap() { return chosen(&edgecore_platform::allocate) != nullptr; }

void *platform_allocate(uint64_t size, uint64_t alignment) {
  __atomic_store_n(&heap_used, 1, __ATOMIC_RELAXED);
  return chosen(&edgecore_platform::allocate)(size, alignment);
}

void platform_free(void *data) { chosen (&edgecore_platform::free)(data); }

void platform_abort(const char *condition) {
  EDGECORE_LOG(EDGECORE_LOG_ERROR, "The runtime stops, because of a fault in it: ", condition, " does not hold.");
  chosen (&edgecore_platform::abort)();
  __builtin_trap();
}

}  // namespace edgecore

int32_t edgecore_register_platform(const edgecore_platform *platform) {
  using namespace edgecore;
  edgecore_platform wanted = {};
  if (platform != nullptr) {
    const uint32_t size = platform->header.struct_size;
    if (size < sizeof(edgecore_header) || platform->header.major != EDGECORE_ABI_MAJOR) {
      return EDGECORE_INVALID_ARGUMENT;
    }
    memcpy(&wanted, platform, size < sizeof(wanted) ? size : sizeof(wanted));
    if ((wanted.allocate == nullptr) != (wanted.free == nullptr)) return EDGECORE_INVALID_ARGUMENT;
  }
  const auto allocate = wanted.allocate != nullptr ? wanted.allocate : defaults.allocate;
  if (heap_used != 0 && allocate != chosen(&edgecore_platform::allocate)) return EDGECORE_INVALID_STATE;
  registered = wanted;
  if (wanted.init != nullptr) wanted.init();
  return EDGECORE_OK;
}

void edgecore_set_log_level(int32_t level) { __atomic_store_n(&edgecore::chosen_level, level, __ATOMIC_RELAXED); }

int32_t edgecore_log_level(void) {
  const int32_t level = __atomic_load_n(&edgecore::chosen_level, __ATOMIC_RELAXED);
  return level == edgecore::kUnset ? edgecore::default_level : level;
}

void edgecore_log(int32_t level, edgecore_str text) {
  using namespace edgecore;
  if (level < EDGECORE_LOG_LEVEL || level < edgecore_log_level()) return;
  chosen (&edgecore_platform::emit_log_message)(chosen (&edgecore_platform::current_ticks)(), level, text);
}
