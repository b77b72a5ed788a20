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

// All variables of this file are initialized at compile time, so that the platform functions work even before main.
constexpr edgecore_platform kMinimal = {{}, nullptr, trap, no_ticks, same_ticks, no_log, nullptr, nullptr};
edgecore_platform active = kMinimal;  // the platform functions in use: registered by the application, or defaults
edgecore_platform defaults = kMinimal;
edgecore_platform registered = {};
int32_t default_level = EDGECORE_LOG_WARNING;
int32_t chosen_level = kUnset;
uint8_t heap_used = 0;

template <typename Function>
Function either(Function wanted, Function otherwise) {
  return wanted != nullptr ? wanted : otherwise;
}

void activate() {
  active.abort = either(registered.abort, defaults.abort);
  active.current_ticks = either(registered.current_ticks, defaults.current_ticks);
  active.ticks_to_ns_multiplier = either(registered.ticks_to_ns_multiplier, defaults.ticks_to_ns_multiplier);
  active.emit_log_message = either(registered.emit_log_message, defaults.emit_log_message);
  active.allocate = either(registered.allocate, defaults.allocate);
  active.free = either(registered.free, defaults.free);
}

}  // namespace

void set_default_platform(const edgecore_platform &platform, int32_t level) {
  defaults = platform;
  default_level = level;
  activate();
}

uint64_t platform_nanoseconds() {
  const uint64_t ticks = active.current_ticks();
  uint64_t numerator = 1, denominator = 1;
  active.ticks_to_ns_multiplier(&numerator, &denominator);
  if (denominator == 0) return 0;
  return ticks / denominator * numerator + ticks % denominator * numerator / denominator;
}

bool platform_has_heap() { return active.allocate != nullptr; }

void *platform_allocate(uint64_t size, uint64_t alignment) {
  // no heap is registered now, although a heap was registered when the caller received its services
  if (active.allocate == nullptr) return nullptr;
  __atomic_store_n(&heap_used, 1, __ATOMIC_RELAXED);
  return active.allocate(size, alignment);
}

void platform_free(void *data) { active.free(data); }

void platform_abort(const char *condition) {
  EDGECORE_LOG(EDGECORE_LOG_ERROR, "The runtime stops, because of a fault in it: ", condition, " does not hold.");
  active.abort();
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
    // Copy only whole members: the table of an application that was built for an older version is shorter.
    const uint32_t members = size - size % static_cast<uint32_t>(sizeof(void *));
    memcpy(&wanted, platform, members < sizeof(wanted) ? members : sizeof(wanted));
    if ((wanted.allocate == nullptr) != (wanted.free == nullptr)) return EDGECORE_INVALID_ARGUMENT;
  }
  const auto allocate = wanted.allocate != nullptr ? wanted.allocate : defaults.allocate;
  if (heap_used != 0 && allocate != active.allocate) return EDGECORE_INVALID_STATE;
  registered = wanted;
  activate();
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
  active.emit_log_message(active.current_ticks(), level, text);
}
