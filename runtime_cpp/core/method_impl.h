// The state of a method; private to the core.
#ifndef EDGECORE_CORE_METHOD_IMPL_H_
#define EDGECORE_CORE_METHOD_IMPL_H_

#include <stddef.h>

#include <new>

#include "core/program_tables.h"
#include "edgecore/method.h"

namespace edgecore {

// The origin of a tensor's memory.
enum class Storage : uint8_t {
  kPlanned,   // an arena of the method
  kConstant,  // the program file, or an external weights file (.ptd)
  kInput,     // the caller, through set_input
  kOutput,    // the caller, through set_output
  kView,      // another tensor: the result of an executorch_prim::et_view instruction
};

// The memory that a tensor has at the beginning of each run. Only tensors whose memory may change have it: inputs,
// outputs, and tensors that a view instruction or a move rebinds. The next run restores the tensor from this copy.
struct BaseStorage {
  void *data;       // NULL: none yet
  size_t capacity;  // bytes that the tensor may use
  size_t readable;  // bytes from `data` on that may be read
  uint32_t flags;   // EDGECORE_TENSOR_*
};

struct StateSlot;

// A tensor value of the method.
struct TensorSlot {
  edgecore_tensor tensor;  // first member: slot_of casts a tensor's address to its slot's
  size_t readable;         // bytes from tensor.dl.data on that may be read
  BaseStorage *base;       // NULL: `tensor` keeps the memory that it has after loading
  StateSlot *state;        // NULL: not a mutable buffer
  Storage storage;
  uint8_t element_size;  // bytes
};
static_assert(offsetof(TensorSlot, tensor) == 0);

inline BaseStorage storage_of(const TensorSlot &slot) {
  return {slot.tensor.dl.data, static_cast<size_t>(slot.tensor.capacity), slot.readable, slot.tensor.flags};
}

// Returns the address of the tensor's data at the beginning of a run.
inline void *base_data(const TensorSlot &slot) { return slot.base == nullptr ? slot.tensor.dl.data : slot.base->data; }

// A mutable buffer that the method uses.
struct StateSlot {
  uint32_t value;  // index of the tensor value
  TensorSlot *slot;
  StateStore::Buffer *shared;  // its memory in the StateStore; NULL: it belongs to this method alone
  void *data;                  // the buffer's host memory
  const uint8_t *initial;      // the buffer's bytes after loading and after a reset; NULL: zeros
  uint64_t bytes;
  DeviceState own;   // of a buffer that belongs to this method alone
  bool is_resident;  // set by device_memory.cpp: this method uses the buffer in device memory only
  StateSlot *next;

  DeviceState &device() { return shared == nullptr ? own : shared->device; }
};

struct DeviceCopy;

// A tensor value in the device buffers of a mutable buffer: the mutable buffer itself, an alias, or its new content.
struct ResidentSlot {
  TensorSlot *slot;
  DeviceCopy *copy;  // NULL, or, for a value that the host uses as well, its device copy: then only the copy is in the
                     // device buffer
  DeviceState *state;
  bool is_new_content;  // true: in DeviceState::spare; false: in DeviceState::content
  ResidentSlot *next;
};

// A list or string value of the method.
struct ListSlot {
  edgecore_list list;
  Span<const int64_t> int_values;     // for an integer list: the index of each entry's value
  Span<const int32_t> tensor_values;  // for a tensor list: the index of each entry's value; -1: no tensor
  int64_t *ints;                      // memory of list.items
  edgecore_tensor **tensors;
};

enum class Op : uint8_t {
  kKernel,
  kDelegate,
  kMove,
  kJumpFalse,
  kFree,
  kUpdateState,  // aten::copy_ of the new content of a mutable buffer on a device: the two swap memory
};

// An instruction of the file, decoded by instructions.cpp.
struct Instruction {
  Op op;
  bool is_view;     // executorch_prim::et_view: binds the last argument to the memory of the first
  uint32_t target;  // index of the operator or delegate, or of the value that is read
  union {
    uint32_t result;       // index of the value that is written
    uint32_t jump_target;  // kJumpFalse: index of an instruction
  };
  Span<const int32_t> args;   // indices of values, without the result that the file repeats at the end
  struct DelegateCall *call;  // of kDelegate; built by delegates.cpp
};

// An operator of the file and its kernel.
struct Kernel {
  edgecore_kernel_fn run;
  uint64_t dtypes;  // dtypes of the tensors in its calls: bit n for ScalarType n; 0 without an
                    // EDGECORE_KERNELS_SELECTED library
  bool is_own;      // of edgecore's library, whose kernels write only their results
};

// The copy of a value in device memory, for delegates on a device that cannot use the value's host memory.
struct DeviceCopy {
  edgecore_buffer *buffer;  // created when it is first needed
  uint64_t bytes;
  uint64_t alignment;
};

// A copy of one delegate argument, for calls in which the tensor's own memory does not meet the backend's requirement
// (alignment, padding, memory kind). The memory of the copy is allocated when it is first needed.
struct Staging {
  edgecore_buffer_requirement requirement;  // set by delegates.cpp when the method is loaded
  void *buffer;                             // the copy in host memory; allocated by staging.cpp
  DeviceCopy *device;                       // the copy in device memory, if memory_kind is not 0: device_memory.cpp
  uint64_t capacity;                        // bytes of `buffer`
  void *original;  // the tensor's own data while the copy replaces it, from stage_in to stage_out; otherwise NULL
  bool written;    // the argument is an output: resize was called for it in the last prepare
  bool repeated;   // `written` is true, and another argument is the same tensor; also set by resize
  bool is_fresh;   // an earlier call of the same run has filled `device`; set by device_uses.cpp
};

// State of one delegate instruction. delegates.cpp allocates it; each prepare updates shapes and flags.
struct DelegateCall {
  Staging *staging;  // one per argument
  int64_t *shapes;   // at the last prepare: the shapes of tensors and the bits of numbers, concatenated
  uint32_t *flags;   // the flags of all arguments at the last prepare
};

// Memory that all delegates of the method share whose memory needs name the same group.
struct MemoryGroup {
  edgecore_memory_block block;
  uint32_t kind;
  StringView name;
  MemoryGroup *next;
};

constexpr uint64_t kNotScratch = UINT64_MAX;

// Alignment in bytes of scratch memory and staging copies if a backend asks for less: one cache line.
constexpr uint64_t kMinAlignment = 64;

// A delegate of the method, its instance (the backend's execution state) and its memory. delegates.cpp sets the first
// six members when the method is loaded; delegate_call.cpp sets the others in each prepare.
struct DelegateState {
  edgecore_scope scope;
  const LoadedBackend *backend;
  Bytes blob;  // until it is released; empty if the loader does not own it
  edgecore_delegate *delegate;
  StateSet *state_set;  // NULL: the backend keeps no state
  edgecore_instance *instance;
  const DelegateCall *prepared_for;    // the call for which the instance is prepared; NULL: none
  Span<edgecore_memory_block> blocks;  // one block for each need (request) that the last prepare returned
  size_t block_capacity;               // length of the arrays `blocks`, `owned` and `scratch_offsets`
  edgecore_memory_block *owned;        // for each need: persistent or staging memory outside of groups
  uint64_t *scratch_offsets;           // for each need: offset in the method's scratch area, or kNotScratch
};

// The value of a symbolic size while the shapes of inputs are compared, and the dim that defined it.
struct SymbolValue {
  bool known;
  uint32_t input;
  uint32_t dim;
  int64_t value;
};

// A run that waits for a delegate, and where it will continue.
struct PendingRun {
  bool waiting;         // set by call_delegate, cleared by resume_run
  int32_t fired;        // 1: the device is done; the completion sets it after `code`, with release order
  int32_t code;         // result of the delegate call; set by the completion
  size_t pc;            // instruction of the delegate call; set by call_delegate
  uint64_t steps;       // instructions and list entries counted so far; set by execute.cpp when the run becomes pending
  uint64_t run_event;   // event of the tracer for the run; set by start_run
  uint64_t call_event;  // event of the tracer for the delegate call; set by execute.cpp when the run becomes pending
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
  // Moves values that only delegates of one backend use into memory of its device. Called once, after all calls have
  // been prepared.
  virtual Status assign_buffers(MethodImpl &method, Error &error) const = 0;
  // Called at the start of each run: copies a mutable buffer to the memory where this method uses it, if another
  // method, a reset or an import has left the content elsewhere.
  virtual Status begin_run(MethodImpl &method, Error &error) const = 0;
  // Swaps the two device buffers of a mutable buffer, after delegates have computed its new content in the spare one.
  virtual void update_state(MethodImpl &method, TensorSlot &slot) const = 0;
  // Called before and after execute. stage_in binds an argument to a device buffer; stage_out binds it to host memory
  // again. If `copy` is true, they also copy the bytes.
  virtual Status stage_in(MethodImpl &method, const DelegateArgument &argument, bool copy, Error &error) const = 0;
  virtual Status stage_out(MethodImpl &method, const DelegateArgument &argument, bool copy, Error &error) const = 0;
  virtual void destroy(MethodImpl &method) const = 0;

 protected:
  ~DeviceMemory() = default;
};

// Bits of Bindings::uses.
constexpr uint8_t kIsInput = 1;
constexpr uint8_t kIsOutput = 2;
// Set by instructions.cpp:
constexpr uint8_t kIsRead = 4;
constexpr uint8_t kHasReadEntries = 8;  // a list that is read, and whose entries therefore have kIsRead
constexpr uint8_t kIsRebound = 16;      // a tensor whose memory a view instruction or a move may change

// The values of a method and the memory that they are bound to. Built by values.cpp when the method is loaded, except
// where a comment says otherwise.
struct Bindings {
  Span<edgecore_value> values;       // current values; written by set_input, moves and kernels
  Span<edgecore_value> declared;     // the value of each input in the file
  Span<TensorSlot *> tensor_of;      // the slot of each value; NULL if it is not a tensor
  Span<ListSlot *> list_of;          // the slot of each value; NULL if it is not a list
  Span<MutableBytes> arenas;         // planned memory
  StateSlot *states = nullptr;       // mutable buffers
  ResidentSlot *resident = nullptr;  // built by device_memory.cpp when the method is loaded
  bool shares_state = false;         // the method shares mutable buffers with other methods (StateStore)
  Span<uint8_t> uses;                // for each value: a combination of kIsInput etc.
  Span<TensorSlot *> rebound;        // slots whose base storage is restored before each run. Built by instructions.cpp
  Span<int32_t> moved;               // tensor values that a MoveCall rebinds. Built by instructions.cpp
  Span<uint8_t> input_set;           // for each input: 1 if a run may use it. Written by set_input and finish_run
  Span<SymbolValue> symbols;         // symbolic sizes of inputs. Written by check_relations
  bool symbols_unchecked = false;    // set by set_input, cleared by check_relations
};

// The delegates of a method and their memory.
struct DelegateSlots {
  Span<DelegateState> slots;       // built by delegates.cpp when the method is loaded
  size_t loaded = 0;               // number of `slots`, from the first, that destroy_delegates must destroy
  DeviceBuffers buffers{nullptr};  // added by device_memory.cpp when they are first needed
  edgecore_memory_block scratch_area = {nullptr, 0};  // of all delegates; delegate_call.cpp enlarges it in a prepare
  uint64_t scratch_alignment = 1;                     // of `scratch_area`
  MemoryGroup *groups = nullptr;                      // added by delegate_call.cpp in a prepare
};

// State of the current run, and of its current instruction.
struct RunState {
  Span<edgecore_value> args;         // of the current instruction; instructions.cpp allocates the maximum
  size_t arg_count = 0;              // number of `args` of the current instruction
  Staging *preparing = nullptr;      // arguments of the delegate call in prepare: resize sets their `written`
  Completion *completion = nullptr;  // set by Method::start: the run may become pending; NULL during execute
  PendingRun pending = {};
};

// The numbers of bytes that Method::planned_bytes, delegate_bytes and staging_bytes return.
struct MemoryTotals {
  uint64_t planned = 0;    // added by values.cpp
  uint64_t delegates = 0;  // added by delegate_call.cpp and device_memory.cpp
  uint64_t staging = 0;    // added by staging.cpp and device_memory.cpp
};

// The implementation of Method. Its member functions are defined in several files, which comments below name.
struct MethodImpl : Method {
  MethodImpl(const Program &owner, size_t method_index, const MethodConfig &method_config)
      : config(method_config), owner(&owner), index(method_index) {
    delegates.buffers = DeviceBuffers(config.allocator);
  }

  // Set by Method::load; constant afterwards.
  MethodConfig config;
  const Program *owner;
  size_t index;
  const fb::ExecutionPlan *plan = nullptr;
  const fb::meta::Method *meta = nullptr;  // NULL: the file has none
  StringView name;
  edgecore_host host;  // the services for kernels; without event functions if there is no tracer
  edgecore_scope scope;
  // Built by instructions.cpp when the method is loaded; constant afterwards, apart from Instruction::call.
  Span<Kernel> kernels;  // for each operator of the file
  Span<Instruction> instructions;

  Bindings bindings;
  DelegateSlots delegates;
  RunState run_state;
  MemoryTotals memory;
  Error call_error;  // message of a kernel or backend in the current call; the core adds the instruction to it

  static MethodImpl &of(Method *method) { return *static_cast<MethodImpl *>(method); }
  static const MethodImpl &of(const Method *method) { return *static_cast<const MethodImpl *>(method); }

  // Defined in values.cpp:
  Status build_arenas(Error &error);
  Status build_values(Error &error);
  // Defined in instructions.cpp:
  OperatorName operator_name(size_t kernel) const;
  Status build_instructions(Error &error);
  // Builds Bindings::moved and Bindings::rebound. The instructions contain `move_count` moves of tensors.
  Status build_rebound(size_t move_count, Error &error);
  Status resolve_kernels(Error &error);
  // Defined in delegates.cpp:
  Status load_delegates(Error &error);
  Status load_delegate(size_t delegate_index, Error &error);
  // Returns true if the method uses the same state sets of backends as the other methods of its session.
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
  // Checks that the file allows `shape` for an input.
  Status check_shape(size_t input, const edgecore_tensor &tensor, Span<const int64_t> shape, Error &error) const;
  // Checks that dims of inputs with the same symbolic size are equal. Called when all inputs are set.
  Status check_relations(Error &error);
  // Defined in execute.cpp:
  Status start_run(Error &error);
  Status resume_run(Error &error);
  // Ends the run's event in the trace, and marks inputs in arenas as not set; does nothing if the run is pending.
  // Returns `status`.
  Status finish_run(Status status);
  Status check_idle(Error &error) const;

  // Makes `out` a zeroed array in the method's memory. Errors: MEMORY_ALLOCATION_FAILED.
  template <typename T>
  Status make_array(size_t count, Span<T> &out, Error &error) {
    void *data;
    const Status status = allocate_entries(count, sizeof(T), alignof(T), data, error);
    out = {static_cast<T *>(data), status.ok() ? count : 0};
    return status;
  }
  // The same without the type, so that the code exists only once. Defined in method.cpp.
  Status allocate_entries(size_t count, size_t size, size_t alignment, void *&out, Error &error);
};

// Begins an error message with the name of an input: "Input 'x' (0) of method 'forward'".
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

// Counts the elements at the current shape. Cannot overflow: loading checks that the maximum shape does not.
inline uint64_t element_count(const edgecore_tensor &tensor) {
  uint64_t count = 1;
  for (const int64_t size : shape_of(tensor)) count *= static_cast<uint64_t>(size);
  return count;
}

inline uint64_t current_bytes(const TensorSlot &slot) { return element_count(slot.tensor) * slot.element_size; }

// Returns an upper bound for the size of a delegate argument's copy: the bytes of the tensor at its maximum shape, plus
// the backend's tail padding and its granule, because the size is rounded up to a multiple of the granule.
uint64_t padded_bytes(const TensorSlot &slot, const edgecore_buffer_requirement &requirement);

// Sets the strides of a dense tensor with the tensor's shape and dim order.
void update_strides(edgecore_tensor &tensor);

// Names the kind of a value for errors: "a tensor".
StringView tag_name(uint32_t tag);

}  // namespace edgecore

#endif  // EDGECORE_CORE_METHOD_IMPL_H_
