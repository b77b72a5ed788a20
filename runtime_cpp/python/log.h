// Routes log messages of the runtime and its backends into Python's `logging`.
//
// A message may come from any thread, with or without the GIL, while the runtime or a backend holds locks. So the
// runtime only puts the message into a queue. Python receives the message when the call of this module that caused it
// ends, or, if no call is in progress, from the interpreter's main thread.
#ifndef EDGECORE_PYTHON_LOG_H_
#define EDGECORE_PYTHON_LOG_H_

#include <atomic>

namespace edgecore::python {

// Registers a log function with the runtime (edgecore_register_platform). The function queues each message for Python.
void route_log();

extern std::atomic<bool> log_waits;  // true if the queue has messages
void deliver_waiting_log();

// Passes queued messages to Python's logging. Needs the GIL; costs one comparison if there are no messages.
inline void deliver_log() {
  if (log_waits.load(std::memory_order_relaxed)) deliver_waiting_log();
}

}  // namespace edgecore::python

#endif  // EDGECORE_PYTHON_LOG_H_
