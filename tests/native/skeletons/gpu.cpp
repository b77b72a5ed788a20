// The shape of a delegate for a GPU: arguments in buffers of the device, and executions that stay pending until its
// queue has come to them. A thread stands for the device; it multiplies float32 by the factor that the blob holds.
//
// backend.hpp does what is common; what it leaves to a backend (buffers, pending work) is written by hand below.
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "edgecore/backend.hpp"

// Memory of the device; here it is memory of the host, which an integrated GPU maps without a copy.
struct edgecore_buffer {
  void *memory;
  uint64_t bytes;
};

namespace {

using namespace edgecore::backend;

constexpr uint32_t kDeviceLocal = 1;  // the memory kind

// The queue of the device; work runs in order.
class Queue {
 public:
  Queue() : thread_([this] { work(); }) {}
  ~Queue() {
    submit(nullptr);
    thread_.join();
  }
  void submit(std::function<void()> task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
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
  std::thread thread_;
};

struct Driver {
  explicit Driver(const Host &) : queue(std::make_unique<Queue>()) {}
  std::unique_ptr<Queue> queue;  // one device, one queue
};

struct Program {
  Program(Driver &driver, const Host &, const Options &) : queue(*driver.queue) {}
  Queue &queue;
};

struct Delegate {
  Delegate(Program &program, const Host &, const edgecore_delegate_info &info) : queue(program.queue) {
    if (info.blob.size != sizeof(float)) fail(EDGECORE_INVALID_PROGRAM, "the blob has not 4 bytes.");
    std::memcpy(&factor, info.blob.data, sizeof(float));
  }
  uint64_t argument_count() const noexcept { return 2; }
  void buffer_requirement(uint64_t, edgecore_buffer_requirement &out) const noexcept {
    out.alignment = 256;
    out.granule = 16;
    out.memory_kind = kDeviceLocal;
  }
  Queue &queue;
  float factor;
};

// Counts what was submitted and has not ended.
class Fence {
 public:
  void raise() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++busy_;
  }
  void signal() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --busy_;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int busy_ = 0;  // the host may submit again as soon as a completion has fired
};

struct Instance {
  Instance(Delegate &delegate, const Host &) : delegate(delegate), fence(std::make_unique<Fence>()) {}
  Instance(Instance &&) = default;
  ~Instance() {
    if (fence) fence->wait();  // nothing touches the arguments of a pending run any more
  }

  std::vector<edgecore_memory_need> prepare(const Arguments &arguments) {
    const edgecore_dl_tensor &input = arguments.any_tensor(0).dl;
    arguments.resize(1, input.shape, input.ndim);
    return {};
  }
  void execute(const Arguments &, const Memory &) {}  // below

  Delegate &delegate;
  std::unique_ptr<Fence> fence;
};

float *on_device(const edgecore_tensor &tensor) {  // a kernel's binding: buffer and offset
  return reinterpret_cast<float *>(static_cast<char *>(tensor.buffer->memory) + tensor.dl.byte_offset);
}

int32_t EDGECORE_CALL execute(edgecore_instance *handle, const edgecore_execute_info *info, const edgecore_value *args,
                              uint64_t, uint32_t stride, edgecore_error *) {
  Instance &instance = get<Instance>(handle);
  const auto *second = reinterpret_cast<const edgecore_value *>(reinterpret_cast<const char *>(args) + stride);
  const edgecore_tensor &input = *args->as.tensor, &output = *second->as.tensor;
  uint64_t count = 1;
  for (int32_t d = 0; d < input.dl.ndim; ++d) count *= static_cast<uint64_t>(input.dl.shape[d]);
  if (count == 0) return EDGECORE_OK;
  const float *from = on_device(input);
  float *to = on_device(output);
  const float factor = instance.delegate.factor;
  const edgecore_completion_fn completion = info->completion;
  void *const completion_arg = info->completion_arg;
  Fence *const fence = instance.fence.get();
  fence->raise();
  instance.delegate.queue.submit([=] {
    for (uint64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
    if (completion != nullptr) completion(completion_arg, EDGECORE_OK, {nullptr, 0});
    fence->signal();  // last: the instance may go now
  });
  if (completion != nullptr) return EDGECORE_PENDING;
  fence->wait();  // a host that has nothing else to do
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL buffer_create(edgecore_driver *, uint64_t bytes, uint64_t alignment, uint32_t,
                                    edgecore_buffer **out, edgecore_error *) {
  void *memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) return EDGECORE_MEMORY_ALLOCATION_FAILED;
  *out = new (std::nothrow) edgecore_buffer{memory, bytes};
  if (*out != nullptr) return EDGECORE_OK;
  std::free(memory);
  return EDGECORE_MEMORY_ALLOCATION_FAILED;
}
void EDGECORE_CALL buffer_destroy(edgecore_buffer *buffer) {
  std::free(buffer->memory);
  delete buffer;
}
int32_t EDGECORE_CALL buffer_map(edgecore_buffer *buffer, uint64_t offset, uint64_t, void **out, edgecore_error *) {
  *out = static_cast<char *>(buffer->memory) + offset;
  return EDGECORE_OK;
}
int32_t EDGECORE_CALL buffer_unmap(edgecore_buffer *, edgecore_error *) { return EDGECORE_OK; }

edgecore_backend gpu_table() {
  edgecore_backend table = make_table<Driver, Program, Delegate, Instance>(
      {"GpuSkeleton", "edgecore-gpu-skeleton", "1.0", EDGECORE_NO_THREADS | EDGECORE_VALIDATES_BLOBS});
  table.execute = execute;
  table.buffer_create = buffer_create;
  table.buffer_destroy = buffer_destroy;
  table.buffer_map = buffer_map;
  table.buffer_unmap = buffer_unmap;
  return table;
}

}  // namespace

extern "C" EDGECORE_BACKEND(gpu) {
  static const edgecore_backend table = gpu_table();
  return &table;
}
