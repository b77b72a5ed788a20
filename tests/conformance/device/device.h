// A device for tests: memory that the host cannot touch, and a thread that stands for the device. All pages of the
// memory are inaccessible except while the device works with them, so that a wrong access of the host is a crash.
#ifndef EDGECORE_TESTS_DEVICE_H_
#define EDGECORE_TESTS_DEVICE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "edgecore/backend.hpp"

namespace device {

using edgecore::backend::fail;

// Returns true if EDGECORE_DEVICE_FAULT names this fault: the tests of the conformance suite plant it.
inline bool fault(const char *name) {
  const char *given = std::getenv("EDGECORE_DEVICE_FAULT");
  return given != nullptr && std::strcmp(given, name) == 0;
}

// What has happened since the start of the process.
struct Counters {
  std::atomic<uint64_t> maps{0};          // calls of buffer_map
  std::atomic<uint64_t> bytes{0};         // that they mapped
  std::atomic<uint64_t> flushes{0};       // copies to the device
  std::atomic<uint64_t> invalidates{0};   // copies from the device
  std::atomic<uint64_t> executions{0};    // of delegates
  std::atomic<uint64_t> pending{0};       // those that execute has left pending
  std::atomic<uint64_t> buffers{0};       // that exist now: arguments, state, constants and scratch memory
  std::atomic<uint64_t> state_copies{0};  // between state sets and the host: initial values, export, import, reset
};

inline Counters &counters() {
  static Counters counters;
  return counters;
}

// Pages that nobody can access, except within the lifetime of an Open.
class Pages {
 public:
  explicit Pages(uint64_t bytes) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    size_ = static_cast<size_t>((bytes + page - 1) / page * page + (bytes == 0 ? page : 0));
    data_ = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Pages() { munmap(data_, size_); }
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;

  // Used by one thread at a time.
  char *open() {
    if (open_++ == 0) mprotect(data_, size_, PROT_READ | PROT_WRITE);
    return static_cast<char *>(data_);
  }
  void close() {
    if (--open_ == 0) mprotect(data_, size_, PROT_NONE);
  }

 private:
  void *data_;
  size_t size_;
  int open_ = 0;
};

class Open {
 public:
  explicit Open(Pages &pages) : pages_(&pages), data(pages.open()) {}
  Open(Open &&other) noexcept : pages_(other.pages_), data(other.data) { other.pages_ = nullptr; }
  ~Open() {
    if (pages_ != nullptr) pages_->close();
  }

 private:
  Pages *pages_;

 public:
  char *const data;
};

// Memory of the device. Only tasks of the Queue open it.
struct Memory : Pages {
  explicit Memory(uint64_t bytes) : Pages(bytes) { ++counters().buffers; }
  ~Memory() { --counters().buffers; }
};

// The queue of the device. Tasks run in order, on a thread that exists as long as a program is open.
class Queue {
 public:
  void start() {
    const std::lock_guard<std::mutex> lock(programs_mutex_);
    if (programs_++ == 0) thread_ = std::thread([this] { work(); });
  }
  void stop() {
    const std::lock_guard<std::mutex> lock(programs_mutex_);
    if (--programs_ != 0) return;
    submit(nullptr);
    thread_.join();
  }
  void submit(std::function<void()> task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  // Runs a task after those before it, and waits for its end.
  void run(const std::function<void()> &task) {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    submit([&] {
      task();
      const std::lock_guard<std::mutex> lock(mutex);
      done = true;
      changed.notify_all();
    });
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
  void write(Memory &memory, const void *from, uint64_t bytes) {
    run([&] {
      const Open open(memory);
      if (bytes != 0) std::memcpy(open.data, from, static_cast<size_t>(bytes));
    });
  }
  void read(Memory &memory, void *to, uint64_t bytes) {
    run([&] {
      const Open open(memory);
      if (bytes != 0) std::memcpy(to, open.data, static_cast<size_t>(bytes));
    });
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      task();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::mutex programs_mutex_;
  int programs_ = 0;  // that are open
  std::thread thread_;
};

}  // namespace device

// An argument of a delegate: memory of the device, and the window in which the host sees it while it is mapped. The two
// are not coherent: flush copies the window to the memory, and invalidate copies back.
struct edgecore_buffer {
  edgecore_buffer(device::Queue &queue, const edgecore_host *host, uint64_t bytes)
      : queue(queue), host(host), bytes(bytes), memory(bytes), window(bytes) {}

  device::Queue &queue;
  const edgecore_host *host;
  uint64_t bytes;
  device::Memory memory;
  device::Pages window;
  bool is_mapped = false;
  std::atomic<int> executions{0};  // that use the buffer now

  // Throws unless the host may call a function for this buffer now.
  void check_idle(bool want_mapped) const {
    if (executions != 0) device::fail(EDGECORE_INVALID_STATE, "an execution uses the buffer");
    if (want_mapped && !is_mapped) device::fail(EDGECORE_INVALID_STATE, "the buffer is not mapped");
  }
  void copy(bool to_device) {
    const device::Open seen(window);
    queue.run([&] {
      const device::Open open(memory);
      std::memcpy(to_device ? open.data : seen.data, to_device ? seen.data : open.data, static_cast<size_t>(bytes));
    });
  }
};

namespace device {

// Calls `body`, which throws if it fails.
template <typename Body>
int32_t guard(const edgecore_host *host, edgecore_error *error, const Body &body) {
  return edgecore::backend::detail::guard(host, error, [&] {
    body();
    return EDGECORE_OK;
  });
}

// Sets the functions for buffers. `Driver` has the members `queue` and `host`.
template <typename Driver>
void add_buffers(edgecore_backend &table, uint32_t memory_kind) {
  static uint32_t kind;
  kind = memory_kind;
  table.buffer_create = [](edgecore_driver *driver, uint64_t bytes, uint64_t alignment, uint32_t wanted,
                           edgecore_buffer **out, edgecore_error *error) -> int32_t {
    Driver &owner = edgecore::backend::get<Driver>(driver);
    return guard(owner.host.table(), error, [&] {
      if ((wanted != kind && !fault("kinds")) || alignment > 4096)
        fail(EDGECORE_NOT_SUPPORTED, "the device has no such memory");
      *out = new edgecore_buffer(owner.queue, owner.host.table(), bytes);
    });
  };
  table.buffer_destroy = [](edgecore_buffer *buffer) { delete buffer; };
  table.buffer_map = [](edgecore_buffer *buffer, uint64_t offset, uint64_t bytes, void **out,
                        edgecore_error *error) -> int32_t {
    return guard(buffer->host, error, [&] {
      buffer->check_idle(false);
      if (buffer->is_mapped) fail(EDGECORE_INVALID_STATE, "the buffer is mapped already");
      if (offset > buffer->bytes || bytes > buffer->bytes - offset) fail(EDGECORE_INVALID_ARGUMENT, "past the end");
      buffer->is_mapped = true;
      *out = buffer->window.open() + offset;
      ++counters().maps;
      counters().bytes += bytes;
    });
  };
  table.buffer_unmap = [](edgecore_buffer *buffer, edgecore_error *error) -> int32_t {
    return guard(buffer->host, error, [&] {
      buffer->check_idle(true);
      buffer->is_mapped = false;
      buffer->window.close();
    });
  };
  table.buffer_flush = [](edgecore_buffer *buffer, edgecore_error *error) -> int32_t {
    return guard(buffer->host, error, [&] {
      buffer->check_idle(true);
      if (!fault("deaf")) buffer->copy(true);
      ++counters().flushes;
    });
  };
  table.buffer_invalidate = [](edgecore_buffer *buffer, edgecore_error *error) -> int32_t {
    return guard(buffer->host, error, [&] {
      buffer->check_idle(false);
      buffer->copy(false);
      ++counters().invalidates;
    });
  };
}

}  // namespace device

#endif  // EDGECORE_TESTS_DEVICE_H_
