// Builds the values of a method (tensors, lists, strings, numbers) and binds tensors to planned memory.
#include <string.h>

#include "core/method_impl.h"
#include "edgecore/scalar_type.h"

namespace edgecore {
namespace {

StringView qualified_name(const fb::Tensor &tensor) {
  return tensor.extra_tensor_info() == nullptr ? StringView()
                                               : view_of(tensor.extra_tensor_info()->fully_qualified_name());
}

// A mutable buffer that several methods share. The file plans an address for the buffer in each method's arena, but the
// buffer's memory is in the StateStore.
struct SharedBuffer {
  const uint8_t *planned;  // address in this method's arena that the file plans for the buffer
  uint8_t *data;           // address of the shared buffer in the StateStore
  uint64_t bytes;
  SharedBuffer *next;
};

struct Builder {
  MethodImpl &method;
  Error &error;
  SharedBuffer *shared = nullptr;
  uint64_t shared_count = 0;
  static constexpr size_t kRecent = 8;
  const edgecore_tensor *recent[kRecent] = {};  // recent static tensors; later tensors can share their arrays
  size_t recent_count = 0;

  template <typename... Pieces>
  Status invalid(int32_t code, const Pieces &...pieces) {
    return fail(error, code, "Method '", method.name, "': ", pieces...);
  }

  Status find_external(const fb::Tensor &tensor, uint32_t index, uint64_t bytes, edgecore_bytes *data) {
    const StringView key = view_of(tensor.extra_tensor_info()->fully_qualified_name());
    Error reason;
    NamedBytes named;
    const Status status = method.owner->external_data(key, named, reason);
    if (!status.ok()) {
      const int32_t code = status.code();
      return invalid(code == EDGECORE_NOT_FOUND ? EDGECORE_INVALID_EXTERNAL_DATA : code, "tensor value ", index, ": ",
                     reason.sentence());
    }
    const Span<const int32_t> sizes = span_of(tensor.sizes());
    const Span<const uint8_t> order = span_of(tensor.dim_order());
    const bool same = named.scalar_type == static_cast<int32_t>(tensor.scalar_type()) &&
                      same_items(named.sizes, sizes) && same_items(named.dim_order, order);
    if (named.has_layout && !same) {
      return invalid(EDGECORE_INVALID_EXTERNAL_DATA, "tensor value ", index, " is ",
                     scalar_type_info(static_cast<int32_t>(tensor.scalar_type())).name, " ", sizes, ", but '", key,
                     "' of the data file is ", scalar_type_info(named.scalar_type).name, " ", named.sizes,
                     ", or has another dim order; pass the data file that belongs to this program.");
    }
    if (named.bytes.size() < bytes) {
      return invalid(EDGECORE_INVALID_EXTERNAL_DATA, "tensor value ", index, " needs ", bytes,
                     " bytes of external data '", key, "', which has ", named.bytes.size(), ".");
    }
    *data = {named.bytes.data(), named.bytes.size()};
    return Status();
  }

  // Finds the data of a tensor in the program file or in a .ptd file. A constant tensor uses the data in place; a
  // mutable buffer starts with a copy of the data.
  Status bind_data(const fb::Tensor &tensor, uint32_t index, TensorSlot &slot, BaseStorage &memory) {
    const uint64_t bytes = tensor_bytes(tensor);
    edgecore_bytes data = {nullptr, 0};
    if (is_external(tensor)) {
      EDGECORE_TRY(find_external(tensor, index, bytes, &data));
    } else {
      const Result<Bytes> stored = program_data(tensor, slot.storage == Storage::kPlanned);
      EDGECORE_TRY(stored.status());
      data = {(*stored).data(), (*stored).size()};
    }
    if (slot.storage == Storage::kPlanned) return add_state(tensor, index, slot, memory, data.data);
    if (reinterpret_cast<uintptr_t>(data.data) % slot.element_size != 0) {
      return invalid(EDGECORE_INVALID_EXTERNAL_DATA, "the data of tensor value ", index,
                     " is not aligned to its element size ", slot.element_size, ".");
    }
    memory.data = const_cast<uint8_t *>(data.data);
    memory.capacity = static_cast<size_t>(bytes);
    memory.readable = static_cast<size_t>(data.size);
    memory.flags |= EDGECORE_TENSOR_READ_ONLY | EDGECORE_TENSOR_CONSTANT;
    return Status();
  }

  // Makes a tensor in planned memory a mutable buffer. The buffer's memory is in the StateStore if several methods
  // share the buffer, otherwise in the method's arena.
  Status add_state(const fb::Tensor &tensor, uint32_t index, TensorSlot &slot, BaseStorage &memory,
                   const uint8_t *initial) {
    const uint64_t bytes = tensor_bytes(tensor);
    memory.flags |= EDGECORE_TENSOR_STATE;
    Span<StateSlot> state;
    EDGECORE_TRY(method.make_array(1, state, error));
    state[0].value = index;
    state[0].slot = &slot;
    state[0].initial = initial;
    state[0].bytes = bytes;
    state[0].next = method.bindings.states;
    method.bindings.states = slot.state = &state[0];
    const StringView name = qualified_name(tensor);
    if (is_shared(name, *tensor.allocation_info())) {
      StateStore::Buffer wanted;
      wanted.name = name;
      if (name.empty()) wanted.memory_id = tensor.allocation_info()->memory_id();
      if (name.empty()) wanted.offset = planned_offset(*tensor.allocation_info());
      wanted.method = method.name;
      wanted.scalar_type = static_cast<int32_t>(tensor.scalar_type());
      wanted.sizes = span_of(tensor.sizes());
      wanted.dim_order = span_of(tensor.dim_order());
      wanted.bytes = bytes;
      wanted.initial = initial;
      const Result<StateStore::Buffer *> buffer = method.config.state->share(wanted, error);
      EDGECORE_TRY(buffer.status());
      Span<SharedBuffer> entry;
      EDGECORE_TRY(method.make_array(1, entry, error));
      entry[0] = {static_cast<const uint8_t *>(memory.data), (*buffer)->data, bytes, shared};
      shared = &entry[0];
      ++shared_count;
      state[0].shared = *buffer;
      memory.data = (*buffer)->data;
      memory.readable = static_cast<size_t>(bytes) + kArenaTail;
      method.bindings.shares_state = true;
    }
    state[0].data = memory.data;
    return Status();
  }

  // Results of in-place updates have planned addresses within a shared mutable buffer. Moves each such tensor to the
  // same position within the buffer's memory in the StateStore.
  Status redirect_to_shared() {
    if (shared_count != 0 && method.bindings.values.size() > method.owner->limits().items / shared_count) {
      return invalid(EDGECORE_INVALID_PROGRAM, "it has ", shared_count, " shared buffers and ",
                     method.bindings.values.size(), " values, too many together (limit items).");
    }
    for (TensorSlot *slot : method.bindings.tensor_of) {
      if (shared == nullptr || slot == nullptr || slot->storage != Storage::kPlanned) continue;
      edgecore_tensor &tensor = slot->tensor;
      if ((tensor.flags & EDGECORE_TENSOR_STATE) != 0) continue;
      const uintptr_t address = reinterpret_cast<uintptr_t>(tensor.dl.data);
      for (const SharedBuffer *buffer = shared; buffer != nullptr; buffer = buffer->next) {
        const uintptr_t begin = reinterpret_cast<uintptr_t>(buffer->planned);
        if (address < begin || address - begin > buffer->bytes || tensor.capacity > buffer->bytes - (address - begin))
          continue;
        if (tensor.capacity == 0) continue;
        tensor.dl.data = buffer->data + (address - begin);
        slot->readable = static_cast<size_t>(buffer->bytes) - (address - begin) + kArenaTail;
        break;
      }
    }
    return Status();
  }

  bool is_shared(StringView name, const fb::AllocationDetails &allocation) const {
    if (method.config.state == nullptr || method.config.sharing == StateSharing::kNone) return false;
    if (method.config.sharing == StateSharing::kAll) return !name.empty() || allocation.memory_id() > 1;
    return !name.empty() && method.owner->shares_state(name);
  }

  // Returns the bytes from the start of the tensor's data to the end of its segment and the readable tail after it.
  Result<Bytes> program_data(const fb::Tensor &tensor, bool is_state) {
    const Segments &segments = method.owner->tables().segments;
    TensorPlace place;
    EDGECORE_TRY(find_tensor_data(method.owner->tables(), tensor, place, error));
    if (place.in_flatbuffer != nullptr) {
      return Bytes(place.in_flatbuffer, static_cast<size_t>(tensor_bytes(tensor)) + method.owner->tables().tail);
    }
    const LoadUse use = is_state ? LoadUse::kInitialState : LoadUse::kConstants;
    const Result<Bytes> segment = segments.keep(place.segment, use, error);
    EDGECORE_TRY(segment.status());
    const size_t offset = static_cast<size_t>(place.offset);
    // an empty segment has no tail, because it is not loaded
    const size_t tail = (*segment).empty() ? 0 : segments.tail();
    return Bytes((*segment).data() + offset, (*segment).size() - offset + tail);
  }

  // Sets the shape, strides and maximum shape of a tensor. These never change for a static tensor that is not an input,
  // so such a tensor shares the arrays of a recent tensor with the same sizes and dim order. Separate arrays would be a
  // large part of a method's memory on a microcontroller.
  Status build_sizes(const fb::Tensor &tensor, bool is_input, edgecore_tensor &out) {
    const Span<const int32_t> declared = span_of(tensor.sizes());
    const size_t rank = declared.size();
    const bool is_fixed = tensor.shape_dynamism() == fb::TensorShapeDynamism::STATIC && !is_input;
    for (size_t i = 0; is_fixed && i < kRecent; ++i) {
      const edgecore_tensor *other = recent[i];
      if (other == nullptr || !same_sizes(*other, declared) ||
          !same_items(span_of(tensor.dim_order()), Span<const uint8_t>(other->dim_order, rank)))
        continue;
      out.dl.shape = other->dl.shape;
      out.dl.strides = other->dl.strides;
      out.max_shape = other->max_shape;
      return Status();
    }
    Span<int64_t> sizes;
    EDGECORE_TRY(method.make_array((is_fixed ? 2 : 3) * rank, sizes, error));
    out.dl.shape = sizes.data();
    out.dl.strides = sizes.data() + rank;
    out.max_shape = is_fixed ? sizes.data() : sizes.data() + 2 * rank;
    for (size_t i = 0; i < rank; ++i) sizes[i] = declared[i];
    for (size_t i = 2 * rank; i < sizes.size(); ++i) sizes[i] = declared[i - 2 * rank];
    update_strides(out);
    if (is_fixed) recent[recent_count++ % kRecent] = &out;
    return Status();
  }

  static bool same_sizes(const edgecore_tensor &tensor, Span<const int32_t> sizes) {
    if (static_cast<size_t>(tensor.dl.ndim) != sizes.size()) return false;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (tensor.dl.shape[i] != sizes[i]) return false;
    }
    return true;
  }

  Status build_tensor(const fb::Tensor &tensor, uint32_t index) {
    Span<TensorSlot> slots;
    EDGECORE_TRY(method.make_array(1, slots, error));
    TensorSlot &slot = slots[0];
    const bool is_input = (method.bindings.uses[index] & kIsInput) != 0;
    const size_t rank = size_of(tensor.sizes());
    const ScalarTypeInfo type = scalar_type_info(static_cast<int32_t>(tensor.scalar_type()));
    slot.element_size = type.size;
    edgecore_tensor &out = slot.tensor;
    out.header = header_of<edgecore_tensor>();
    out.scalar_type = static_cast<int32_t>(tensor.scalar_type());
    out.dl.device_type = EDGECORE_DEVICE_CPU;
    out.dl.ndim = static_cast<int32_t>(rank);
    out.dl.dtype = {type.dl_code, type.dl_bits, 1};
    out.dim_order = span_of(tensor.dim_order()).data();
    EDGECORE_TRY(build_sizes(tensor, is_input, out));

    BaseStorage memory = {};
    if (tensor.shape_dynamism() != fb::TensorShapeDynamism::STATIC) memory.flags |= EDGECORE_TENSOR_RESIZABLE;
    const bool has_data = tensor.data_buffer_idx() != 0 || is_external(tensor);
    const fb::AllocationDetails *allocation = tensor.allocation_info();
    slot.storage = allocation != nullptr                            ? Storage::kPlanned
                   : has_data                                       ? Storage::kConstant
                   : is_input                                       ? Storage::kInput
                   : (method.bindings.uses[index] & kIsOutput) != 0 ? Storage::kOutput
                                                                    : Storage::kView;
    if (allocation != nullptr) {
      const MutableBytes arena = method.bindings.arenas[allocation->memory_id() - 1];
      const uint64_t offset = planned_offset(*allocation);
      memory.data = arena.data() + offset;
      memory.capacity = static_cast<size_t>(tensor_bytes(tensor));
      memory.readable = arena.size() - static_cast<size_t>(offset);
    }
    // Inputs are read-only at first; set_input may make them writable.
    if (slot.storage == Storage::kInput) memory.flags |= EDGECORE_TENSOR_READ_ONLY;
    if (has_data) {
      EDGECORE_TRY(bind_data(tensor, index, slot, memory));
    } else if (slot.storage == Storage::kPlanned && !qualified_name(tensor).empty()) {
      EDGECORE_TRY(add_state(tensor, index, slot, memory, nullptr));
    }
    out.dl.data = memory.data;
    out.capacity = memory.capacity;
    out.flags = memory.flags;
    slot.readable = memory.readable;

    method.bindings.tensor_of[index] = &slot;
    method.bindings.values[index].tag = EDGECORE_TAG_TENSOR;
    method.bindings.values[index].as.tensor = &out;
    return Status();
  }

  // Makes value number `index` a list with `count` entries of type `tag`. The caller sets list.items.
  Result<ListSlot *> build_list(uint32_t index, uint32_t tag, uint64_t count) {
    Span<ListSlot> slots;
    EDGECORE_TRY(method.make_array(1, slots, error));
    slots[0].list.count = count;
    method.bindings.list_of[index] = slots.data();
    method.bindings.values[index].tag = tag;
    method.bindings.values[index].as.list = &slots[0].list;
    return slots.data();
  }

  Status build_tensor_list(uint32_t index, Span<const int32_t> items) {
    const Result<ListSlot *> slot = build_list(index, EDGECORE_TAG_TENSOR_LIST, items.size());
    EDGECORE_TRY(slot.status());
    Span<edgecore_tensor *> tensors;
    EDGECORE_TRY(method.make_array(items.size(), tensors, error));
    (*slot)->tensor_values = items;
    (*slot)->tensors = tensors.data();
    (*slot)->list.items.tensors = tensors.data();
    return Status();
  }

  Status build_int_list(uint32_t index, Span<const int64_t> items) {
    const Result<ListSlot *> slot = build_list(index, EDGECORE_TAG_INT_LIST, items.size());
    EDGECORE_TRY(slot.status());
    Span<int64_t> ints;
    EDGECORE_TRY(method.make_array(items.size(), ints, error));
    (*slot)->int_values = items;
    (*slot)->ints = ints.data();
    (*slot)->list.items.ints = ints.data();
    return Status();
  }

  Status build_value(uint32_t index) {
    const fb::EValue &value = *method.plan->values()->Get(index);
    edgecore_value &out = method.bindings.values[index];
    switch (value.val_type()) {
      case fb::KernelTypes::Int:
        out.tag = EDGECORE_TAG_INT;
        out.as.i = value.val_as_Int()->int_val();
        return Status();
      case fb::KernelTypes::Bool:
        out.tag = EDGECORE_TAG_BOOL;
        out.as.b = value.val_as_Bool()->bool_val() ? 1 : 0;
        return Status();
      case fb::KernelTypes::Double:
        out.tag = EDGECORE_TAG_DOUBLE;
        out.as.d = value.val_as_Double()->double_val();
        return Status();
      case fb::KernelTypes::Tensor:
        return build_tensor(*value.val_as_Tensor(), index);
      case fb::KernelTypes::String: {
        const StringView text = view_of(value.val_as_String()->string_val());
        const Result<ListSlot *> slot = build_list(index, EDGECORE_TAG_STRING, text.size());
        if (slot.ok()) (*slot)->list.items.chars = text.data();
        return slot.status();
      }
      case fb::KernelTypes::DoubleList: {
        const Span<const double> items = span_of(value.val_as_DoubleList()->items());
        const Result<ListSlot *> slot = build_list(index, EDGECORE_TAG_DOUBLE_LIST, items.size());
        if (slot.ok()) (*slot)->list.items.doubles = items.data();
        return slot.status();
      }
      case fb::KernelTypes::BoolList: {
        const Span<const uint8_t> items = span_of(value.val_as_BoolList()->items());
        const Result<ListSlot *> slot = build_list(index, EDGECORE_TAG_BOOL_LIST, items.size());
        if (slot.ok()) (*slot)->list.items.bools = items.data();
        return slot.status();
      }
      case fb::KernelTypes::IntList:
        return build_int_list(index, span_of(value.val_as_IntList()->items()));
      case fb::KernelTypes::TensorList:
        return build_tensor_list(index, span_of(value.val_as_TensorList()->items()));
      case fb::KernelTypes::OptionalTensorList:
        return build_tensor_list(index, span_of(value.val_as_OptionalTensorList()->items()));
      default:
        out.tag = EDGECORE_TAG_NONE;
        return Status();
    }
  }
};

}  // namespace

void update_strides(edgecore_tensor &tensor) {
  int64_t stride = 1;
  for (int32_t i = tensor.dl.ndim - 1; i >= 0; --i) {
    const uint8_t dim = tensor.dim_order[i];
    tensor.dl.strides[dim] = stride;
    if (tensor.dl.shape[dim] != 0) stride *= tensor.dl.shape[dim];
  }
}

StringView tag_name(uint32_t tag) {
  static constexpr StringView kNames[] = {
      "None",     "an int",         "a double",          "a bool",          "a tensor",
      "a string", "a list of ints", "a list of doubles", "a list of bools", "a list of tensors"};
  return tag < sizeof(kNames) / sizeof(kNames[0]) ? kNames[tag] : StringView("of unknown kind");
}

Status MethodImpl::build_arenas(Error &error) {
  const MethodInfo info = owner->method(index);
  EDGECORE_TRY(make_array(info.arena_count(), bindings.arenas, error));
  if (!config.arenas.empty() && config.arenas.size() != bindings.arenas.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", name, "' plans ", bindings.arenas.size(), " arenas, ",
                config.arenas.size(), " were given.");
  }
  // Allocate an arena only up to the end of its last tensor: a damaged file may state a far larger size.
  Span<uint64_t> reached;
  EDGECORE_TRY(make_array(bindings.arenas.size(), reached, error));
  for (uint32_t i = 0; i < size_of(plan->values()); ++i) {
    const fb::Tensor *tensor = plan->values()->Get(i)->val_as_Tensor();
    if (tensor == nullptr || tensor->allocation_info() == nullptr) continue;
    uint64_t &end = reached[tensor->allocation_info()->memory_id() - 1];
    const uint64_t tensor_end = planned_offset(*tensor->allocation_info()) + tensor_bytes(*tensor);
    if (tensor_end > end) end = tensor_end;
  }
  for (size_t i = 0; i < bindings.arenas.size(); ++i) {
    memory.planned += info.arena_bytes(i);
    if (!config.arenas.empty()) {
      const uint64_t needed = info.arena_bytes(i) + kArenaTail;
      const MutableBytes arena = config.arenas[i];
      if (arena.size() < needed || reinterpret_cast<uintptr_t>(arena.data()) % kArenaAlignment != 0) {
        return fail(error, EDGECORE_INVALID_ARGUMENT, "Arena ", i, " of method '", name, "' needs ", needed,
                    " bytes aligned to ", kArenaAlignment, "; ", arena.size(),
                    " bytes were given, or they are not aligned.");
      }
      bindings.arenas[i] = arena;
      continue;
    }
    void *data = reached[i] > SIZE_MAX - kArenaTail
                     ? nullptr
                     : config.allocator->allocate(static_cast<size_t>(reached[i]) + kArenaTail, kArenaAlignment);
    if (data == nullptr) {
      return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "Method '", name, "': no memory for planned arena ", i,
                  " of ", reached[i], " bytes.");
    }
    memset(data, 0, static_cast<size_t>(reached[i]) + kArenaTail);
    bindings.arenas[i] = MutableBytes(static_cast<uint8_t *>(data), static_cast<size_t>(reached[i]) + kArenaTail);
  }
  return Status();
}

Status MethodImpl::build_values(Error &error) {
  const size_t count = size_of(plan->values());
  EDGECORE_TRY(make_array(count, bindings.values, error));
  EDGECORE_TRY(make_array(count, bindings.tensor_of, error));
  EDGECORE_TRY(make_array(count, bindings.list_of, error));
  EDGECORE_TRY(make_array(count, bindings.uses, error));
  for (const int32_t output : span_of(plan->outputs())) bindings.uses[static_cast<size_t>(output)] |= kIsOutput;
  for (const int32_t input : span_of(plan->inputs())) bindings.uses[static_cast<size_t>(input)] |= kIsInput;
  Builder builder{*this, error};
  for (uint32_t i = 0; i < count; ++i) EDGECORE_TRY(builder.build_value(i));
  EDGECORE_TRY(builder.redirect_to_shared());
  const Span<const int32_t> inputs = span_of(plan->inputs());
  EDGECORE_TRY(make_array(inputs.size(), bindings.declared, error));
  for (size_t i = 0; i < inputs.size(); ++i) bindings.declared[i] = bindings.values[static_cast<size_t>(inputs[i])];
  Method::reset();
  return Status();
}

}  // namespace edgecore
