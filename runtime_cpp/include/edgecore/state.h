// The mutable state that the methods of a session share: mutable buffers, and state sets of backends.
#ifndef EDGECORE_STATE_H_
#define EDGECORE_STATE_H_

#include "edgecore/allocator.h"
#include "edgecore/host.h"

namespace edgecore {

// Selects which mutable buffers the methods of a program share. Only buffers with the same qualified name, such as
// "cache.k", are shared, and in kAll also buffers without a name. Methods that share a buffer must not run at the same
// time.
enum class StateSharing : uint8_t {
  kAsFile,  // share buffers that the file's metadata lists as shared; if it lists any, share all state of backends too
  kAll,     // share all buffers; those without a name are matched by memory_id (at least 2) and offset
  kNone,    // share nothing: each method has its own buffers
};

// The mutable buffers that a backend keeps for all methods of a session, or for one method.
struct StateSet {
  LoadedBackend backend;
  StringView method;     // the method that alone uses the set; empty: all methods of the session use it
  edgecore_scope scope;  // scope for calls with the set; must not move, because the backend keeps the scope's address
  edgecore_state_set *handle = nullptr;
  // a delegate's call that uses the set has begun and has not succeeded, or a reset or import of the set has failed
  bool interrupted = false;
  StateSet *next = nullptr;

  // Fails if the set has tensors and `interrupted` is true, because the content of the tensors is then undefined.
  // Errors: INVALID_STATE.
  Status check(Error &error) const;
};

// Device buffers that are destroyed together.
class DeviceBuffers {
 public:
  explicit DeviceBuffers(Allocator *allocator) : allocator_(allocator) {}

  // Creates a buffer. Errors: the errors that the backend returns, and MEMORY_ALLOCATION_FAILED.
  Result<edgecore_buffer *> create(const LoadedBackend &backend, uint64_t bytes, uint64_t alignment,
                                   uint32_t memory_kind, Error &error);
  // Destroys all buffers. Call this function after the instances that used the buffers are destroyed.
  void destroy() {
    for (; first_ != nullptr; first_ = first_->next) first_->table->buffer_destroy(first_->buffer);
  }

 private:
  struct Owned {
    const edgecore_backend *table;
    edgecore_buffer *buffer;
    Owned *next;
  };
  Allocator *allocator_;
  Owned *first_ = nullptr;
};

// A mutable buffer of the model in device memory. The buffer stays there from run to run; its content is copied to host
// memory only when the host reads the buffer.
struct DeviceState {
  const edgecore_backend *table = nullptr;  // backend of the device; NULL: the buffer is in host memory only
  edgecore_driver *driver = nullptr;
  uint32_t memory_kind = 0;
  uint64_t bytes = 0;  // size of each device buffer
  uint64_t alignment = 0;
  edgecore_buffer *content = nullptr;
  edgecore_buffer *spare = nullptr;  // device buffer that receives the new content in a run; NULL if no method needs it
  bool is_current = false;           // true if the device buffer `content` is up to date
  bool host_is_stale = false;        // true if the content in host memory is out of date

  // Copies the device buffer's content to `host` if host memory is out of date. Errors: as the backend.
  Status fetch(void *host, uint64_t size, Error &error);
  // Copies the content of `host`, in host memory, to the device buffer. Errors: as the backend.
  Status send(void *host, uint64_t size, Error &error);
  // Records that the content in host memory has changed. Call this function after each change.
  void host_has_changed() {
    is_current = false;
    host_is_stale = false;
  }

 private:
  Status copy(void *host, uint64_t size, bool to_device, Error &error);
};

// Holds the state of one session (a program that is loaded once and has one history of calls): one copy of each buffer
// that methods share, and the state sets of backends. The store must outlive the session's methods. The backends, and
// the store's allocator, must outlive the store.
class StateStore {
 public:
  struct Buffer {
    StringView name;         // qualified name, such as "cache.k"; if empty, memory_id and offset identify the buffer
    uint32_t memory_id = 0;  // together with offset, identifies a buffer without a name
    uint64_t offset = 0;
    StringView method;  // the first method that asked for the buffer
    int32_t scalar_type = 0;
    Span<const int32_t> sizes;
    Span<const uint8_t> dim_order;
    uint64_t bytes = 0;
    const uint8_t *initial = nullptr;  // NULL: zeros
    uint8_t *data = nullptr;           // memory of the buffer, with kArenaTail more readable bytes after its end
    DeviceState device;
    Buffer *next = nullptr;
  };

  // `context` is stored in the scopes of the state sets (edgecore_scope::context), so services of the host receive it
  // when a state set calls them.
  explicit StateStore(Allocator *allocator, void *context = nullptr)
      : allocator_(allocator), context_(context), device_buffers_(allocator) {}
  ~StateStore();  // destroys the state sets and device buffers

  // Returns the shared buffer that has the name of `wanted`, or, if the name is empty, its memory_id and offset. The
  // first call creates the buffer with its initial values. Errors: INVALID_PROGRAM (names both methods) if the shared
  // buffer has another dtype, shape or dim order than `wanted`; MEMORY_ALLOCATION_FAILED.
  Result<Buffer *> share(const Buffer &wanted, Error &error);
  // Returns a backend's state set for the method with this name, or for all methods if `method` is empty. The first
  // call creates the set. Errors: as the backend; MEMORY_ALLOCATION_FAILED.
  Result<StateSet *> state_set(const LoadedBackend &backend, const Program *program, StringView method, Error &error);
  StateSet *first_state_set() const { return first_set_; }
  DeviceBuffers &device_buffers() { return device_buffers_; }

  // Gives all buffers and state sets their initial values. If a backend fails, no state set can be used until a reset
  // or an import succeeds. Errors: as the backends.
  Status reset(Error &error);

  StateStore(const StateStore &) = delete;
  StateStore &operator=(const StateStore &) = delete;

 private:
  Allocator *allocator_;
  void *context_;
  DeviceBuffers device_buffers_;
  Buffer *first_ = nullptr;
  StateSet *first_set_ = nullptr;
};

// A mutable buffer of a method and its current memory.
struct StateBuffer {
  StringView name;  // qualified name, such as "cache.k"; empty if the file has no name for the buffer
  int32_t scalar_type = 0;
  Span<const int32_t> sizes;
  Span<const uint8_t> dim_order;
  MutableBytes memory;
  bool shared = false;            // true if the buffer is in a StateStore, so that other methods may use it
  DeviceState *device = nullptr;  // call device->fetch before reading `memory`, device->host_has_changed after writing
};

class StateVisitor {
 public:
  virtual void visit(const StateBuffer &buffer) = 0;

 protected:
  ~StateVisitor() = default;
};

}  // namespace edgecore

#endif  // EDGECORE_STATE_H_
