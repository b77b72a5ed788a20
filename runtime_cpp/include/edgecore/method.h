// A method of a program, ready to execute: values, planned memory, kernels and delegate instances.
#ifndef EDGECORE_METHOD_H_
#define EDGECORE_METHOD_H_

#include "edgecore/host.h"
#include "edgecore/program.h"
#include "edgecore/state.h"

namespace edgecore {

// Planned memory starts at a multiple of kArenaAlignment, and kArenaTail bytes past its end are readable.
constexpr size_t kArenaAlignment = 64;
constexpr size_t kArenaTail = 128;

// Support for arguments of delegates in device memory (buffer requirements with a memory_kind). A value that only
// delegates of one backend use stays in device memory. Other values are copied, and each copy is an event of the trace.
class DeviceMemory;
const DeviceMemory *device_memory();

// The resources of a method. All pointers must outlive the method.
struct MethodConfig {
  Allocator *allocator = nullptr;       // for the Method and all its memory; the core never frees
  ScratchAllocator *scratch = nullptr;  // for kernels and delegates; NULL: host->scratch returns NULL
  const edgecore_host *host = nullptr;  // NULL: core_services()
  void *context = nullptr;              // scope->context in host services
  Span<const edgecore_kernel_library *const> kernels;
  Span<const LoadedBackend> backends;
  // Planned memory: for each arena of MethodInfo at least arena_bytes(i) + kArenaTail bytes at a multiple of
  // kArenaAlignment. Empty: the arenas are allocated from `allocator`.
  Span<const MutableBytes> arenas;
  StateStore *state = nullptr;  // mutable buffers that the program's methods share; NULL: nothing is shared
  StateSharing sharing = StateSharing::kAsFile;
  EventTracer *tracer = nullptr;
  const DeviceMemory *devices = nullptr;  // device_memory(), or NULL: host memory only, and less code is linked
  bool trust = false;                     // accept blobs without a matching SHA-256 for any backend
  uint64_t instruction_limit = 0;         // a run that exceeds it fails; 0: Limits::instructions
};

// A tensor of the caller.
struct TensorArgument {
  void *data = nullptr;
  int32_t scalar_type = 0;
  Span<const int64_t> shape;
  Span<const int64_t> strides;  // in elements; empty: dense in the dim order that the method expects
  // The number of bytes from `data` on that can be read without a fault. If it is larger than the tensor (padding, the
  // rest of its page), backends that read past the end of a tensor need no copy. 0: exactly the bytes of the tensor.
  uint64_t readable_bytes = 0;
  bool writable = false;  // the program may write to `data`: needed if it mutates this input and borrows it
};

// Is notified when Method::resume can continue a pending run. For each EDGECORE_PENDING that start or resume returns,
// ready() is called once, from any thread, possibly before they return. ready() must not call the method. The object
// must exist until ready() has returned.
class Completion {
 public:
  virtual void ready() = 0;

 protected:
  ~Completion() = default;
};

// May be used by one thread at a time. Different methods of one Program may run at the same time.
class Method {
 public:
  // Builds the method: allocates arenas, fills values and initial state, finds the kernels of its operators (the error
  // lists all that are missing), and loads and prepares delegates for the maximum shapes. After a failure nothing is
  // left to destroy. The Method lives in config.allocator: call destroy() before that memory is freed.
  // Errors: NOT_FOUND (method or backend), OPERATOR_MISSING, DELEGATE_*, NOT_SUPPORTED, MEMORY_ALLOCATION_FAILED,
  // INVALID_PROGRAM, or the error of a backend.
  static Result<Method *> load(const Program &program, StringView name, const MethodConfig &config, Error &error);

  // Destroys instances and delegates in reverse order; a pending run ends. The Method must not be used afterwards.
  void destroy();

  const Program &program() const;
  MethodInfo info() const;

  // Sets a tensor input. A planned input is copied and must be set before every run, because other tensors use its
  // memory as well. Any other input is borrowed and stays set: its data must stay valid until execute has returned. A
  // program that mutates this input writes to the data; it fails unless the argument is `writable`.
  // Errors: INVALID_ARGUMENT with the expected and the actual dtype, rank, shape or layout.
  Status set_input(size_t index, const TensorArgument &tensor, Error &error);
  // Sets an int, bool (0 or 1) or double input. If export fixed the value in the program, it must be that value.
  Status set_input(size_t index, int64_t value, Error &error);
  Status set_input(size_t index, double value, Error &error);  // double inputs
  // Checks that the input was None at export. Such an input needs no call.
  Status set_input_none(size_t index, Error &error);
  // Returns true if set_input copies the tensor, false if it borrows it.
  bool input_is_copied(size_t index) const;

  // Sets the memory of an output that has no planned memory (ValueInfo.tensor.planned is false). `bytes` must be at
  // least tensor.bytes of its info; the address must be a multiple of 16 (a multiple of 64 saves copies). Must be
  // called before the first execute; the memory stays set for later runs. It must not overlap an input.
  Status set_output(size_t index, void *data, uint64_t bytes, Error &error);
  bool output_needs_memory(size_t index) const;

  // Runs the method once. After a failure outputs are undefined, and the method may be executed again.
  // Errors: INVALID_STATE (an input or output was not set), or the error of a kernel or delegate, whose message starts
  // with method, instruction and operator or backend.
  Status execute(Error &error);

  // Starts a run without waiting for a device. Returns EDGECORE_PENDING, which is no failure, while a backend is still
  // working. After completion.ready() the caller continues the run with resume, which returns in the same way. Until
  // the run has ended, inputs and outputs must stay valid at their addresses, and every call except resume, pending and
  // destroy fails with INVALID_STATE.
  Status start(Completion &completion, Error &error);
  Status resume(Error &error);  // EDGECORE_PENDING also if the device is not done yet
  bool pending() const;

  // Sets an option on all instances of the backend; the host layer has checked name and type (AT_RUN).
  // Errors: NOT_FOUND (no delegate of that backend), NOT_SUPPORTED, INVALID_STATE (pending), or the backend's error.
  Status set_option(StringView backend_id, const edgecore_option &option, Error &error);

  // Returns an output with the shape of this run, valid until the next call of a member. If the program returns an
  // input, a constant or a view, the data are not in the memory of set_output.
  const edgecore_value &output(size_t index) const;

  // Gives the mutable buffers of this method alone their initial values; StateStore::reset does so for shared ones.
  // Must not be called while a run is pending.
  void reset();
  bool shares_state() const;
  // Visits all mutable buffers, also shared ones, in the order of the file. Must not be called while a run is pending.
  void visit_state(StateVisitor &visitor) const;

  // Return bytes: of planned arenas; of memory that delegates asked for; of copies for buffer requirements.
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
