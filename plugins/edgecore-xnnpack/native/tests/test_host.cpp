#include "test_host.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct edgecore_error {
  int32_t code = EDGECORE_OK;
  std::string text;
};

namespace {

thread_local uint32_t current_worker = 0;
thread_local bool inside_loop = false;

// A thread pool with work stealing: each worker has a contiguous share of the items and, when this share is done, takes
// items from the shares of other workers.
class Pool {
 public:
  explicit Pool(uint32_t threads) : shares_(threads) {
    for (uint32_t i = 1; i < threads; ++i) threads_.emplace_back([this, i] { serve(i); });
  }

  ~Pool() {
    stop_ = true;
    announce();
    for (std::thread &thread : threads_) thread.join();
  }

  uint32_t size() const { return static_cast<uint32_t>(shares_.size()); }

  void run(uint64_t n, edgecore_loop_fn fn, void *arg) {
    if (n == 0) return;
    if (inside_loop || size() == 1 || n >= UINT32_MAX || busy_.exchange(true)) {
      fn(arg, 0, n, current_worker);
      return;
    }
    fn_ = fn;
    arg_ = arg;
    for (uint32_t i = 0; i < size(); ++i) shares_[i].range = pack(n * i / size(), n * (i + 1) / size());
    step_ = std::max<uint64_t>(1, n / (size() * 4));
    pending_ = size() - 1;
    announce();
    work(0);
    for (int spin = 0; pending_.load(std::memory_order_acquire) != 0; ++spin) {
      if (spin < 2000) {
        pause();
      } else {
        std::this_thread::yield();  // lets other processes use the cores that the workers need
      }
    }
    busy_ = false;
  }

 private:
  struct alignas(64) Share {
    std::atomic<uint64_t> range{0};  // begin << 32 | end
  };

  static uint64_t pack(uint64_t begin, uint64_t end) { return begin << 32 | end; }

  static void pause() {
#if defined(__SSE__)
    __builtin_ia32_pause();
#endif
  }

  void announce() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      generation_.fetch_add(1, std::memory_order_release);
    }
    if (sleeping_ != 0) wake_.notify_all();
  }

  void serve(uint32_t worker) {
    current_worker = worker;
    uint32_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < 5000 && generation_.load(std::memory_order_acquire) == seen; ++spin) pause();
      if (generation_.load(std::memory_order_acquire) == seen) {
        std::unique_lock<std::mutex> lock(mutex_);
        ++sleeping_;
        wake_.wait(lock, [&] { return generation_.load() != seen; });
        --sleeping_;
      }
      ++seen;
      if (stop_) return;
      work(worker);
      pending_.fetch_sub(1, std::memory_order_release);
    }
  }

  void work(uint32_t worker) {
    inside_loop = true;
    for (uint32_t i = 0; i < size(); ++i) {
      Share &share = shares_[(worker + i) % size()];
      uint64_t range = share.range.load();
      for (;;) {
        const uint64_t begin = range >> 32, end = range & UINT32_MAX;
        if (begin >= end) break;
        const uint64_t count = std::min(step_, end - begin);
        // The owner of a share takes items from its front, other workers take items from its back.
        const uint64_t remaining = i == 0 ? pack(begin + count, end) : pack(begin, end - count);
        if (!share.range.compare_exchange_weak(range, remaining)) continue;
        const uint64_t first = i == 0 ? begin : end - count;
        fn_(arg_, first, first + count, worker);
        range = share.range.load();
      }
    }
    inside_loop = false;
  }

  std::vector<Share> shares_;
  std::vector<std::thread> threads_;
  std::atomic<uint32_t> generation_{0}, pending_{0};
  std::atomic<bool> busy_{false}, stop_{false};
  std::atomic<int> sleeping_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  edgecore_loop_fn fn_ = nullptr;
  void *arg_ = nullptr;
  uint64_t step_ = 1;
};

}  // namespace

struct edgecore_scope {
  std::unique_ptr<Pool> pool;
  const edgecore_test_data *named = nullptr;
  uint64_t named_count = 0;
};

namespace {

int32_t EDGECORE_CALL host_fail(edgecore_error *error, int32_t code, edgecore_str text) {
  if (error != nullptr) {
    error->code = code;
    error->text.assign(text.data, text.size);
  }
  return code;
}

void EDGECORE_CALL host_log(edgecore_scope *, int32_t, edgecore_str text) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size), text.data);
}

void *EDGECORE_CALL allocate(edgecore_scope *, uint64_t size, uint64_t alignment) {
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void EDGECORE_CALL deallocate(edgecore_scope *, void *data, uint64_t, uint64_t) { std::free(data); }

void EDGECORE_CALL parallel_for(edgecore_scope *scope, uint64_t n, uint64_t, edgecore_loop_fn fn, void *arg, uint32_t) {
  scope->pool->run(n, fn, arg);
}

uint32_t EDGECORE_CALL worker_count(edgecore_scope *scope) { return scope->pool->size(); }
uint32_t EDGECORE_CALL worker_index(edgecore_scope *) { return current_worker; }
int32_t EDGECORE_CALL is_worker(edgecore_scope *) { return inside_loop ? 1 : 0; }

int32_t EDGECORE_CALL named_data(edgecore_scope *scope, edgecore_str key, edgecore_bytes *out, edgecore_error *error) {
  for (uint64_t i = 0; i < scope->named_count; ++i) {
    const edgecore_test_data &entry = scope->named[i];
    if (std::strlen(entry.key) == key.size && std::memcmp(entry.key, key.data, key.size) == 0) {
      *out = {entry.data, entry.size};
      return EDGECORE_OK;
    }
  }
  return host_fail(error, EDGECORE_NOT_FOUND, {"no such key", 11});
}

int32_t EDGECORE_CALL resize(edgecore_scope *, edgecore_tensor *tensor, const int64_t *shape, int32_t ndim,
                             edgecore_error *error) {
  const bool wide = tensor->scalar_type == 4;
  uint64_t bytes = wide ? 8 : tensor->scalar_type == 5 ? 2 : tensor->scalar_type < 2 ? 1 : 4;
  for (int32_t i = 0; i < ndim; ++i) bytes *= static_cast<uint64_t>(shape[i]);
  if (bytes > tensor->capacity) return host_fail(error, EDGECORE_OUT_OF_RESOURCES, {"output too large", 16});
  std::copy(shape, shape + ndim, tensor->dl.shape);
  return EDGECORE_OK;
}

const edgecore_host kHost = {{sizeof(edgecore_host), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR},
                             host_fail,
                             host_log,
                             allocate,
                             deallocate,
                             nullptr,
                             parallel_for,
                             worker_count,
                             worker_index,
                             is_worker,
                             named_data,
                             resize,
                             nullptr,
                             nullptr,
                             nullptr,
                             nullptr};

void copy_message(const edgecore_error &failure, char *error, uint64_t size) {
  if (error != nullptr && size != 0) std::snprintf(error, size, "%s", failure.text.c_str());
}

}  // namespace

struct edgecore_test_session {
  const edgecore_backend *backend = nullptr;
  edgecore_scope scope;
  edgecore_driver *driver = nullptr;
  edgecore_program *program = nullptr;
  edgecore_delegate *delegate = nullptr;
  edgecore_state_set *state = nullptr;
  edgecore_instance *instance = nullptr;
  std::vector<int64_t> shapes;  // concatenated shapes and dim orders of all arguments at the last prepare

  ~edgecore_test_session() {
    if (instance != nullptr) backend->instance_destroy(instance);
    if (state != nullptr) backend->state_set_destroy(state);
    if (delegate != nullptr) backend->delegate_destroy(delegate);
    if (program != nullptr) backend->program_close(program);
    if (driver != nullptr) backend->driver_destroy(driver);
  }

  int32_t open(const edgecore_host *host, const uint8_t *blob, uint64_t size, const edgecore_options *options,
               edgecore_error *error) {
    const edgecore_header header = {0, EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
    int32_t code = backend->driver_create(host, &scope, &driver, error);
    if (code != EDGECORE_OK) return code;
    edgecore_program_info program_info = {header, &scope, {}};
    program_info.header.struct_size = sizeof(program_info);
    if (options != nullptr) program_info.options = *options;
    code = backend->program_open(driver, &program_info, &program, error);
    if (code != EDGECORE_OK) return code;
    edgecore_delegate_info info = {};
    info.header = {sizeof(info), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
    info.scope = &scope;
    info.blob = {blob, size};
    code = backend->delegate_load(program, &info, &delegate, error);
    if (code != EDGECORE_OK) return code;
    edgecore_state_set_info state_info = {header, &scope};
    state_info.header.struct_size = sizeof(state_info);
    if (backend->state_set_create != nullptr) {
      code = backend->state_set_create(program, &state_info, &state, error);
      if (code != EDGECORE_OK) return code;
    }
    const edgecore_instance_info instance_info = {
        {sizeof(edgecore_instance_info), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR}, &scope, 0, 0, state};
    return backend->instance_create(delegate, &instance_info, &instance, error);
  }

  int32_t run(edgecore_test_tensor *tensors, uint64_t count, edgecore_error *error) {
    std::vector<edgecore_tensor> views(count);
    std::vector<edgecore_value> values(count);
    std::vector<int64_t> current;
    for (uint64_t i = 0; i < count; ++i) {
      edgecore_test_tensor &t = tensors[i];
      edgecore_tensor &view = views[i];
      view = {};
      view.header = {sizeof(view), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
      view.scalar_type = t.scalar_type;
      view.dl.data = t.data;
      view.dl.device_type = EDGECORE_DEVICE_CPU;
      view.dl.ndim = t.ndim;
      view.dl.shape = t.shape;
      view.dim_order = t.dim_order;
      view.capacity = t.capacity;
      values[i].tag = EDGECORE_TAG_TENSOR;
      values[i].as.tensor = &view;
      current.insert(current.end(), t.shape, t.shape + t.ndim);
      current.insert(current.end(), t.dim_order, t.dim_order + t.ndim);
    }
    int32_t code = EDGECORE_OK;
    if (current != shapes) {
      edgecore_prepared prepared = {};
      prepared.header = {sizeof(prepared), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
      code = backend->prepare(instance, values.data(), count, sizeof(edgecore_value), &prepared, error);
      if (code != EDGECORE_OK) return code;
      shapes.clear();
      for (uint64_t i = 0; i < count; ++i) {
        shapes.insert(shapes.end(), tensors[i].shape, tensors[i].shape + tensors[i].ndim);
        shapes.insert(shapes.end(), tensors[i].dim_order, tensors[i].dim_order + tensors[i].ndim);
      }
    }
    edgecore_execute_info info = {};
    info.header = {sizeof(info), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
    return backend->execute(instance, &info, values.data(), count, sizeof(edgecore_value), error);
  }
};

edgecore_test_session *edgecore_test_open_with_host(const edgecore_backend *backend, const edgecore_host *host,
                                                    uint32_t threads, const uint8_t *blob, uint64_t size,
                                                    const edgecore_test_data *named, uint64_t named_count,
                                                    const edgecore_options *options, int32_t *code, char *error,
                                                    uint64_t error_size) {
  auto session = std::make_unique<edgecore_test_session>();
  session->backend = backend;
  session->scope.pool = std::make_unique<Pool>(threads);
  session->scope.named = named;
  session->scope.named_count = named_count;
  edgecore_error failure;
  *code = session->open(host, blob, size, options, &failure);
  copy_message(failure, error, error_size);
  return *code == EDGECORE_OK ? session.release() : nullptr;
}

edgecore_test_session *edgecore_test_open(const edgecore_backend *backend, uint32_t threads, const uint8_t *blob,
                                          uint64_t size, const edgecore_test_data *named, uint64_t named_count,
                                          int32_t *code, char *error, uint64_t error_size) {
  return edgecore_test_open_with_host(backend, &kHost, threads, blob, size, named, named_count, nullptr, code, error,
                                      error_size);
}

edgecore_test_session *edgecore_test_open_library(const char *path, uint32_t threads, const uint8_t *blob,
                                                  uint64_t size, const edgecore_test_data *named, uint64_t named_count,
                                                  int32_t *code, char *error, uint64_t error_size) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  auto entry =
      library == nullptr ? nullptr : reinterpret_cast<edgecore_backend_fn>(dlsym(library, EDGECORE_BACKEND_SYMBOL));
  if (entry == nullptr) {
    *code = EDGECORE_NOT_FOUND;
    std::snprintf(error, error_size, "%s", dlerror());
    return nullptr;
  }
  return edgecore_test_open(entry(), threads, blob, size, named, named_count, code, error, error_size);
}

int32_t edgecore_test_run(edgecore_test_session *session, edgecore_test_tensor *tensors, uint64_t count, char *error,
                          uint64_t error_size) {
  edgecore_error failure;
  const int32_t code = session->run(tensors, count, &failure);
  copy_message(failure, error, error_size);
  return code;
}

uint64_t edgecore_test_argument_count(edgecore_test_session *session) {
  return session->backend->argument_count(session->delegate);
}

edgecore_state_set *edgecore_test_state(edgecore_test_session *session) { return session->state; }

void edgecore_test_close(edgecore_test_session *session) { delete session; }

const edgecore_host *edgecore_test_host(void) { return &kHost; }

edgecore_scope *edgecore_test_scope_new(uint32_t threads) {
  auto *scope = new edgecore_scope;
  scope->pool = std::make_unique<Pool>(threads);
  return scope;
}

void edgecore_test_scope_delete(edgecore_scope *scope) { delete scope; }
