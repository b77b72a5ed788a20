// The mutable state that the methods of a session share: mutable buffers, and state sets of backends.
#ifndef EDGECORE_STATE_H_
#define EDGECORE_STATE_H_

#include "edgecore/host.h"

namespace edgecore {

// Selects which mutable buffers the methods of a program share. Only buffers with the same qualified name, such as
// "cache.k", are shared, and in kAll also buffers without a name. Methods that share a buffer must not run at the same
// time.
enum class StateSharing : uint8_t {
  kAsFile,  // the buffers that the file's metadata lists as shared; of a backend all if the list is not empty, else
            // none
  kAll,     // all; buffers without a name if their memory_id (at least 2) and offset are equal, as in ExecuTorch
  kNone,    // each method has its own
};

// The mutable buffers that a backend keeps for all methods of a session, or for one method.
struct StateSet {
  LoadedBackend backend;
  StringView method;     // the method that alone uses the set; empty: all methods of the session use it
  edgecore_scope scope;  // the backend keeps its address
  edgecore_state_set *handle = nullptr;
  bool interrupted = false;  // a delegate call with the set has begun and not succeeded; or a reset or import failed
  StateSet *next = nullptr;

  // Fails if the set is interrupted: its content is undefined. Errors: INVALID_STATE.
  Status check(Error &error) const;
};

// Holds the state of one session, of a program that is loaded once and has one history: one copy of each buffer that
// methods share, and the state sets of backends. The store must outlive the session's methods, but not the backends,
// and its allocator must outlive the store.
class StateStore {
 public:
  struct Buffer {
    StringView name;         // such as "cache.k"; empty: identified by memory_id and offset
    uint32_t memory_id = 0;  // only of a buffer without a name, like offset
    uint64_t offset = 0;
    StringView method;  // the first method that asked for the buffer
    int32_t scalar_type = 0;
    Span<const int32_t> sizes;
    Span<const uint8_t> dim_order;
    uint64_t bytes = 0;
    const uint8_t *initial = nullptr;  // NULL: zeros
    uint8_t *data = nullptr;           // kArenaTail more bytes after its end are readable
    Buffer *next = nullptr;
  };

  // `context` is the scope->context of state sets in host services.
  explicit StateStore(Allocator *allocator, void *context = nullptr) : allocator_(allocator), context_(context) {}
  ~StateStore();  // destroys the state sets

  // Returns the shared buffer with the name of `wanted`, or, for a buffer without a name, with its memory_id and
  // offset. The first call creates the buffer with its initial values. Errors: INVALID_PROGRAM, with both methods, if
  // the shared buffer has another dtype, shape or dim order than `wanted`; MEMORY_ALLOCATION_FAILED.
  Result<Buffer *> share(const Buffer &wanted, Error &error);
  // Returns the state set of a backend for the method with this name, or, if `method` is empty, for all methods. The
  // first call creates the set. Errors: those of the backend; MEMORY_ALLOCATION_FAILED.
  Result<StateSet *> state_set(const LoadedBackend &backend, const Program *program, StringView method, Error &error);
  StateSet *first_state_set() const { return first_set_; }

  // Gives all buffers and state sets their initial values. If a backend fails, no state set can be used until a reset
  // or an import succeeds. Errors: those of backends.
  Status reset(Error &error);

  StateStore(const StateStore &) = delete;
  StateStore &operator=(const StateStore &) = delete;

 private:
  Allocator *allocator_;
  void *context_;
  Buffer *first_ = nullptr;
  StateSet *first_set_ = nullptr;
};

// A mutable buffer of a method and its current memory.
struct StateBuffer {
  StringView name;  // qualified; empty if the file does not say
  int32_t scalar_type = 0;
  Span<const int32_t> sizes;
  Span<const uint8_t> dim_order;
  MutableBytes memory;
  bool shared = false;  // in a StateStore, so that other methods may use it
};

class StateVisitor {
 public:
  virtual void visit(const StateBuffer &buffer) = 0;

 protected:
  ~StateVisitor() = default;
};

}  // namespace edgecore

#endif  // EDGECORE_STATE_H_
