// Builds a method's values and planned memory.
#include <string.h>

#include "core/method_impl.h"
#include "core/scalar_type.h"

namespace edgecore {
namespace {

template <typename T>
bool same_items(Span<const T> a, Span<const T> b) {
  return a.size() == b.size() && (a.empty() || memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

StringView qualified_name(const fb::Tensor &tensor) {
  return tensor.extra_tensor_info() == nullptr ? StringView()
                                               : view_of(tensor.extra_tensor_info()->fully_qualified_name());
}

// Where the plan has a buffer that methods share, and where it is.
struct Moved {
  const uint8_t *planned;
  uint8_t *data;
  uint64_t bytes;
  Moved *next;
};

struct Builder {
  MethodImpl &method;
  Error &error;
  Moved *moved = nullptr;
  uint64_t moved_count = 0;

  template <typename... Pieces>
  Status invalid(int32_t code, const Pieces &...pieces) {
    return fail(error, code, "Method '", method.name, "': ", pieces...);
  }

  Status find_external(const fb::Tensor &tensor, uint32_t index, uint64_t bytes, edgecore_bytes *data) {
    const StringView key = view_of(tensor.extra_tensor_info()->fully_qualified_name());
    Error reason;
    const Result<NamedBytes> found = method.owner->external_data(key, reason);
    if (!found.ok()) return invalid(EDGECORE_INVALID_EXTERNAL_DATA, "tensor value ", index, ": ", reason.sentence());
    const NamedBytes named = *found;
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

  // Memory of a tensor whose bytes are in the file or in external data.
  Status place_data(const fb::Tensor &tensor, uint32_t index, TensorSlot &slot) {
    const uint64_t bytes = tensor_bytes(tensor);
    edgecore_bytes data = {nullptr, 0};
    if (is_external(tensor)) {
      EDGECORE_TRY(find_external(tensor, index, bytes, &data));
    } else {
      const Result<Bytes> stored = tensor_data(method.owner->tables(), tensor, error);
      EDGECORE_TRY(stored.status());
      data = {(*stored).data(), readable_from((*stored).data(), bytes)};
    }
    if (slot.place == Place::kPlanned) return add_state(tensor, slot, data.data);
    if (reinterpret_cast<uintptr_t>(data.data) % slot.element_size != 0) {
      return invalid(EDGECORE_INVALID_EXTERNAL_DATA, "the data of tensor value ", index,
                     " is not aligned to its element size ", slot.element_size, ".");
    }
    slot.home = const_cast<uint8_t *>(data.data);
    slot.home_capacity = bytes;
    slot.home_readable = data.size;
    slot.home_flags |= EDGECORE_TENSOR_READ_ONLY | EDGECORE_TENSOR_CONSTANT;
    return Status();
  }

  // Makes a planned tensor a mutable buffer: a shared one, or the method's own at its place in the arena.
  Status add_state(const fb::Tensor &tensor, TensorSlot &slot, const uint8_t *initial) {
    const uint64_t bytes = tensor_bytes(tensor);
    slot.home_flags |= EDGECORE_TENSOR_STATE;
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
      Span<Moved> moves;
      EDGECORE_TRY(method.make_array(1, moves, error));
      moves[0] = {static_cast<const uint8_t *>(slot.home), (*buffer)->data, bytes, moved};
      moved = &moves[0];
      ++moved_count;
      slot.home = (*buffer)->data;
      slot.home_readable = bytes + kArenaTail;
      method.shares_state = true;
      return Status();
    }
    Span<StateSlot> state;
    EDGECORE_TRY(method.make_array(1, state, error));
    state[0] = {&slot, initial, bytes, method.states};
    method.states = &state[0];
    return Status();
  }

  // What a program computes in place of a shared buffer, or of a part of it, goes where the buffer is.
  Status follow_moved() {
    if (moved_count != 0 && method.values.size() > method.owner->limits().items / moved_count) {
      return invalid(EDGECORE_INVALID_PROGRAM, "it has ", moved_count, " shared buffers and ", method.values.size(),
                     " values, too many together (limit items).");
    }
    for (TensorSlot *slot : method.tensor_of) {
      if (moved == nullptr || slot == nullptr || slot->place != Place::kPlanned) continue;
      if ((slot->home_flags & EDGECORE_TENSOR_STATE) != 0) continue;
      const uintptr_t home = reinterpret_cast<uintptr_t>(slot->home);
      for (const Moved *place = moved; place != nullptr; place = place->next) {
        const uintptr_t begin = reinterpret_cast<uintptr_t>(place->planned);
        if (home < begin || home - begin > place->bytes || slot->home_capacity > place->bytes - (home - begin))
          continue;
        if (slot->home_capacity == 0) continue;
        slot->home = place->data + (home - begin);
        slot->home_readable = place->bytes - (home - begin) + kArenaTail;
        slot->tensor.dl.data = slot->home;
        slot->readable = slot->home_readable;
        break;
      }
    }
    return Status();
  }

  bool is_shared(StringView name, const fb::AllocationDetails &place) const {
    if (method.config.state == nullptr || method.config.sharing == StateSharing::kNone) return false;
    if (method.config.sharing == StateSharing::kAll) return !name.empty() || place.memory_id() > 1;
    return !name.empty() && method.owner->shares_state(name);
  }

  // How far one may read from an address in the file or in the private copy of its program part.
  uint64_t readable_from(const uint8_t *data, uint64_t bytes) const {
    const Bytes file = method.owner->tables().file;
    const uintptr_t address = reinterpret_cast<uintptr_t>(data);
    const uintptr_t begin = reinterpret_cast<uintptr_t>(file.data());
    if (address >= begin && address - begin <= file.size()) return file.size() - (address - begin);
    return bytes + kArenaTail;
  }

  Status build_tensor(const fb::Tensor &tensor, uint32_t index, Place unplanned) {
    Span<TensorSlot> slots;
    EDGECORE_TRY(method.make_array(1, slots, error));
    TensorSlot &slot = slots[0];
    const size_t rank = size_of(tensor.sizes());
    Span<int64_t> sizes;  // shape, strides, greatest shape
    EDGECORE_TRY(method.make_array(3 * rank, sizes, error));
    for (size_t i = 0; i < rank; ++i) sizes[i] = sizes[2 * rank + i] = tensor.sizes()->Get(static_cast<uint32_t>(i));

    const ScalarTypeInfo type = scalar_type_info(static_cast<int32_t>(tensor.scalar_type()));
    slot.element_size = type.size;
    edgecore_tensor &out = slot.tensor;
    out.header = {sizeof(edgecore_tensor), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
    out.scalar_type = static_cast<int32_t>(tensor.scalar_type());
    out.dl.device_type = EDGECORE_DEVICE_CPU;
    out.dl.ndim = static_cast<int32_t>(rank);
    out.dl.dtype = {type.dl_code, type.dl_bits, 1};
    out.dl.shape = sizes.data();
    out.dl.strides = sizes.data() + rank;
    out.max_shape = sizes.data() + 2 * rank;
    out.dim_order = span_of(tensor.dim_order()).data();
    update_strides(out);

    if (tensor.shape_dynamism() != fb::TensorShapeDynamism::STATIC) slot.home_flags |= EDGECORE_TENSOR_RESIZABLE;
    const bool has_data = tensor.data_buffer_idx() != 0 || is_external(tensor);
    const fb::AllocationDetails *place = tensor.allocation_info();
    slot.place = place != nullptr ? Place::kPlanned : has_data ? Place::kConstant : unplanned;
    if (place != nullptr) {
      const MutableBytes arena = method.arenas[place->memory_id() - 1];
      const uint64_t offset = planned_offset(*place);
      slot.home = arena.data() + offset;
      slot.home_capacity = tensor_bytes(tensor);
      slot.home_readable = arena.size() - offset;
    }
    if (slot.place == Place::kInput) slot.home_flags |= EDGECORE_TENSOR_READ_ONLY;  // until one is set as writable
    if (has_data) {
      EDGECORE_TRY(place_data(tensor, index, slot));
    } else if (slot.place == Place::kPlanned && !qualified_name(tensor).empty()) {
      EDGECORE_TRY(add_state(tensor, slot, nullptr));
    }
    out.dl.data = slot.home;
    out.capacity = slot.home_capacity;
    out.flags = slot.home_flags;
    slot.readable = slot.home_readable;

    method.tensor_of[index] = &slot;
    method.values[index].tag = EDGECORE_TAG_TENSOR;
    method.values[index].as.tensor = &out;
    return Status();
  }

  // `stored`: entries that lie in the file as a kernel reads them; NULL if storage of `count` must be made.
  Result<ListSlot *> build_list(uint32_t index, uint32_t tag, uint64_t count) {
    Span<ListSlot> slots;
    EDGECORE_TRY(method.make_array(1, slots, error));
    slots[0].list.count = count;
    method.list_of[index] = slots.data();
    method.values[index].tag = tag;
    method.values[index].as.list = &slots[0].list;
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

  Status build_value(uint32_t index, Place unplanned) {
    const fb::EValue &value = *method.plan->values()->Get(index);
    edgecore_value &out = method.values[index];
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
        return build_tensor(*value.val_as_Tensor(), index, unplanned);
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
  EDGECORE_TRY(make_array(info.arena_count(), arenas, error));
  if (!config.arenas.empty() && config.arenas.size() != arenas.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Method '", name, "' plans ", arenas.size(), " arenas, ",
                config.arenas.size(), " were given.");
  }
  // What the tensors reach, which a damaged file's arena size may exceed by far.
  Span<uint64_t> reached;
  EDGECORE_TRY(make_array(arenas.size(), reached, error));
  for (uint32_t i = 0; i < size_of(plan->values()); ++i) {
    const fb::Tensor *tensor = plan->values()->Get(i)->val_as_Tensor();
    if (tensor == nullptr || tensor->allocation_info() == nullptr) continue;
    uint64_t &end = reached[tensor->allocation_info()->memory_id() - 1];
    const uint64_t tensor_end = planned_offset(*tensor->allocation_info()) + tensor_bytes(*tensor);
    if (tensor_end > end) end = tensor_end;
  }
  for (size_t i = 0; i < arenas.size(); ++i) {
    planned_total += info.arena_bytes(i);
    if (!config.arenas.empty()) {
      const uint64_t needed = info.arena_bytes(i) + kArenaTail;
      const MutableBytes given = config.arenas[i];
      if (given.size() < needed || reinterpret_cast<uintptr_t>(given.data()) % kArenaAlignment != 0) {
        return fail(error, EDGECORE_INVALID_ARGUMENT, "Arena ", i, " of method '", name, "' needs ", needed,
                    " bytes aligned to ", kArenaAlignment, "; ", given.size(),
                    " bytes were given, or they are not aligned.");
      }
      arenas[i] = given;
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
    arenas[i] = MutableBytes(static_cast<uint8_t *>(data), static_cast<size_t>(reached[i]) + kArenaTail);
  }
  return Status();
}

Status MethodImpl::build_values(Error &error) {
  const size_t count = size_of(plan->values());
  EDGECORE_TRY(make_array(count, values, error));
  EDGECORE_TRY(make_array(count, declared, error));
  EDGECORE_TRY(make_array(count, tensor_of, error));
  EDGECORE_TRY(make_array(count, list_of, error));
  Span<Place> unplanned;
  EDGECORE_TRY(make_array(count, unplanned, error));
  for (Place &place : unplanned) place = Place::kView;
  for (const int32_t output : span_of(plan->outputs())) unplanned[static_cast<size_t>(output)] = Place::kOutput;
  for (const int32_t input : span_of(plan->inputs())) unplanned[static_cast<size_t>(input)] = Place::kInput;
  Builder builder{*this, error};
  for (uint32_t i = 0; i < count; ++i) EDGECORE_TRY(builder.build_value(i, unplanned[i]));
  EDGECORE_TRY(builder.follow_moved());
  for (size_t i = 0; i < count; ++i) declared[i] = values[i];
  Method::reset();
  return Status();
}

}  // namespace edgecore
