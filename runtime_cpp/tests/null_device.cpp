#include "null_device.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>

namespace {

std::atomic<uint64_t> live_buffers{0};
std::atomic<uint64_t> maps{0};
std::mutex mutex;
std::condition_variable idle;
std::vector<std::pair<edgecore_instance *, std::function<void()>>> queue;
std::vector<edgecore_instance *> working;

int32_t fail(const edgecore_host *host, edgecore_error *error, int32_t code, const char *text) {
  return host->fail(error, code, {text, strlen(text)});
}

int32_t make(const edgecore_host *host, uint64_t bytes, uint8_t *memory, bool owned, edgecore_buffer **out) {
  *out = new (std::nothrow) edgecore_buffer{host, bytes, memory, owned, false, std::vector<uint8_t>(bytes)};
  if (*out == nullptr) return EDGECORE_MEMORY_ALLOCATION_FAILED;
  ++live_buffers;
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL create(edgecore_driver *driver, uint64_t bytes, uint64_t alignment, uint32_t memory_kind,
                             edgecore_buffer **out, edgecore_error *error) {
  if (memory_kind != null_device::kMemoryKind) {
    return fail(driver->host, error, EDGECORE_NOT_SUPPORTED, "the device has memory of kind 7 only.");
  }
  void *memory = nullptr;
  const size_t min_alignment = alignment < sizeof(void *) ? sizeof(void *) : static_cast<size_t>(alignment);
  if (posix_memalign(&memory, min_alignment, bytes == 0 ? 1 : bytes) != 0) return EDGECORE_MEMORY_ALLOCATION_FAILED;
  memset(memory, 0xcd, bytes);
  return make(driver->host, bytes, static_cast<uint8_t *>(memory), true, out);
}

void EDGECORE_CALL destroy(edgecore_buffer *buffer) {
  if (buffer->owns_memory) free(buffer->memory);
  delete buffer;
  --live_buffers;
}

int32_t EDGECORE_CALL map(edgecore_buffer *buffer, uint64_t offset, uint64_t bytes, void **out, edgecore_error *error) {
  if (buffer->mapped || offset > buffer->size || bytes > buffer->size - offset) {
    return fail(buffer->host, error, EDGECORE_INVALID_ARGUMENT, "the buffer is mapped, or smaller.");
  }
  ++maps;
  buffer->mapped = true;
  *out = buffer->shadow.data() + offset;
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL unmap(edgecore_buffer *buffer, edgecore_error *error) {
  if (!buffer->mapped) return fail(buffer->host, error, EDGECORE_INVALID_STATE, "the buffer is not mapped.");
  buffer->mapped = false;
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL flush(edgecore_buffer *buffer, edgecore_error *) {
  memcpy(buffer->memory, buffer->shadow.data(), buffer->size);
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL invalidate(edgecore_buffer *buffer, edgecore_error *) {
  memcpy(buffer->shadow.data(), buffer->memory, buffer->size);
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL export_handle(edgecore_buffer *buffer, uint32_t kind, uint64_t *out, edgecore_error *error) {
  if (kind != EDGECORE_HANDLE_ADDRESS) {
    return fail(buffer->host, error, EDGECORE_NOT_SUPPORTED, "buffers of this device are shared by address only.");
  }
  *out = reinterpret_cast<uintptr_t>(buffer->memory);
  return EDGECORE_OK;
}

int32_t EDGECORE_CALL import_handle(edgecore_driver *driver, uint32_t kind, uint64_t handle, uint64_t bytes,
                                    uint32_t memory_kind, edgecore_buffer **out, edgecore_error *error) {
  if (kind != EDGECORE_HANDLE_ADDRESS || memory_kind != null_device::kMemoryKind) {
    return fail(driver->host, error, EDGECORE_NOT_SUPPORTED, "buffers of this device are shared by address only.");
  }
  return make(driver->host, bytes, reinterpret_cast<uint8_t *>(static_cast<uintptr_t>(handle)), false, out);
}

}  // namespace

namespace null_device {

void add_members(edgecore_backend &table) {
  table.buffer_create = create;
  table.buffer_destroy = destroy;
  table.buffer_map = map;
  table.buffer_unmap = unmap;
  table.buffer_flush = flush;
  table.buffer_invalidate = invalidate;
  table.buffer_export = export_handle;
  table.buffer_import = import_handle;
}

void submit(edgecore_instance *instance, std::function<void()> work) {
  const std::lock_guard<std::mutex> lock(mutex);
  queue.emplace_back(instance, std::move(work));
}

void cancel(edgecore_instance *instance) {
  std::unique_lock<std::mutex> lock(mutex);
  for (size_t i = queue.size(); i-- > 0;) {
    if (queue[i].first == instance) queue.erase(queue.begin() + static_cast<ptrdiff_t>(i));
  }
  idle.wait(lock, [instance] { return std::find(working.begin(), working.end(), instance) == working.end(); });
}

}  // namespace null_device

extern "C" uint64_t null_backend_drain() {
  uint64_t done = 0;
  std::unique_lock<std::mutex> lock(mutex);
  for (size_t waiting = queue.size(); done < waiting && !queue.empty(); ++done) {
    const auto item = std::move(queue.front());
    queue.erase(queue.begin());
    working.push_back(item.first);
    lock.unlock();
    item.second();
    lock.lock();
    working.erase(std::find(working.begin(), working.end(), item.first));
    idle.notify_all();
  }
  return done;
}

extern "C" uint64_t null_backend_live_buffers() { return live_buffers; }
extern "C" uint64_t null_backend_maps() { return maps; }
