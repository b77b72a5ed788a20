// Mutable buffers that several methods of a program share.
#ifndef EDGECORE_STATE_H_
#define EDGECORE_STATE_H_

#include "edgecore/allocator.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// Selects which mutable buffers the methods of a program share. Only buffers with the same qualified name, such as
// "cache.k", are shared, and in kAll also buffers without a name. Methods that share a buffer must not run at the same
// time.
enum class StateSharing : uint8_t {
  kAsFile,  // the buffers that the file's metadata lists as shared
  kAll,     // all; buffers without a name if their memory_id (at least 2) and offset are equal, as in ExecuTorch
  kNone,    // each method has its own
};

// Holds one copy of each shared buffer. The store and its allocator must outlive the methods.
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

  explicit StateStore(Allocator *allocator) : allocator_(allocator) {}

  // Returns the shared buffer with the name of `wanted`, or, for a buffer without a name, with its memory_id and
  // offset. The first call creates the buffer with its initial values. Errors: INVALID_PROGRAM, with both methods, if
  // the shared buffer has another dtype, shape or dim order than `wanted`; MEMORY_ALLOCATION_FAILED.
  Result<Buffer *> share(const Buffer &wanted, Error &error);
  // Gives all buffers their initial values.
  void reset();
  bool empty() const { return first_ == nullptr; }

 private:
  Allocator *allocator_;
  Buffer *first_ = nullptr;
};

// A mutable buffer of a method and its current memory.
struct StateBuffer {
  StringView name;  // qualified; empty if the file does not say
  int32_t scalar_type = 0;
  Span<const int32_t> sizes;
  Span<const uint8_t> dim_order;
  MutableBytes memory;
};

class StateVisitor {
 public:
  virtual void visit(const StateBuffer &buffer) = 0;

 protected:
  ~StateVisitor() = default;
};

}  // namespace edgecore

#endif  // EDGECORE_STATE_H_
