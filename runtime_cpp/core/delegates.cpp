// Loads a method's delegates through the C interface of backends (backend.h), and destroys them.
#include <string.h>

#include "core/checked.h"
#include "core/method_impl.h"
#include "core/sha256.h"
#include "edgecore/log.h"

namespace edgecore {
namespace {

const LoadedBackend *find_backend(Span<const LoadedBackend> backends, StringView id) {
  for (const LoadedBackend &backend : backends) {
    if (StringView(backend.table->backend_id) == id) return &backend;
  }
  return nullptr;
}

void release(const MethodImpl &method, DelegateState &state) {
  method.owner->tables().segments.release(state.blob);
  state.blob = Bytes();
}

void EDGECORE_CALL release_blob(edgecore_scope *scope) {
  MethodImpl &method = MethodImpl::of(scope->method);
  for (DelegateState &state : method.delegates.slots) {
    if (&state.scope == scope) release(method, state);
  }
}

// Loads the blob of a delegate. A blob in the flatbuffer is part of the tables, which are loaded already.
Result<Bytes> load_blob(const MethodImpl &method, size_t index, DelegateState &state, Error &error) {
  const fb::BackendDelegateDataReference &place =
      *method.plan->delegates()->Get(static_cast<uint32_t>(index))->processed();
  const ProgramTables &tables = method.owner->tables();
  if (place.location() != fb::DataLocation::SEGMENT) {
    return span_of(tables.root->backend_delegate_data()->Get(place.index())->data());
  }
  const Result<Bytes> loaded = tables.segments.borrow(place.index(), LoadUse::kDelegate, error);
  state.blob = *loaded;  // the blob is empty if loading failed
  return loaded;
}

bool digest_matches(const DelegateInfo &info, Bytes blob) {
  if (!info.has_meta || info.sha256.size() != 32) return false;
  uint8_t digest[32];
  sha256(blob, digest);
  return memcmp(digest, info.sha256.data(), sizeof(digest)) == 0;
}

Status check_trust(const MethodImpl &method, const DelegateInfo &info, Bytes blob, uint32_t flags, size_t index,
                   Error &error) {
  if ((flags & EDGECORE_NEEDS_TRUSTED_BLOBS) == 0 || method.config.trust || digest_matches(info, blob)) return Status();
  return fail(error, EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "Method '", method.name, "': the blob of delegate ",
              index, " for backend '", info.backend_id, "' ",
              info.has_meta ? "does not match the SHA-256 in the file's metadata"
                            : "has no SHA-256, because the file carries no edgecore metadata",
              ", and this backend cannot validate blobs; load with trust only files that you trust.");
}

}  // namespace

Status MethodImpl::load_delegates(Error &error) {
  EDGECORE_TRY(make_array(owner->method(index).delegate_count(), delegates.slots, error));
  for (size_t i = 0; i < delegates.slots.size(); ++i) EDGECORE_TRY(load_delegate(i, error));
  for (size_t pc = 0; pc < instructions.size(); ++pc) {
    Instruction &instruction = instructions[pc];
    if (instruction.op != Op::kDelegate) continue;
    const DelegateState &state = delegates.slots[instruction.target];
    const uint64_t expected = state.backend->table->argument_count(state.delegate);
    if (expected != instruction.args.size()) {
      return fail(error, EDGECORE_INVALID_PROGRAM, "Method '", name, "', instruction ", pc, ": delegate ",
                  instruction.target, " of backend '", StringView(state.backend->table->backend_id), "' takes ",
                  expected, " arguments, the call passes ", instruction.args.size(), ".");
    }
    Span<DelegateCall> call;
    Span<Staging> staging;
    EDGECORE_TRY(make_array(1, call, error));
    EDGECORE_TRY(make_array(instruction.args.size(), staging, error));
    call[0].staging = staging.data();
    size_t sizes = 0;
    for (size_t i = 0; i < staging.size(); ++i) {
      const size_t value = static_cast<size_t>(instruction.args[i]);
      if (bindings.list_of[value] != nullptr) {
        return fail(error, EDGECORE_INVALID_PROGRAM, "Method '", name, "', instruction ", pc, ": argument ", i,
                    " of delegate ", instruction.target, " is ", tag_name(bindings.values[value].tag),
                    "; delegates support tensors and numbers.");
      }
      const TensorSlot *tensor = bindings.tensor_of[value];
      sizes += tensor == nullptr ? 1 : static_cast<size_t>(tensor->tensor.dl.ndim);
      edgecore_buffer_requirement &requirement = staging[i].requirement;
      requirement.header = header_of<edgecore_buffer_requirement>();
      requirement.alignment = 16;
      requirement.granule = 1;
      if (state.backend->table->buffer_requirement != nullptr) {
        state.backend->table->buffer_requirement(state.delegate, i, &requirement);
      }
      const bool no_device = requirement.memory_kind != 0 && config.devices == nullptr;
      if (!is_power_of_two(requirement.alignment) || requirement.granule == 0 || no_device ||
          requirement.tail_padding > (1u << 20) || requirement.alignment > (1u << 20) ||
          requirement.granule > (1u << 20)) {
        return fail(error, EDGECORE_NOT_SUPPORTED, "Method '", name, "', instruction ", pc, ": backend '",
                    StringView(state.backend->table->backend_id), "' asks argument ", i, " to have alignment ",
                    requirement.alignment, ", granule ", requirement.granule, ", tail padding ",
                    requirement.tail_padding, " and memory kind ", requirement.memory_kind, "; this runtime gives ",
                    no_device ? "only host memory" : "memory", ", with powers of two up to 1 MiB.");
      }
      if (requirement.memory_kind != 0) EDGECORE_TRY(config.devices->check(*this, *state.backend->table, error));
    }
    Span<int64_t> shapes;
    Span<uint32_t> flags;
    EDGECORE_TRY(make_array(sizes, shapes, error));
    EDGECORE_TRY(make_array(instruction.args.size(), flags, error));
    call[0].shapes = shapes.data();
    call[0].flags = flags.data();
    instruction.call = call.data();
  }
  return prepare_at_max_shapes(error);
}

Status MethodImpl::load_delegate(size_t delegate_index, Error &error) {
  const DelegateInfo info = owner->method(index).delegate(delegate_index);
  DelegateState &state = delegates.slots[delegate_index];
  state.scope = {owner, this, config.context};
  state.backend = find_backend(config.backends, info.backend_id);
  if (state.backend == nullptr) {
    return fail(error, EDGECORE_NOT_FOUND, "Method '", name, "' needs backend '", info.backend_id,
                "', which is not loaded", info.distribution.empty() ? "" : "; the file was made with package ",
                info.distribution, ".");
  }
  const edgecore_backend &table = *state.backend->table;
  call_error.clear();
  if (!info.compatibility.empty() && table.check_compatibility != nullptr) {
    const int32_t answer = table.check_compatibility(state.backend->driver, info.compatibility.c(), &call_error);
    if (answer != EDGECORE_COMPATIBLE && answer != EDGECORE_COMPATIBLE_RECOMPILE) {
      return fail(error, EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "Method '", name, "': delegate ", delegate_index,
                  ", compiled for '", info.compatibility, "', does not run on backend '", info.backend_id,
                  "': ", call_error.sentence());
    }
    if (EDGECORE_LOG_WARNING >= EDGECORE_LOG_LEVEL && answer == EDGECORE_COMPATIBLE_RECOMPILE) {
      (void)fail(error, EDGECORE_OK, "Method '", name, "': delegate ", delegate_index, ", compiled for '",
                 info.compatibility, "', works on backend '", info.backend_id,
                 "', and would do better if the model were compiled again", call_error.sentence().empty() ? "." : ": ",
                 call_error.sentence());
      host.log(&state.scope, EDGECORE_LOG_WARNING, error.sentence().c());
      error.clear();
    }
  }

  const Result<Bytes> blob = load_blob(*this, delegate_index, state, error);
  EDGECORE_TRY(blob.status());
  EDGECORE_TRY(check_trust(*this, info, *blob, table.flags, delegate_index, error));
  const auto *specs = plan->delegates()->Get(static_cast<uint32_t>(delegate_index))->compile_specs();
  Span<edgecore_compile_spec> compile_specs;
  EDGECORE_TRY(make_array(size_of(specs), compile_specs, error));
  for (uint32_t i = 0; i < compile_specs.size(); ++i) {
    const Bytes value = span_of(specs->Get(i)->value());
    compile_specs[i] = {view_of(specs->Get(i)->key()).c(), {value.data(), value.size()}};
  }
  edgecore_delegate_info load;
  memset(&load, 0, sizeof(load));
  load.header = header_of<edgecore_delegate_info>();
  load.scope = &state.scope;
  load.method = name.c();
  load.delegate_index = delegate_index;
  load.blob = {(*blob).data(), (*blob).size()};
  load.release_blob = release_blob;
  load.compile_specs = compile_specs.data();
  load.compile_spec_count = compile_specs.size();
  load.compile_spec_stride = sizeof(edgecore_compile_spec);
  load.compatibility = info.compatibility.c();
  int32_t code = table.delegate_load(state.backend->program, &load, &state.delegate, &call_error);
  if (code == EDGECORE_OK) {
    delegates.loaded = delegate_index + 1;
    if (table.state_set_create != nullptr && config.state != nullptr) {
      const Result<StateSet *> set =
          config.state->state_set(*state.backend, owner, shares_sets() ? StringView() : name, call_error);
      state.state_set = *set;
      code = set.status().code();
    }
  }
  if (code == EDGECORE_OK) {
    edgecore_instance_info instance;
    memset(&instance, 0, sizeof(instance));
    instance.header = header_of<edgecore_instance_info>();
    instance.scope = &state.scope;
    if (config.tracer != nullptr) instance.flags |= EDGECORE_INSTANCE_PROFILED;
    if (config.values != nullptr && config.operation_values) instance.flags |= EDGECORE_INSTANCE_VALUES;
    if (state.state_set != nullptr) instance.state_set = state.state_set->handle;
    code = table.instance_create(state.delegate, &instance, &state.instance, &call_error);
    if (code == EDGECORE_OK) return Status();
    state.instance = nullptr;
  }
  return fail(error, code, "Method '", name, "': backend '", info.backend_id, "' refuses delegate ", delegate_index,
              " (", info.blob_bytes, " bytes): ", call_error.sentence());
}

bool MethodImpl::shares_sets() const {
  return config.sharing == StateSharing::kAll || (config.sharing == StateSharing::kAsFile && owner->shares_state());
}

void MethodImpl::destroy_delegates() {
  for (; delegates.loaded > 0; --delegates.loaded) {
    DelegateState &state = delegates.slots[delegates.loaded - 1];
    if (state.instance != nullptr) state.backend->table->instance_destroy(state.instance);
    state.backend->table->delegate_destroy(state.delegate);
  }
  // also releases a delegate whose loading failed halfway
  for (DelegateState &state : delegates.slots) release(*this, state);
  if (config.devices != nullptr) config.devices->destroy(*this);
}

}  // namespace edgecore
