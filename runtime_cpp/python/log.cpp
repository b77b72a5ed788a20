#include "log.h"

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "edgecore/host.h"
#include "edgecore/platform.h"

namespace nb = nanobind;

namespace edgecore::python {

std::atomic<bool> log_waits{false};

namespace {

constexpr size_t kMaxWaiting = 1000;

struct Message {
  int32_t level;
  std::string text;
};

// The queue of log messages. While its mutex is held, no other lock is taken and Python is not called.
struct Queue {
  std::mutex mutex;
  std::vector<Message> messages;
  size_t lost = 0;         // number of messages dropped because the queue was full
  bool scheduled = false;  // true: the interpreter has been asked to call deliver_from_main_thread
};

// Returns the queue. The queue is never destroyed, because backends may log when the process ends. The child of a fork
// creates a new queue, because a thread of the parent may have held the mutex, and because the queued messages belong
// to the parent.
Queue &queue() {
  static std::atomic<Queue *> shared{new Queue};
  static const int registered = pthread_atfork(nullptr, nullptr, [] { shared.store(new Queue); });
  (void)registered;
  return *shared.load();
}

int deliver_from_main_thread(void *) {
  {
    const std::lock_guard<std::mutex> lock(queue().mutex);
    queue().scheduled = false;
  }
  deliver_log();
  return 0;
}

void EDGECORE_CALL put(uint64_t, int32_t level, edgecore_str text) {
  if (Py_IsInitialized() == 0) {  // the interpreter has ended
    std::fprintf(stderr, "edgecore: %.*s\n", static_cast<int>(std::min<uint64_t>(text.size, 4096)), text.data);
    return;
  }
  Queue &waiting = queue();
  bool schedule = false;
  {
    const std::lock_guard<std::mutex> lock(waiting.mutex);
    if (waiting.messages.size() < kMaxWaiting) {
      waiting.messages.push_back({level, std::string(text.data, static_cast<size_t>(text.size))});
    } else {
      ++waiting.lost;
    }
    schedule = !std::exchange(waiting.scheduled, true);
  }
  log_waits.store(true, std::memory_order_relaxed);
  if (!schedule) return;
  if (Py_AddPendingCall(deliver_from_main_thread, nullptr) == 0) return;
  const std::lock_guard<std::mutex> lock(waiting.mutex);
  waiting.scheduled = false;  // the interpreter's list of pending calls is full: the next message tries again
}

void pass_on(const Message &message) {
  PyObject *text = PyUnicode_DecodeUTF8(message.text.data(), static_cast<Py_ssize_t>(message.text.size()), "replace");
  if (text == nullptr) throw nb::python_error();
  nb::module_::import_("edgecore.runtime.log").attr("emit")(message.level, nb::steal<nb::str>(text));
}

}  // namespace

void route_log() {
  edgecore_platform platform = {};
  platform.header = header_of<edgecore_platform>();
  platform.emit_log_message = put;
  (void)edgecore_register_platform(&platform);
}

void deliver_waiting_log() {
  const nb::error_scope pending;  // keeps an exception that is being raised, and restores it at the end
  std::vector<Message> messages;
  {
    const std::lock_guard<std::mutex> lock(queue().mutex);
    messages.swap(queue().messages);
    const size_t lost = std::exchange(queue().lost, 0);
    if (lost != 0) messages.push_back({EDGECORE_LOG_WARNING, std::to_string(lost) + " log messages were lost."});
    log_waits.store(false, std::memory_order_relaxed);
  }
  for (const Message &message : messages) {
    try {
      pass_on(message);
    } catch (nb::python_error &failure) {  // a log handler failed, or the interpreter is ending
      // let the interpreter raise KeyboardInterrupt again later
      if (failure.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
      failure.discard_as_unraisable("edgecore's log");
    }
  }
}

}  // namespace edgecore::python
