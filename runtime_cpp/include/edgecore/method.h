// A method of a program, ready to execute: values, planned memory, kernels and delegate instances.
#ifndef EDGECORE_METHOD_H_
#define EDGECORE_METHOD_H_

#include "edgecore/host.h"
#include "edgecore/program.h"
#include "edgecore/state.h"

namespace edgecore {

// Planned memory starts at this alignment and is readable for this many bytes past its end.
constexpr size_t kArenaAlignment = 64;
constexpr size_t kArenaTail = 128;

// Lets delegates have arguments in memory of their device (buffer requirements with a memory_kind): a value that only
// delegates of one backend use stays there, others are copied, which the tracer sees.
class DeviceMemory;
const DeviceMemory *device_memory();

// Everything that a method uses. All pointers must outlive the method.
struct MethodConfig {
  Allocator *allocator = nullptr;       // holds the Method and what it plans for; never shrinks
  ScratchAllocator *scratch = nullptr;  // for kernels and delegates; NULL: none, host->scratch gives NULL
  const edgecore_host *host = nullptr;  // NULL: core_services()
  void *context = nullptr;              // scope->context in host services
  Span<const edgecore_kernel_library *const> kernels;
  Span<const LoadedBackend> backends;
  // Planned memory, one per arena of MethodInfo: at least arena_bytes(i) + kArenaTail bytes at kArenaAlignment. Empty:
  // from `allocator`.
  Span<const MutableBytes> arenas;
  StateStore *state = nullptr;  // of the program's methods; NULL: each has its own mutable buffers
  StateSharing sharing = StateSharing::kAsFile;
  EventTracer *tracer = nullptr;
  const DeviceMemory *devices = nullptr;  // device_memory(), or NULL: host memory only, and less code is linked
  bool trust = false;                     // accept blobs without a matching SHA-256
  uint64_t instruction_limit = 0;         // of one run, which fails past it; 0: Limits::instructions
};

// A tensor that the caller hands in.
struct TensorArgument {
  void *data = nullptr;
  int32_t scalar_type = 0;
  Span<const int64_t> shape;
  Span<const int64_t> strides;  // in elements; empty: dense in the dim order that the method expects
  // Bytes from `data` on that may be read. More than the tensor has (padding, the rest of its page) saves a copy for
  // backends that read past the end. 0: exactly the tensor's.
  uint64_t readable_bytes = 0;
  bool writable = false;  // the program may write to `data`: needed if it mutates this input and borrows it
};

// Told that a run that start or resume left pending goes on with resume: once for each such answer, from any thread,
// and perhaps before the answer. Must not call the method, and must exist until it has returned.
class Completion {
 public:
  virtual void ready() = 0;

 protected:
  ~Completion() = default;
};

// One thread at a time. Several methods of one Program may run side by side.
class Method {
 public:
  // Builds the method: allocates arenas, fills values and initial state, resolves operators (all missing ones in one
  // sentence), checks, loads and prepares delegates at the greatest shapes. On failure what was created is destroyed.
  // The Method lives in config.allocator; destroy() it before freeing that.
  // Errors: NOT_FOUND (method or backend), OPERATOR_MISSING, DELEGATE_*, NOT_SUPPORTED, MEMORY_ALLOCATION_FAILED,
  // INVALID_PROGRAM, or what a backend gave.
  static Result<Method *> load(const Program &program, StringView name, const MethodConfig &config, Error &error);

  // Ends the delegates' instances (with a pending run) and delegates, last first. The Method must not be used
  // afterwards.
  void destroy();

  const Program &program() const;
  MethodInfo info() const;

  // A planned input is copied and must be set before every run, because its memory serves other tensors as well. Any
  // other input is borrowed and stays set: its data must stay until execute has returned, and is written only by a
  // program that mutates this input (which fails unless `writable`).
  // Errors: INVALID_ARGUMENT with expected and given dtype, rank, shape or layout.
  Status set_input(size_t index, const TensorArgument &tensor, Error &error);
  // Int, bool (0 or 1) and double inputs. A value that export baked into the program must be the same.
  Status set_input(size_t index, int64_t value, Error &error);
  Status set_input(size_t index, double value, Error &error);  // double inputs
  // An input that was None at export needs no call; this checks that it was.
  Status set_input_none(size_t index, Error &error);
  // Whether set_input would copy (true) or borrow (false).
  bool input_is_copied(size_t index) const;

  // Memory for an output without planned memory (ValueInfo.tensor.planned == false): `bytes` at least tensor.bytes of
  // its info, aligned to 16 bytes (64 saves copies). Needed before every first execute; stays until set again.
  // Such memory must not overlap an input.
  Status set_output(size_t index, void *data, uint64_t bytes, Error &error);
  bool output_needs_memory(size_t index) const;

  // Runs once. On failure outputs are undefined and the method may be executed again.
  // Errors: INVALID_STATE (an input or output was not set), or what a kernel or delegate gave; the sentence starts with
  // method, instruction and operator or backend.
  Status execute(Error &error);

  // The same for callers that do something else while a device works: EDGECORE_PENDING, which is no failure, when a
  // backend works on; after completion.ready() the run goes on with resume, which answers in the same way. Meanwhile
  // inputs and outputs stay in place, and all else but resume, pending and destroy fails with INVALID_STATE.
  Status start(Completion &completion, Error &error);
  Status resume(Error &error);  // EDGECORE_PENDING if it is too early
  bool pending() const;

  // Sets an option on all instances of the backend; the host layer has checked name and type (AT_RUN).
  // Errors: NOT_FOUND (no delegate of that backend), NOT_SUPPORTED, INVALID_STATE (pending), or what the backend gave.
  Status set_option(StringView backend_id, const edgecore_option &option, Error &error);

  // An output with its actual shape, valid until the next call of a member. A program may return an input, a constant
  // or a view: then its data is not the memory of set_output.
  const edgecore_value &output(size_t index) const;

  // Gives the mutable buffers of this method alone their initial values; StateStore::reset does so for shared ones. Not
  // while a run is pending.
  void reset();
  bool shares_state() const;
  // Shows all mutable buffers, shared ones too, in the order of the file. Not while a run is pending.
  void visit_state(StateVisitor &visitor) const;

  // Bytes: planned arenas; what delegates asked for; staging copies for buffer requirements.
  uint64_t planned_bytes() const;
  uint64_t delegate_bytes() const;
  uint64_t staging_bytes() const;

  Method(const Method &) = delete;
  Method &operator=(const Method &) = delete;

 private:
  friend struct MethodImpl;
  Method() = default;
};

}  // namespace edgecore

#endif  // EDGECORE_METHOD_H_
