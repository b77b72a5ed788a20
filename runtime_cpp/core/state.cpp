#include "edgecore/state.h"

#include <string.h>

#include <new>

#include "core/method_impl.h"
#include "edgecore/scalar_type.h"

namespace edgecore {
namespace {

void fill(StateStore::Buffer &buffer) {
  buffer.device.host_has_changed();
  if (buffer.bytes == 0) return;
  if (buffer.initial == nullptr) {
    memset(buffer.data, 0, static_cast<size_t>(buffer.bytes));
  } else {
    memcpy(buffer.data, buffer.initial, static_cast<size_t>(buffer.bytes));
  }
}

}  // namespace

Result<StateStore::Buffer *> StateStore::share(const Buffer &wanted, Error &error) {
  for (Buffer *buffer = first_; buffer != nullptr; buffer = buffer->next) {
    if (!(buffer->name == wanted.name)) continue;
    if (buffer->memory_id != wanted.memory_id || buffer->offset != wanted.offset) continue;
    if (buffer->scalar_type == wanted.scalar_type && same_items(buffer->sizes, wanted.sizes) &&
        same_items(buffer->dim_order, wanted.dim_order)) {
      return buffer;
    }
    return fail(error, EDGECORE_INVALID_PROGRAM, "Methods '", buffer->method, "' and '", wanted.method,
                "' share the state '", wanted.name, "', which is ", scalar_type_info(buffer->scalar_type).name, " ",
                buffer->sizes, " in the one and ", scalar_type_info(wanted.scalar_type).name, " ", wanted.sizes,
                " in the other, or has another dim order.");
  }
  void *memory = allocator_->allocate(sizeof(Buffer), alignof(Buffer));
  void *data = wanted.bytes > SIZE_MAX - kArenaTail
                   ? nullptr
                   : allocator_->allocate(static_cast<size_t>(wanted.bytes) + kArenaTail, kArenaAlignment);
  if (memory == nullptr || data == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for the ", wanted.bytes, " bytes of state '",
                wanted.name, "'.");
  }
  Buffer *buffer = new (memory) Buffer(wanted);
  buffer->data = static_cast<uint8_t *>(data);
  memset(buffer->data + wanted.bytes, 0, kArenaTail);
  fill(*buffer);
  buffer->next = first_;
  first_ = buffer;
  return buffer;
}

Result<StateSet *> StateStore::state_set(const LoadedBackend &backend, const Program *program, StringView method,
                                         Error &error) {
  for (StateSet *set = first_set_; set != nullptr; set = set->next) {
    if (set->backend.program == backend.program && set->method == method) return set;
  }
  void *memory = allocator_->allocate(sizeof(StateSet), alignof(StateSet));
  if (memory == nullptr) return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a state set.");
  StateSet *set = new (memory) StateSet;
  set->backend = backend;
  set->method = method;
  set->scope = {program, nullptr, context_};
  const edgecore_state_set_info info = {header_of<edgecore_state_set_info>(), &set->scope};
  EDGECORE_TRY(Status(backend.table->state_set_create(backend.program, &info, &set->handle, &error)));
  set->next = first_set_;
  first_set_ = set;
  return set;
}

StateStore::~StateStore() {
  for (const StateSet *set = first_set_; set != nullptr; set = set->next) {
    set->backend.table->state_set_destroy(set->handle);
  }
  device_buffers_.destroy();
}

Status StateStore::reset(Error &error) {
  for (Buffer *buffer = first_; buffer != nullptr; buffer = buffer->next) fill(*buffer);
  for (StateSet *set = first_set_; set != nullptr; set = set->next) set->interrupted = true;
  for (StateSet *set = first_set_; set != nullptr; set = set->next) {
    error.clear();
    EDGECORE_TRY(Status(set->backend.table->reset(set->handle, &error)));
    set->interrupted = false;
  }
  return Status();
}

Status StateSet::check(Error &error) const {
  if (!interrupted || backend.table->state_count(handle) == 0) return Status();
  return fail(error, EDGECORE_INVALID_STATE, "The state that the backend '", backend.table->backend_id,
              "' keeps is undefined, because a run has failed or has not ended: reset or import it first.");
}

void Method::visit_state(StateVisitor &visitor) const {
  const MethodImpl &method = MethodImpl::of(this);
  for (uint32_t i = 0; i < method.bindings.tensor_of.size(); ++i) {
    const TensorSlot *slot = method.bindings.tensor_of[i];
    if (slot == nullptr || slot->state == nullptr) continue;
    const fb::Tensor &tensor = *method.plan->values()->Get(i)->val_as_Tensor();
    StateBuffer buffer;
    if (tensor.extra_tensor_info() != nullptr) {
      buffer.name = view_of(tensor.extra_tensor_info()->fully_qualified_name());
    }
    buffer.scalar_type = slot->tensor.scalar_type;
    buffer.sizes = span_of(tensor.sizes());
    buffer.dim_order = span_of(tensor.dim_order());
    buffer.shared = slot->state->shared != nullptr;
    buffer.device = &slot->state->device();
    buffer.memory = {static_cast<uint8_t *>(slot->state->data), static_cast<size_t>(tensor_bytes(tensor))};
    visitor.visit(buffer);
  }
}

}  // namespace edgecore
