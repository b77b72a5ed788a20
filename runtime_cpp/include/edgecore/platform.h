// The functions of the platform that an application may replace: clock, log, abort and heap. Plain C, for applications;
// backends and kernels call the services in abi.h, which use these functions.
//
// Without a registered table the runtime uses its defaults. The core, which needs no operating system, has no clock
// (0), no log and no heap, and aborts with the processor's trap instruction. The host library, when it is first used,
// replaces these defaults: the system's monotonic clock, standard error, the C heap, and abort().
#ifndef EDGECORE_PLATFORM_H_
#define EDGECORE_PLATFORM_H_

#include "edgecore/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EDGECORE_LOG_OFF 4  // log level above the levels of all messages, so that none is shown

// Every function may be called by several threads at the same time. A member that is NULL, or that struct_size does not
// cover, keeps its default.
typedef struct edgecore_platform {
  edgecore_header header;

  // Called by edgecore_register_platform, before any other function of the table.
  void(EDGECORE_CALL *init)(void);
  // Ends the process, or puts the device into its error state. Must not return. Called if a condition of the runtime's
  // own code is violated (only in a build with assertions), after an error message was logged.
  void(EDGECORE_CALL *abort)(void);
  // Returns the time, which never decreases, in ticks of the platform: nanoseconds = ticks * numerator / denominator.
  uint64_t(EDGECORE_CALL *current_ticks)(void);
  void(EDGECORE_CALL *ticks_to_ns_multiplier)(uint64_t *numerator, uint64_t *denominator);
  // Shows one message. `timestamp` is a value of current_ticks, `level` is EDGECORE_LOG_*; `text` is valid during the
  // call, and may hold any byte. Must not call the runtime, and must not wait for a lock that another thread may hold
  // while it calls the runtime: this could deadlock, because the runtime and its backends may hold their own locks when
  // they log.
  void(EDGECORE_CALL *emit_log_message)(uint64_t timestamp, int32_t level, edgecore_str text);
  // The heap: set both members or none. allocate returns NULL if there is no memory; `alignment` is a power of two.
  // free accepts NULL. The core itself never uses the heap: it only offers the two functions to backends and kernels.
  void *(EDGECORE_CALL *allocate)(uint64_t size, uint64_t alignment);
  void(EDGECORE_CALL *free)(void *data);
} edgecore_platform;

// Copies the table `platform` and uses its functions instead of earlier ones; NULL restores the defaults.
// Call this function before other threads use the runtime; a heap must be registered before the first use of the heap.
// Returns EDGECORE_OK, EDGECORE_INVALID_ARGUMENT (another major version, a struct smaller than a header, or one member
// of the heap without the other) or EDGECORE_INVALID_STATE (another heap, after the current one was used).
int32_t edgecore_register_platform(const edgecore_platform *platform);

// Set and return the level below which messages are dropped at run time: EDGECORE_LOG_WARNING until it is set. On a
// system with an environment, the variable EDGECORE_LOG (debug, info, warning, error or off) sets the first level.
void edgecore_set_log_level(int32_t level);
int32_t edgecore_log_level(void);

// Logs a message of the application. Drops it, like every message, if `level` is below the level of this build
// (EDGECORE_LOG_LEVEL, see log.h) or below edgecore_log_level().
void edgecore_log(int32_t level, edgecore_str text);

#ifdef __cplusplus
}
#endif

#endif  // EDGECORE_PLATFORM_H_
