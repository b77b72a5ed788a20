// The state of a loaded method. Private to the core.
#ifndef EDGECORE_CORE_METHOD_IMPL_H_
#define EDGECORE_CORE_METHOD_IMPL_H_

#include <stddef.h>

#include <new>

#include "core/program_tables.h"
#include "edgecore/method.h"

namespace edgecore {

// Where a tensor's memory comes from.
enum class Storage : uint8_t {
  kPlanned,   // memory in an arena of the method, as the file plans it
  kConstant,  // memory of the program file, or of an external weights file (.ptd)
  kInput,     // memory of the caller, set with set_input
  kOutput,    // memory of the caller, set with set_output
  kView,      // memory of another tensor, to which an executorch_prim::et_view instruction binds this one
};

// The memory that a tensor has at the beginning of each run; each run first restores the tensor from this record. Only
// tensors whose memory may change have a record: inputs, outputs, and tensors that a view or move instruction rebinds.
struct BaseStorage {
  void *data;       // start of the tensor's memory at the beginning of a run; NULL: not set yet
  size_t capacity;  // bytes of memory that the tensor may occupy
  size_t readable;  // bytes that may be read from `data` on (`capacity` and any tail)
  uint32_t flags;   // EDGECORE_TENSOR_*
};

struct StateSlot;

// A tensor of the method, with the memory that the tensor is bound to.
struct TensorSlot {
  edgecore_tensor tensor;  // must be first: slot_of casts the address of `tensor` to a TensorSlot
  size_t readable;         // bytes that may be read from the tensor's data on
  BaseStorage *base;       // the tensor's memory at the beginning of each run; NULL: its memory never changes
  StateSlot *state;        // the mutable buffer, if this tensor is one; otherwise NULL
  Storage storage;
  uint8_t element_size;  // size of one element of the tensor in bytes
};
static_assert(offsetof(TensorSlot, tensor) == 0);

inline BaseStorage storage_of(const TensorSlot &slot) {
  return {slot.tensor.dl.data, static_cast<size_t>(slot.tensor.capacity), slot.readable, slot.tensor.flags};
}

// Returns the address of the tensor's data at the beginning of a run.
inline void *base_data(const TensorSlot &slot) { return slot.base == nullptr ? slot.tensor.dl.data : slot.base->data; }

// A mutable buffer that the method uses: a registered buffer of the model, which keeps its content between runs.
struct StateSlot {
  uint32_t value;  // index of the mutable buffer's tensor in Bindings::values
  TensorSlot *slot;
  StateStore::Buffer *shared;  // the mutable buffer in the StateStore; NULL: the buffer belongs to this method alone
  void *data;                  // the buffer's host memory
  const uint8_t *initial;      // content of the mutable buffer after loading and after a reset; NULL: zeros
  uint64_t bytes;
  DeviceState own;   // device memory of the mutable buffer, if it belongs to this method alone
  bool is_resident;  // true if this method uses the mutable buffer only in device memory; set by device_memory.cpp
  StateSlot *next;

  DeviceState &device() { return shared == nullptr ? own : shared->device; }
};

struct DeviceCopy;

// A tensor whose data is in device memory of a mutable buffer: the mutable buffer itself, an alias, or its new content.
struct ResidentSlot {
  TensorSlot *slot;
  DeviceCopy *copy;  // NULL: the tensor itself is in the mutable buffer's device memory; else only this device copy is
                     // in that memory, because the host also uses the tensor
  DeviceState *state;
  bool is_new_content;  // true: the tensor's data is in DeviceState::spare; false: in DeviceState::content
  ResidentSlot *next;
};

// A value of the method whose type is a list or a string.
struct ListSlot {
  edgecore_list list;
  Span<const int64_t> int_values;     // for an integer list: index in Bindings::values of each list entry
  Span<const int32_t> tensor_values;  // for a tensor list: index in Bindings::values of each list entry; -1: no tensor
  int64_t *ints;                      // memory of the integers of an integer list
  edgecore_tensor **tensors;
};

enum class Op : uint8_t {
  kKernel,
  kDelegate,
  kMove,
  kJumpFalse,
  kFree,
  kUpdateState,  // replaces an aten::copy_: swaps a mutable buffer's content on a device with the new content
};

// An instruction of a method, decoded from the file by instructions.cpp.
struct Instruction {
  Op op;
  bool is_view;     // true for executorch_prim::et_view, which binds its last argument to the memory of its first
  uint32_t target;  // index of the operator or delegate to call, or of the value that the instruction reads
  union {
    uint32_t result;       // index of the value that the instruction writes
    uint32_t jump_target;  // for kJumpFalse: index of the next instruction if the condition is false
  };
  Span<const int32_t> args;   // indices of the argument values, without the result that the file repeats at the end
  struct DelegateCall *call;  // for kDelegate: the state of this call, built by delegates.cpp
};

// The kernel that runs an operator of the file.
struct Kernel {
  edgecore_kernel_fn run;
  uint64_t dtypes;  // bit n is set if a call has a tensor of ScalarType n; 0 if no library is EDGECORE_KERNELS_SELECTED
  bool is_own;      // true for a kernel of edgecore's own library: such kernels write only their results
};

// The copy of a value in device memory, for delegates on a device that cannot read the value's host memory.
struct DeviceCopy {
  edgecore_buffer *buffer;  // the copy's device buffer; NULL until the copy is first needed
  uint64_t bytes;
  uint64_t alignment;
};

// A copy of one delegate argument, for calls in which the tensor's own memory does not meet the backend's requirement
// (alignment, padding, memory kind). The memory of the copy is allocated when the copy is first needed.
struct Staging {
  edgecore_buffer_requirement requirement;  // the backend's requirement for the argument; set by delegates.cpp
  void *buffer;                             // the argument's copy in host memory; allocated by staging.cpp
  DeviceCopy *device;                       // the argument's copy in device memory, if the backend requires that
  uint64_t capacity;                        // size of the copy in host memory, in bytes
  void *original;  // the tensor's own data pointer while the copy replaces it in a call; otherwise NULL
  bool written;    // true if the delegate's last prepare called resize for the argument, so it is an output
  bool repeated;   // true for an output that is also another argument of the call; set by resize, like `written`
  bool is_fresh;   // true if an earlier call of the same run has filled `device`; set by device_uses.cpp
};

// The state of one delegate instruction. delegates.cpp allocates the state; each prepare updates `shapes` and `flags`.
struct DelegateCall {
  Staging *staging;  // staging copies of the arguments: array with one entry per argument
  int64_t *shapes;   // shapes of tensor arguments and bits of number arguments at the last prepare, concatenated
  uint32_t *flags;   // flags of all arguments of the delegate call at the last prepare
};

// Memory that several delegates of the method share, because their memory needs have the same group name.
struct MemoryGroup {
  edgecore_memory_block block;
  uint32_t kind;
  StringView name;
  MemoryGroup *next;
};

constexpr uint64_t kNotScratch = UINT64_MAX;

// Alignment in bytes of scratch memory and staging copies: one cache line, unless a backend asks for more.
constexpr uint64_t kMinAlignment = 64;

// A delegate of the method, its instance (the backend's execution state) and its memory. delegates.cpp sets the first
// six members when the method is loaded; delegate_call.cpp sets the other members in each prepare.
struct DelegateState {
  edgecore_scope scope;
  const LoadedBackend *backend;
  Bytes blob;  // the delegate's blob, until it is released; empty: nothing needs a release
  edgecore_delegate *delegate;
  StateSet *state_set;  // state that the backend keeps for the delegate between runs; NULL: none
  edgecore_instance *instance;
  const DelegateCall *prepared_for;    // the call for whose shapes the delegate is prepared; NULL: none
  Span<edgecore_memory_block> blocks;  // memory for each need (request for memory) of the delegate's last prepare
  size_t block_capacity;               // allocated length of the arrays `blocks`, `owned` and `scratch_offsets`
  edgecore_memory_block *owned;        // for each need that names no group: its persistent or staging memory
  uint64_t *scratch_offsets;           // for each need: its offset in the method's scratch area, or kNotScratch
};

// The value of a symbolic size (such as `batch`) while the shapes of inputs are compared, and the dim that defined it.
struct SymbolValue {
  bool known;
  uint32_t input;
  uint32_t dim;
  int64_t value;
};

// A run that waits for an asynchronous delegate call, and the place where the run continues.
struct PendingRun {
  bool waiting;         // true while the run waits; set by call_delegate, cleared by resume_run
  int32_t fired;        // 1: the device has finished; set by the completion callback after `code`, with release order
  int32_t code;         // status code of the delegate call; set by the completion callback
  size_t pc;            // index of the delegate instruction; set by call_delegate
  uint64_t steps;       // instructions and list entries that the run has counted for its limit; set by execute.cpp
  uint64_t run_event;   // the tracer's event of the whole run; set by start_run
  uint64_t call_event;  // the tracer's event of the delegate call; set by execute.cpp when the run becomes pending
};

struct MethodImpl;

// A tensor argument of a delegate call.
struct DelegateArgument {
  const LoadedBackend &backend;
  size_t pc;
  Staging &staging;
  TensorSlot &slot;
};

class DeviceMemory {
 public:
  // Fails if the backend has no functions for device memory.
  virtual Status check(const MethodImpl &method, const edgecore_backend &table, Error &error) const = 0;
  // Moves values to a device's memory if only delegates of that device's backend use them. Called once, when all
  // delegates are prepared.
  virtual Status assign_buffers(MethodImpl &method, Error &error) const = 0;
  // Called at the start of each run. If this method uses a mutable buffer on the device, and a reset, an import or
  // another method left the current content in host memory, copies the content to the device; also the other way round.
  virtual Status begin_run(MethodImpl &method, Error &error) const = 0;
  // Swaps the two device buffers of a mutable buffer, after delegates have computed the new content in the spare device
  // buffer.
  virtual void update_state(MethodImpl &method, TensorSlot &slot) const = 0;
  // Called before and after a delegate's execute: stage_in binds an argument to a device buffer, and stage_out binds
  // the argument to host memory again. If `copy` is true, both also copy the argument's bytes.
  virtual Status stage_in(MethodImpl &method, const DelegateArgument &argument, bool copy, Error &error) const = 0;
  virtual Status stage_out(MethodImpl &method, const DelegateArgument &argument, bool copy, Error &error) const = 0;
  virtual void destroy(MethodImpl &method) const = 0;

 protected:
  ~DeviceMemory() = default;
};

// Bits that Bindings::uses combines: how the method uses a value.
constexpr uint8_t kIsInput = 1;
constexpr uint8_t kIsOutput = 2;
// instructions.cpp sets the following bits:
constexpr uint8_t kIsRead = 4;
constexpr uint8_t kHasReadEntries = 8;  // bit of a list that an instruction reads; its entries have the bit kIsRead
constexpr uint8_t kIsRebound = 16;      // bit of a tensor whose memory a view or move instruction may change

// The values of a method and the memory that the values are bound to. values.cpp builds each member when the method is
// loaded, unless the comment of the member names another file.
struct Bindings {
  Span<edgecore_value> values;       // current values of the method; written by set_input, moves and kernels
  Span<edgecore_value> declared;     // for each input: its value as the file declares it
  Span<TensorSlot *> tensor_of;      // for each value: its TensorSlot; NULL if the value is not a tensor
  Span<ListSlot *> list_of;          // for each value: its ListSlot; NULL if the value is not a list
  Span<MutableBytes> arenas;         // memory that the file plans for tensors
  StateSlot *states = nullptr;       // linked list of the mutable buffers that the method uses
  ResidentSlot *resident = nullptr;  // tensors in device memory of mutable buffers; built by device_memory.cpp
  bool shares_state = false;         // true if the method shares mutable buffers with other methods (StateStore)
  Span<uint8_t> uses;                // for each value: a combination of the bits kIsInput to kIsRebound
  Span<TensorSlot *> rebound;        // tensors whose memory is restored before each run; built by instructions.cpp
  Span<int32_t> moved;               // indices of the tensors that a MoveCall rebinds; built by instructions.cpp
  Span<uint8_t> input_set;           // for each input: 1 if it is set, so that a run may use it
  Span<SymbolValue> symbols;         // values of the symbolic sizes of inputs; written by check_relations
  bool symbols_unchecked = false;    // true if inputs have changed since check_relations compared sizes
};

// The delegates of a method and their memory.
struct DelegateSlots {
  Span<DelegateState> slots;       // the method's delegates; built by delegates.cpp when the method is loaded
  size_t loaded = 0;               // destroy_delegates destroys the first `loaded` entries of `slots`
  DeviceBuffers buffers{nullptr};  // device buffers of the method; device_memory.cpp adds each when it is first needed
  edgecore_memory_block scratch_area = {nullptr, 0};  // all delegates' scratch memory; delegate_call.cpp enlarges it
  uint64_t scratch_alignment = 1;                     // alignment of the scratch memory in bytes
  MemoryGroup *groups = nullptr;                      // memory that delegates share by group name; added in a prepare
};

// The state of the current run and of the instruction that it executes.
struct RunState {
  Span<edgecore_value> args;         // arguments of the current instruction; long enough for every instruction
  size_t arg_count = 0;              // number of entries of `args` that the current instruction uses
  Staging *preparing = nullptr;      // staging of the call whose prepare is running; resize sets `written`
  Completion *completion = nullptr;  // callback of an asynchronous run (Method::start); NULL: the run must not wait
  PendingRun pending = {};
};

// The byte counts that Method::planned_bytes, delegate_bytes and staging_bytes return. The source files named below add
// to these counts.
struct MemoryTotals {
  uint64_t planned = 0;    // bytes of arenas; added by values.cpp
  uint64_t delegates = 0;  // bytes of delegates' memory; added by delegate_call.cpp and device_memory.cpp
  uint64_t staging = 0;    // bytes of staging copies; added by staging.cpp and device_memory.cpp
};

// The implementation of Method. Several files define its member functions; comments in the class name the file.
struct MethodImpl : Method {
  MethodImpl(const Program &owner, size_t method_index, const MethodConfig &method_config)
      : config(method_config), owner(&owner), index(method_index) {
    delegates.buffers = DeviceBuffers(config.allocator);
  }

  // Method::load sets the following members, which are constant afterwards:
  MethodConfig config;
  const Program *owner;
  size_t index;
  const fb::ExecutionPlan *plan = nullptr;
  const fb::meta::Method *meta = nullptr;  // edgecore's metadata of the method; NULL: the file has none
  StringView name;
  edgecore_host host;  // the services that kernels may call; its event functions are NULL if there is no tracer
  edgecore_scope scope;
  // instructions.cpp builds both arrays below when the method is loaded; only Instruction::call changes later.
  Span<Kernel> kernels;  // for each operator of the file: the kernel that runs it
  Span<Instruction> instructions;

  Bindings bindings;
  DelegateSlots delegates;
  RunState run_state;
  MemoryTotals memory;
  Error call_error;  // message from the kernel or backend in the current call; the core adds the instruction's number

  static MethodImpl &of(Method *method) { return *static_cast<MethodImpl *>(method); }
  static const MethodImpl &of(const Method *method) { return *static_cast<const MethodImpl *>(method); }

  // Defined in values.cpp:
  Status build_arenas(Error &error);
  Status build_values(Error &error);
  // Defined in instructions.cpp:
  OperatorName operator_name(size_t kernel) const;
  Status build_instructions(Error &error);
  // Builds Bindings::moved and Bindings::rebound. `move_count` counts the move instructions that move tensors.
  Status build_rebound(size_t move_count, Error &error);
  Status resolve_kernels(Error &error);
  // Defined in delegates.cpp:
  Status load_delegates(Error &error);
  Status load_delegate(size_t delegate_index, Error &error);
  // Returns true if the backends of this method use state sets that other methods of the same session also use.
  bool shares_sets() const;
  void destroy_delegates();
  // Defined in delegate_call.cpp:
  Status prepare_at_max_shapes(Error &error);
  Status call_delegate(size_t pc, Error &error);
  Status end_delegate_call(size_t pc, int32_t code, Error &error);
  // Defined in staging.cpp:
  Status stage_in(size_t pc, Error &error);
  Status stage_out(size_t pc, bool copy, Error &error);
  // Defined in input_shapes.cpp:
  size_t symbol_count() const;
  // Checks that the file allows an input to have the shape `shape`.
  Status check_shape(size_t input, const edgecore_tensor &tensor, Span<const int64_t> shape, Error &error) const;
  // Checks that all input dims with the same symbolic size (such as `batch`) are equal. Called when all inputs are set.
  Status check_relations(Error &error);
  // Defined in execute.cpp:
  Status start_run(Error &error);
  Status resume_run(Error &error);
  // Unless the run is pending, ends the run's event in the trace and marks inputs in arenas as not set. Returns
  // `status`.
  Status finish_run(Status status);
  Status check_idle(Error &error) const;

  // Sets `out` to a zeroed array of `count` items in the method's memory. Errors: MEMORY_ALLOCATION_FAILED.
  template <typename T>
  Status make_array(size_t count, Span<T> &out, Error &error) {
    void *data;
    const Status status = allocate_entries(count, sizeof(T), alignof(T), data, error);
    out = {static_cast<T *>(data), status.ok() ? count : 0};
    return status;
  }
  // Allocates the memory of make_array. Does not depend on T, so that its code exists only once in the library. Defined
  // in method.cpp.
  Status allocate_entries(size_t count, size_t size, size_t alignment, void *&out, Error &error);
};

// Begins an error message with the name and number of an input: "Input 'x' (0) of method 'forward'".
void name_input(const MethodImpl &method, size_t index, Error &error);

// Compares two spans of integers item by item.
template <typename T>
bool same_items(Span<const T> a, Span<const T> b) {
  return a.size() == b.size() && (a.empty() || __builtin_memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

inline TensorSlot &slot_of(edgecore_tensor *tensor) { return *reinterpret_cast<TensorSlot *>(tensor); }

inline Span<const int64_t> shape_of(const edgecore_tensor &tensor) {
  return {tensor.dl.shape, static_cast<size_t>(tensor.dl.ndim)};
}

// Returns the number of elements of a tensor at its current shape. This product cannot overflow, because loading checks
// the larger product of the maximum shape.
inline uint64_t element_count(const edgecore_tensor &tensor) {
  uint64_t count = 1;
  for (const int64_t size : shape_of(tensor)) count *= static_cast<uint64_t>(size);
  return count;
}

inline uint64_t current_bytes(const TensorSlot &slot) { return element_count(slot.tensor) * slot.element_size; }

// Returns an upper bound in bytes for a delegate argument's copy: the tensor at its maximum shape, the backend's tail
// padding, and one granule, because sizes are rounded up to whole granules.
uint64_t padded_bytes(const TensorSlot &slot, const edgecore_buffer_requirement &requirement);

// Computes the strides of a dense tensor from its shape and dim order.
void update_strides(edgecore_tensor &tensor);

// Returns the name of a value's type for error messages, such as "a tensor".
StringView tag_name(uint32_t tag);

}  // namespace edgecore

#endif  // EDGECORE_CORE_METHOD_IMPL_H_
