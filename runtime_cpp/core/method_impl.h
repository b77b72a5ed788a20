// The state of a method; private to the core.
#ifndef EDGECORE_CORE_METHOD_IMPL_H_
#define EDGECORE_CORE_METHOD_IMPL_H_

#include <stddef.h>

#include <new>

#include "core/program_tables.h"
#include "edgecore/method.h"

namespace edgecore {

// Who provides a tensor's memory.
enum class Place : uint8_t {
  kPlanned,   // an arena
  kConstant,  // the file, or external data
  kInput,     // borrowed from the caller
  kOutput,    // given by the caller
  kView,      // another tensor, through executorch_prim::et_view
};

struct TensorSlot {
  edgecore_tensor tensor;  // first, so that a tensor's address is its slot's
  uint64_t readable;       // bytes from the tensor's data on that may be read
  Place place;
  uint8_t element_size;
  // What the tensor's data, capacity, flags and `readable` are at the beginning of a run; a view changes them.
  void *home;
  uint64_t home_capacity;
  uint64_t home_readable;
  uint32_t home_flags;
};
static_assert(offsetof(TensorSlot, tensor) == 0);

// A mutable buffer of a method.
struct StateSlot {
  TensorSlot *slot;
  const uint8_t *initial;  // NULL: zeros
  uint64_t bytes;
  StateSlot *next;
};

struct ListSlot {
  edgecore_list list;
  Span<const int64_t> int_values;     // of an integer list: the values that hold its entries
  Span<const int32_t> tensor_values;  // of a tensor list; -1: none
  int64_t *ints;                      // storage of list.items
  edgecore_tensor **tensors;
};

enum class Op : uint8_t { kKernel, kDelegate, kMove, kJumpFalse, kFree };

struct Instruction {
  Op op;
  bool is_view;               // executorch_prim::et_view: the last argument takes the memory of the first
  uint32_t target;            // operator, delegate, or the value that is read
  uint32_t other;             // value that is written (kernels: the result), or instruction to jump to
  Span<const int32_t> args;   // without the repeated result
  struct DelegateCall *call;  // of kDelegate
};

struct Kernel {
  edgecore_kernel_fn run;
  OperatorName name;
};

// Memory for one argument that does not meet its buffer requirement; allocated when it is first needed.
struct Staging {
  edgecore_buffer_requirement requirement;
  void *buffer;             // host memory
  edgecore_buffer *device;  // instead of it, where the requirement has a memory kind
  uint64_t capacity;
  void *original;  // the tensor's data while it is replaced; NULL otherwise
  bool written;    // prepare gave it its shape: an output
  bool repeated;   // and another argument is the same tensor
};

// A buffer that the method made; destroyed after the instances.
struct OwnedBuffer {
  const edgecore_backend *table;
  edgecore_buffer *buffer;
  OwnedBuffer *next;
};

// One delegate instruction.
struct DelegateCall {
  Staging *staging;  // one per argument
  int64_t *shapes;   // of all tensor arguments at the last prepare
  uint32_t *flags;   // of all arguments then
};

struct MemoryGroup {
  edgecore_memory_block block;
  uint32_t kind;
  StringView name;
  MemoryGroup *next;
};

constexpr uint64_t kNotScratch = UINT64_MAX;

struct DelegateState {
  edgecore_scope scope;
  const LoadedBackend *backend;
  edgecore_delegate *delegate;
  edgecore_instance *instance;
  const DelegateCall *prepared_for;    // NULL: not prepared
  Span<edgecore_memory_block> blocks;  // one per need of the last prepare
  size_t block_capacity;
  edgecore_memory_block *owned;  // persistent and staging memory outside of groups, by need
  uint64_t *scratch_offsets;     // by need: place in the method's scratch area, or kNotScratch
};

// A symbolic size while the shapes of inputs are compared: the dim that gave it its value.
struct SymbolValue {
  bool known;
  uint32_t input;
  uint32_t dim;
  int64_t value;
};

// A run that waits for a delegate.
struct PendingRun {
  bool waiting;
  int32_t fired;  // written by the completion, last
  int32_t code;
  size_t pc;
  uint64_t steps;
  uint64_t run_event;
  uint64_t call_event;
};

struct MethodImpl;
struct DelegateArgument {
  const LoadedBackend &backend;
  size_t pc;
  Staging &staging;
  TensorSlot &slot;
};

class DeviceMemory {
 public:
  // Refuses a requirement that the backend gives no memory for.
  virtual Status check(const MethodImpl &method, const edgecore_backend &table, Error &error) const = 0;
  // Moves values that only delegates of one backend use into its memory; after all calls were prepared.
  virtual Status place(MethodImpl &method, Error &error) const = 0;
  // Around execute: moves an argument into a buffer, and back.
  virtual Status stage_in(MethodImpl &method, const DelegateArgument &argument, bool copy, Error &error) const = 0;
  virtual Status stage_out(MethodImpl &method, const DelegateArgument &argument, bool copy, Error &error) const = 0;
  virtual void destroy(MethodImpl &method) const = 0;

 protected:
  ~DeviceMemory() = default;
};

struct MethodImpl : Method {
  MethodImpl(const Program &owner, size_t method_index, const MethodConfig &method_config)
      : config(method_config), owner(&owner), index(method_index) {}

  MethodConfig config;
  const Program *owner;
  size_t index;
  const fb::ExecutionPlan *plan = nullptr;
  const fb::meta::Method *meta = nullptr;  // NULL: the file has none
  StringView name;
  edgecore_host host;  // as kernels see it: without event functions when nobody listens
  edgecore_scope scope;
  Error call_error;  // what a kernel or backend says, before the place is added

  Span<edgecore_value> values;
  Span<edgecore_value> declared;  // the values as the file has them
  Span<TensorSlot *> tensor_of;   // by value; NULL if it is no tensor
  Span<ListSlot *> list_of;
  Span<uint8_t> used;  // by value: an instruction reads it
  Span<MutableBytes> arenas;
  Span<Kernel> kernels;
  Span<Instruction> instructions;
  Span<DelegateState> delegates;
  size_t loaded_delegates = 0;  // entries of `delegates` that destroy() has to end
  Span<uint8_t> input_set;
  Span<SymbolValue> symbols;         // of the dims of inputs
  bool shapes_given = false;         // since they were compared with each other
  Span<TensorSlot *> rebound;        // slots to put back to their home before a run
  Span<int32_t> moved;               // tensor values that a MoveCall rebinds
  Span<edgecore_value> args;         // of the current instruction
  size_t arg_count = 0;              // how many it has
  Staging *preparing = nullptr;      // of the call whose prepare runs: resize marks what is written
  Completion *completion = nullptr;  // of the run, if it may become pending
  PendingRun waits = {};
  OwnedBuffer *buffers = nullptr;
  edgecore_memory_block scratch_area = {nullptr, 0};
  uint64_t scratch_alignment = 1;
  MemoryGroup *groups = nullptr;
  StateSlot *states = nullptr;  // of this method alone
  bool shares_state = false;
  uint64_t planned_total = 0;
  uint64_t delegate_total = 0;
  uint64_t staging_total = 0;

  static MethodImpl &of(Method *method) { return *static_cast<MethodImpl *>(method); }
  static const MethodImpl &of(const Method *method) { return *static_cast<const MethodImpl *>(method); }

  // values.cpp
  Status build_arenas(Error &error);
  Status build_values(Error &error);
  // instructions.cpp
  Status build_instructions(Error &error);
  Status resolve_kernels(Error &error);
  // delegates.cpp
  Status load_delegates(Error &error);
  Status load_delegate(size_t delegate_index, Error &error);
  void destroy_delegates();
  // delegate_call.cpp
  Status prepare_at_greatest_shapes(Error &error);
  Status call_delegate(size_t pc, Error &error);
  Status end_delegate_call(size_t pc, int32_t code, Error &error);
  // staging.cpp
  Status stage_in(size_t pc, Error &error);
  Status stage_out(size_t pc, bool copy, Error &error);
  // input_shapes.cpp
  size_t symbol_count() const;
  // Of one input by itself.
  Status check_shape(size_t input, const edgecore_tensor &tensor, Span<const int64_t> shape, Error &error) const;
  // Dims that depend on each other; all inputs are set.
  Status check_relations(Error &error);
  // execute.cpp
  Status run(Error &error);
  Status go_on(Error &error);
  Status left(Status status);
  Status check_idle(Error &error) const;

  // Zeroed array in the method's memory.
  template <typename T>
  Result<Span<T>> array(size_t count, Error &error) {
    size_t bytes;
    void *data =
        __builtin_mul_overflow(count, sizeof(T), &bytes) ? nullptr : config.allocator->allocate(bytes, alignof(T));
    if (data == nullptr) {
      return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "Method '", name, "': no memory for ", count,
                  " internal entries of ", sizeof(T), " bytes.");
    }
    __builtin_memset(data, 0, bytes);
    return Span<T>(static_cast<T *>(data), count);
  }
  template <typename T>
  Status make_array(size_t count, Span<T> &out, Error &error) {
    const Result<Span<T>> result = array<T>(count, error);
    out = *result;
    return result.status();
  }
};

// Begins a sentence: "Input 'x' (0) of method 'forward'".
void name_input(const MethodImpl &method, size_t index, Error &error);

inline TensorSlot &slot_of(edgecore_tensor *tensor) { return *reinterpret_cast<TensorSlot *>(tensor); }

inline Span<const int64_t> shape_of(const edgecore_tensor &tensor) {
  return {tensor.dl.shape, static_cast<size_t>(tensor.dl.ndim)};
}

// Elements at the current shape; tensors were checked for overflow at their greatest.
inline uint64_t element_count(const edgecore_tensor &tensor) {
  uint64_t count = 1;
  for (const int64_t size : shape_of(tensor)) count *= static_cast<uint64_t>(size);
  return count;
}

inline uint64_t current_bytes(const TensorSlot &slot) { return element_count(slot.tensor) * slot.element_size; }

// Bytes of the slot at its greatest shape, with the granule and the tail that a delegate asks for.
uint64_t padded_bytes(const TensorSlot &slot, const edgecore_buffer_requirement &requirement);

// Strides of a dense tensor of the slot's shape and dim order.
void update_strides(edgecore_tensor &tensor);

// Name of a value's kind, for sentences.
StringView tag_name(uint32_t tag);

}  // namespace edgecore

#endif  // EDGECORE_CORE_METHOD_IMPL_H_
