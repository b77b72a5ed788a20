// A method of a program, ready to execute: values, planned memory, kernels and delegate instances.
#ifndef EDGECORE_METHOD_H_
#define EDGECORE_METHOD_H_

#include "edgecore/host.h"
#include "edgecore/program.h"
#include "edgecore/state.h"

namespace edgecore {

// Requirements for the memory of planned tensors: the memory starts at a multiple of kArenaAlignment, and kArenaTail
// bytes after its end are readable, because some backends read past the end of a tensor.
constexpr size_t kArenaAlignment = 64;
constexpr size_t kArenaTail = 128;

// Support for delegates that require arguments in device memory (buffer requirements with a memory_kind). A value that
// only delegates of one backend use stays in device memory. A mutable buffer stays in device memory between runs too,
// where the methods of a session share it. Other values are copied when they cross between host and device; each copy
// is an event of the trace. Only applications that call device_memory() are linked with this code.
class DeviceMemory;
const DeviceMemory *device_memory();

// The resources that the caller gives a method. All pointers must outlive the method.
struct MethodConfig {
  Allocator *allocator = nullptr;       // holds the Method and its parts; the runtime never frees its memory
  ScratchAllocator *scratch = nullptr;  // provides scratch memory for kernels and delegates; NULL: there is none
  const edgecore_host *host = nullptr;  // NULL: core_services()
  void *context = nullptr;              // host services receive it as scope->context
  Span<const edgecore_kernel_library *const> kernels;
  Span<const LoadedBackend> backends;
  // The memory of planned tensors: arena i has at least MethodInfo::arena_bytes(i) + kArenaTail bytes at a multiple of
  // kArenaAlignment. Empty: the arenas are allocated from `allocator`.
  Span<const MutableBytes> arenas;
  // Holds the mutable buffers that the methods of a session share, and the state of backends. If NULL, methods share
  // nothing, and delegates with state fail to load. All methods of a session have the same `devices`.
  StateStore *state = nullptr;
  StateSharing sharing = StateSharing::kAsFile;
  EventTracer *tracer = nullptr;
  ValueListener *values = nullptr;        // receives the values that a run computes; NULL: none
  bool operation_values = true;           // `values` also receives values of operations inside of delegates
  const DeviceMemory *devices = nullptr;  // NULL: values are in host memory only; device_memory(): on devices too
  bool trust = false;                     // true: accept blobs without a matching SHA-256 for any backend
  uint64_t instruction_limit = 0;         // a run with more instructions fails; 0: the bound is Limits::instructions
};

// A tensor in the caller's memory, as an input of a method.
struct TensorArgument {
  void *data = nullptr;
  int32_t scalar_type = 0;
  Span<const int64_t> shape;
  Span<const int64_t> strides;  // strides in elements; empty: dense, in the dim order that the method expects

  // The number of readable bytes from `data` on, or 0 if only the bytes of the tensor are readable. Some backends read
  // past the end of a tensor. The runtime copies the tensor for them unless enough bytes after its end are readable
  // (padding, or the rest of the memory page).
  uint64_t readable_bytes = 0;
  bool writable = false;  // the program may write to `data`; required if the program mutates this input
};

// An object of the caller that is told when Method::resume can continue a pending run. ready() is called once for each
// EDGECORE_PENDING that Method::start or resume returns. The call may come from any thread, and even before start or
// resume returns. ready() must not call the method. The object must exist until ready() has returned.
class Completion {
 public:
  virtual void ready() = 0;

 protected:
  ~Completion() = default;
};

// A method of a program, ready to run. May be used by one thread at a time. Different methods of one Program may run at
// the same time.
class Method {
 public:
  // Builds the method: allocates arenas, fills values and initial state, finds the kernels of its operators (the error
  // lists all that are missing), and loads and prepares delegates for the maximum shapes. After a failure nothing is
  // left to destroy. The Method lives in config.allocator: call destroy() before that memory is freed.
  // Errors: NOT_FOUND (method or backend), OPERATOR_MISSING, DELEGATE_*, NOT_SUPPORTED, MEMORY_ALLOCATION_FAILED,
  // INVALID_PROGRAM, or the error of a backend.
  static Result<Method *> load(const Program &program, StringView name, const MethodConfig &config, Error &error);

  // Destroys instances and delegates in reverse order, and ends a pending run. The Method must not be used afterwards.
  void destroy();

  const Program &program() const;
  MethodInfo info() const;

  // Sets a tensor input. If the program plans memory for the input, the tensor is copied to that memory; such an input
  // must be set before every run, because other tensors use the same memory. Any other input is borrowed and stays set:
  // its data must stay valid until execute has returned. If the program mutates a borrowed input, the program writes to
  // the caller's data; set_input fails for such an input unless the argument is `writable`.
  // Errors: INVALID_ARGUMENT with the expected and the actual dtype, rank, shape or layout.
  Status set_input(size_t index, const TensorArgument &tensor, Error &error);
  // Sets an int, bool (0 or 1) or double input. If the export specialized the program to one value of this input, any
  // other value is an error.
  Status set_input(size_t index, int64_t value, Error &error);
  Status set_input(size_t index, double value, Error &error);
  // Checks that the input was None at export. Calling this function for such an input is optional.
  Status set_input_none(size_t index, Error &error);
  // Returns true if set_input copies the tensor, false if the method uses the tensor in the caller's memory.
  bool input_is_copied(size_t index) const;
  // Returns the memory that the program plans for a tensor input, or NULL if the program plans none or a run is
  // pending. A caller that writes the input to this memory and passes this address to set_input saves the copy and a
  // second buffer.
  void *planned_input(size_t index);

  // Sets the memory of an output for which the program plans no memory (ValueInfo.tensor.planned is false). `bytes`
  // must be at least TensorInfo.bytes of the output; the address must be a multiple of 16 (a multiple of 64 saves
  // copies). Must be called before the first execute; the memory stays set for later runs. The memory must not overlap
  // an input.
  Status set_output(size_t index, void *data, uint64_t bytes, Error &error);
  bool output_needs_memory(size_t index) const;

  // Runs the method once. After a failure the outputs are undefined. The method may be executed again, but if a
  // delegate with state failed, the state must be reset or imported first.
  // Errors: INVALID_STATE (an input or output was not set, or a delegate with state has failed), or the error of a
  // kernel or delegate, whose message starts with method, instruction and operator or backend.
  Status execute(Error &error);

  // Starts a run without waiting for a device. While a backend is still busy, returns EDGECORE_PENDING, which is not a
  // failure. completion.ready() then tells the caller to call resume, which continues the run and may return
  // EDGECORE_PENDING again. Until the run has ended, inputs and outputs must stay valid at their addresses, and every
  // call except resume, pending and destroy fails with INVALID_STATE.
  Status start(Completion &completion, Error &error);
  Status resume(Error &error);  // returns EDGECORE_PENDING if the device is not done yet
  bool pending() const;

  // Sets an option that may change after loading (EDGECORE_OPTION_AT_RUN) on all instances of the backend. The caller
  // must have checked the option's name and type.
  // Errors: NOT_FOUND (no delegate of that backend), NOT_SUPPORTED, INVALID_STATE (pending), or the backend's error.
  Status set_option(StringView backend_id, const edgecore_option &option, Error &error);

  // Returns an output of the last run, with its shape; valid until the next call of a member function. An output that
  // is an input, a constant or a view is not in the memory that set_output set.
  const edgecore_value &output(size_t index) const;

  // Restores the initial values of the mutable buffers that only this method uses. StateStore::reset resets shared
  // buffers and the state of backends. Must not be called while a run is pending.
  void reset();
  // Returns true if the method shares state with another method, including a method that is loaded later. Two such
  // methods must not run at the same time.
  bool shares_state() const;
  // Replaces MethodConfig::tracer; NULL removes it. Delegates report the operations inside of them only if the method
  // had a tracer when the method was loaded. Must not be called while a run is pending.
  void set_tracer(EventTracer *tracer);
  // Calls visitor.visit for each mutable buffer, shared ones included, in the order of the file. Must not be called
  // while a run is pending.
  void visit_state(StateVisitor &visitor) const;

  // Return sizes in bytes: of the planned arenas; of the memory that delegates asked for; and of the copies that are
  // made of arguments whose memory does not meet a delegate's requirements (alignment, padding, device).
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
