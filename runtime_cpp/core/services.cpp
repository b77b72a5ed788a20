// Implements edgecore_host, the functions that backends and kernels may call, without an operating system: errors,
// scratch memory, named data, resizing of outputs, trace events, and loops (all iterations run on the calling thread).
#include <string.h>

#include "core/method_impl.h"
#include "core/platform.h"
#include "edgecore/host.h"

namespace edgecore {
namespace {

int32_t EDGECORE_CALL service_fail(edgecore_error *error, int32_t code, edgecore_str text) {
  if (error != nullptr) (void)fail(*error, code, StringView(text));
  return code;
}

void EDGECORE_CALL service_log(edgecore_scope *, int32_t level, edgecore_str text) { edgecore_log(level, text); }

void *EDGECORE_CALL service_allocate(edgecore_scope *, uint64_t size, uint64_t alignment) {
  return platform_allocate(size, alignment);
}

void EDGECORE_CALL service_deallocate(edgecore_scope *, void *data, uint64_t, uint64_t) { platform_free(data); }

void *EDGECORE_CALL service_scratch(edgecore_scope *scope, uint64_t size, uint64_t alignment) {
  ScratchAllocator *scratch = MethodImpl::of(scope->method).config.scratch;
  if (scratch == nullptr || size > SIZE_MAX || alignment > SIZE_MAX) return nullptr;
  return scratch->allocate(static_cast<size_t>(size), alignment == 0 ? 1 : static_cast<size_t>(alignment));
}

void EDGECORE_CALL service_parallel_for(edgecore_scope *, uint64_t n, uint64_t, edgecore_loop_fn fn, void *arg,
                                        uint32_t) {
  if (n != 0) fn(arg, 0, n, 0);
}

uint32_t EDGECORE_CALL service_worker_count(edgecore_scope *) { return 1; }
uint32_t EDGECORE_CALL service_worker_index(edgecore_scope *) { return 0; }
int32_t EDGECORE_CALL service_is_worker(edgecore_scope *) { return 0; }

int32_t EDGECORE_CALL service_named_data(edgecore_scope *scope, edgecore_str key, edgecore_bytes *out,
                                         edgecore_error *error) {
  Error ignored;
  Error &reason = error == nullptr ? ignored : *error;
  const Result<Bytes> data = scope->program->named_data(StringView(key), reason);
  if (data.ok()) *out = {(*data).data(), (*data).size()};
  return data.status().code();
}

// Returns true if `tensor` is passed as two or more arguments of the current kernel or delegate call.
bool is_repeated(const MethodImpl &method, const edgecore_tensor *tensor) {
  size_t count = 0;
  for (size_t i = 0; i < method.run_state.arg_count; ++i) {
    const edgecore_value &arg = method.run_state.args[i];
    if (arg.tag == EDGECORE_TAG_TENSOR) count += arg.as.tensor == tensor;
    for (uint64_t j = 0; arg.tag == EDGECORE_TAG_TENSOR_LIST && j < arg.as.list->count; ++j) {
      count += arg.as.list->items.tensors[j] == tensor;
    }
  }
  return count > 1;
}

// Records that `tensor` is an output of the delegate whose prepare is running, because that prepare sets its shape.
void mark_written(const MethodImpl &method, const edgecore_tensor *tensor) {
  const bool repeated = is_repeated(method, tensor);
  for (size_t i = 0; i < method.run_state.arg_count; ++i) {
    const edgecore_value &arg = method.run_state.args[i];
    if (arg.tag != EDGECORE_TAG_TENSOR || arg.as.tensor != tensor) continue;
    method.run_state.preparing[i].written = true;
    method.run_state.preparing[i].repeated = repeated;
  }
}

int32_t EDGECORE_CALL service_resize(edgecore_scope *scope, edgecore_tensor *tensor, const int64_t *shape, int32_t ndim,
                                     edgecore_error *error) {
  const Span<const int64_t> current = shape_of(*tensor);
  const Span<const int64_t> wanted(shape, ndim < 0 ? 0 : static_cast<size_t>(ndim));
  if (scope != nullptr && scope->method != nullptr && MethodImpl::of(scope->method).run_state.preparing != nullptr) {
    mark_written(MethodImpl::of(scope->method), tensor);
  }
  const bool read_only = (tensor->flags & EDGECORE_TENSOR_READ_ONLY) != 0;
  bool same = ndim == tensor->dl.ndim;
  for (size_t i = 0; same && i < wanted.size(); ++i) same = wanted[i] == current[i];
  if (same && !read_only) return EDGECORE_OK;

  Error ignored;
  Error &reason = error == nullptr ? ignored : *error;
  if (read_only) {
    return fail(reason, EDGECORE_INVALID_ARGUMENT, "an output of shape ", current,
                " is a constant or a read-only input, which may not be written")
        .code();
  }
  const Span<const int64_t> max_shape(tensor->max_shape, current.size());
  if (ndim != tensor->dl.ndim || (tensor->flags & EDGECORE_TENSOR_RESIZABLE) == 0) {
    return fail(reason, EDGECORE_NOT_SUPPORTED, "an output of fixed shape ", current, " cannot have shape ", wanted)
        .code();
  }
  // Refuse a new shape of a tensor that is also an input of the call: the kernel may have read the old shape already.
  if (scope != nullptr && scope->method != nullptr && is_repeated(MethodImpl::of(scope->method), tensor)) {
    return fail(reason, EDGECORE_NOT_SUPPORTED, "an output of shape ", current,
                " is another argument as well and cannot have shape ", wanted)
        .code();
  }
  uint64_t bytes = static_cast<uint64_t>(tensor->dl.dtype.bits) / 8;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < 0 || wanted[i] > max_shape[i]) {
      return fail(reason, EDGECORE_NOT_SUPPORTED, "an output of maximum shape ", max_shape, " cannot have shape ",
                  wanted)
          .code();
    }
    // cannot overflow: no size exceeds the maximum shape, whose product was checked when the program was loaded
    bytes *= static_cast<uint64_t>(wanted[i]);
  }
  if (bytes > tensor->capacity) {
    return fail(reason, EDGECORE_NOT_SUPPORTED, "an output of shape ", wanted, " needs ", bytes,
                " bytes, its memory has ", tensor->capacity)
        .code();
  }
  if (!wanted.empty()) memcpy(tensor->dl.shape, shape, wanted.size() * sizeof(int64_t));
  update_strides(*tensor);
  return EDGECORE_OK;
}

uint64_t EDGECORE_CALL service_event_begin(edgecore_scope *scope, edgecore_str name, int64_t debug_id) {
  if (scope->method == nullptr) return 0;
  EventTracer *tracer = MethodImpl::of(scope->method).config.tracer;
  return tracer == nullptr ? 0 : tracer->begin(EventKind::kBackend, StringView(name), 0, debug_id);
}

void EDGECORE_CALL service_event_end(edgecore_scope *scope, uint64_t event) {
  if (scope->method == nullptr) return;
  EventTracer *tracer = MethodImpl::of(scope->method).config.tracer;
  if (tracer != nullptr) tracer->end(event);
}

void EDGECORE_CALL service_event_add(edgecore_scope *scope, edgecore_str name, int64_t debug_id, uint64_t begin,
                                     uint64_t end) {
  if (scope->method == nullptr) return;
  EventTracer *tracer = MethodImpl::of(scope->method).config.tracer;
  if (tracer != nullptr) tracer->add(StringView(name), debug_id, begin, end);
}

void EDGECORE_CALL service_event_value(edgecore_scope *scope, edgecore_str name, int64_t debug_id,
                                       const edgecore_tensor *value) {
  if (scope->method == nullptr) return;
  const MethodImpl &method = MethodImpl::of(scope->method);
  if (method.config.values == nullptr) return;
  for (size_t i = 0; i < method.delegates.slots.size(); ++i) {
    if (&method.delegates.slots[i].scope == scope) method.config.values->value(i, StringView(name), debug_id, *value);
  }
}

void EDGECORE_CALL service_progress(edgecore_scope *, edgecore_str, uint64_t, uint64_t) {}

}  // namespace

edgecore_host core_services() {
  edgecore_host host;
  memset(&host, 0, sizeof(host));
  host.header = header_of<edgecore_host>();
  host.fail = service_fail;
  host.log = service_log;
  if (platform_has_heap()) {
    host.allocate = service_allocate;
    host.deallocate = service_deallocate;
  }
  host.scratch = service_scratch;
  host.parallel_for = service_parallel_for;
  host.worker_count = service_worker_count;
  host.worker_index = service_worker_index;
  host.is_worker = service_is_worker;
  host.named_data = service_named_data;
  host.resize = service_resize;
  host.event_begin = service_event_begin;
  host.event_end = service_event_end;
  host.event_add = service_event_add;
  host.event_value = service_event_value;
  host.progress = service_progress;
  return host;
}

}  // namespace edgecore
