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

// Supports arguments of delegates in memory of their device (buffer requirements with a memory_kind). A value that only
// delegates of one backend use stays in that memory. Other values are copied, and each copy is an event of the trace.
class DeviceMemory;
const DeviceMemory *device_memory();

// The resources of a method. All pointers must outlive the method.
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

// A tensor of the caller.
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

// Notified when a pending run can continue with Method::resume: once for each EDGECORE_PENDING that start or resume
// returns, from any thread, and possibly before they return it. ready() must not call the method, and the object must
// exist until ready() has returned.
class Completion {
 public:
  virtual void ready() = 0;

 protected:
  ~Completion() = default;
};

// May be used by one thread at a time. Several methods of one Program may run at the same time.
class Method {
 public:
  // Builds the method: allocates arenas, fills values and initial state, resolves operators (all missing ones in one
  // sentence), checks, loads and prepares delegates at the maximum shapes. On failure what was created is destroyed.
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
  // Checks that the input was None at export. Such an input needs no call.
  Status set_input_none(size_t index, Error &error);
  // Returns true if set_input copies the tensor, false if it borrows it.
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

  // Starts a run for callers that do something else while a device works. Returns EDGECORE_PENDING, which is no
  // failure, while a backend is still working. After completion.ready() the caller continues the run with resume, which
  // returns in the same way. Meanwhile inputs and outputs must stay in place, and every call except resume, pending and
  // destroy fails with INVALID_STATE.
  Status start(Completion &completion, Error &error);
  Status resume(Error &error);  // EDGECORE_PENDING if it is too early
  bool pending() const;

  // Sets an option on all instances of the backend; the host layer has checked name and type (AT_RUN).
  // Errors: NOT_FOUND (no delegate of that backend), NOT_SUPPORTED, INVALID_STATE (pending), or what the backend gave.
  Status set_option(StringView backend_id, const edgecore_option &option, Error &error);

  // Returns an output with its actual shape, valid until the next call of a member. If the program returns an input, a
  // constant or a view, the data are not in the memory of set_output.
  const edgecore_value &output(size_t index) const;

  // Gives the mutable buffers of this method alone their initial values; StateStore::reset does so for shared ones.
  // Must not be called while a run is pending.
  void reset();
  bool shares_state() const;
  // Visits all mutable buffers, also shared ones, in the order of the file. Must not be called while a run is pending.
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
