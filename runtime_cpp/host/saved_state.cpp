#include "host/saved_state.h"

#include <cstring>
#include <map>
#include <set>
#include <string>

#include "edgecore/scalar_type.h"
#include "host/state_parts.h"

namespace edgecore {
namespace {

// A mutable buffer of the session. Either the runtime keeps it (`core`), or a backend keeps it in a state set (`set`).
struct Buffer {
  std::string line;  // description of the buffer in the saved state, for example "buffer 'cache.k' float32 [1, 8, 64]"
  size_t bytes;
  StateBuffer core;  // the mutable buffer, if the runtime keeps it; unused if a backend keeps it
  StateSet *set = nullptr;
  uint64_t index = 0;  // index of the buffer in the backend's state set
};

// Returns the line that identifies a buffer in a saved state. `method` is empty if all methods share the buffer.
template <typename Size>
std::string describe(StringView name, int32_t scalar_type, Span<const Size> sizes, StringView method) {
  Error text;
  (void)fail(text, EDGECORE_OK, "buffer '", name, "' ", scalar_type_info(scalar_type).name, " ", sizes,
             method.empty() ? "" : " of method '", method, method.empty() ? "" : "'");
  return {text.text, text.size};
}

// Collects the mutable buffers of all methods. A buffer that several methods share has the same address in these
// methods, and is collected once.
class Collector final : public StateVisitor {
 public:
  Collector(Span<Method *const> methods, std::vector<Buffer> &buffers) : buffers_(buffers) {
    for (const Method *method : methods) {
      method_ = method->info().name();
      method->visit_state(*this);
    }
  }

 private:
  void visit(const StateBuffer &buffer) override {
    if (buffer.memory.empty() || !seen_.insert(buffer.memory.data()).second) return;
    const StringView method = buffer.shared ? StringView() : method_;
    buffers_.push_back({describe(buffer.name, buffer.scalar_type, buffer.sizes, method), buffer.memory.size(), buffer});
  }

  std::vector<Buffer> &buffers_;
  StringView method_;
  std::set<const uint8_t *> seen_;
};

// Returns true if the size that a backend states for a tensor agrees with the tensor's dtype and shape.
bool is_consistent(const edgecore_state_tensor &tensor) {
  uint64_t bytes = scalar_type_info(tensor.scalar_type).size;
  if (bytes == 0 || tensor.ndim < 0 || (tensor.ndim != 0 && tensor.shape == nullptr)) return false;
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    if (tensor.shape[d] < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.shape[d]), &bytes)) {
      return false;
    }
  }
  return bytes == tensor.bytes && bytes <= SIZE_MAX / 2;
}

Status collect(Span<Method *const> methods, const StateStore &store, std::vector<Buffer> &buffers, Error &error) {
  const Collector collector(methods, buffers);
  for (StateSet *set = store.first_state_set(); set != nullptr; set = set->next) {
    const uint64_t count = set->backend.table->state_count(set->handle);
    for (uint64_t i = 0; i < count; ++i) {
      edgecore_state_tensor tensor = {};
      tensor.header = header_of<edgecore_state_tensor>();
      set->backend.table->state_describe(set->handle, i, &tensor);
      if (!is_consistent(tensor)) {
        return fail(error, EDGECORE_INTERNAL, "The backend '", set->backend.table->backend_id, "' describes tensor ", i,
                    " of its state, '", tensor.name, "', with a dtype, shape and size that do not belong together.");
      }
      if (tensor.bytes == 0) continue;
      const Span<const int64_t> shape(tensor.shape, static_cast<size_t>(tensor.ndim));
      buffers.push_back({describe(StringView(tensor.name), tensor.scalar_type, shape, set->method),
                         static_cast<size_t>(tensor.bytes),
                         {},
                         set,
                         i});
    }
  }
  return {};
}

// Calls copy(offset in memory, offset in row-major order, bytes) for each element of a buffer, or once for all bytes if
// the buffer is row-major in memory.
template <typename Copy>
void for_each_element(const StateBuffer &buffer, const Copy &copy) {
  const size_t rank = buffer.sizes.size();
  bool same = true;
  for (size_t d = 0; d < rank; ++d) same = same && buffer.dim_order[d] == d;
  if (same) return copy(0, 0, buffer.memory.size());
  const size_t item = scalar_type_info(buffer.scalar_type).size;
  std::vector<size_t> strides(rank), index(rank);
  size_t next = item;
  for (size_t i = rank; i-- > 0; next *= static_cast<size_t>(buffer.sizes[buffer.dim_order[i]])) {
    strides[buffer.dim_order[i]] = next;
  }
  for (size_t at = 0; at < buffer.memory.size(); at += item) {
    size_t offset = 0;
    for (size_t d = 0; d < rank; ++d) offset += index[d] * strides[d];
    copy(offset, at, item);
    for (size_t d = rank; d-- > 0 && ++index[d] == static_cast<size_t>(buffer.sizes[d]);) index[d] = 0;
  }
}

Status export_buffer(const Buffer &buffer, uint8_t *out, Error &error) {
  if (buffer.set != nullptr) {
    error.clear();
    return Status(
        buffer.set->backend.table->export_state(buffer.set->handle, buffer.index, {out, buffer.bytes}, &error));
  }
  EDGECORE_TRY(buffer.core.device->fetch(buffer.core.memory.data(), buffer.bytes, error));
  for_each_element(buffer.core, [&](size_t in_memory, size_t in_order, size_t bytes) {
    std::memcpy(out + in_order, buffer.core.memory.data() + in_memory, bytes);
  });
  return {};
}

Status import_buffer(const Buffer &buffer, Bytes in, Error &error) {
  if (buffer.set != nullptr) {
    error.clear();
    return Status(
        buffer.set->backend.table->import_state(buffer.set->handle, buffer.index, {in.data(), in.size()}, &error));
  }
  for_each_element(buffer.core, [&](size_t in_memory, size_t in_order, size_t bytes) {
    std::memcpy(buffer.core.memory.data() + in_memory, in.data() + in_order, bytes);
  });
  buffer.core.device->host_has_changed();
  return {};
}

// Reports buffers without a counterpart: `buffer` is a buffer of the program that the saved state lacks, `part` is a
// part of the saved state that the program lacks. NULL stands for none. Fails unless both are NULL.
Status check_rest(const Buffer *buffer, const StatePart *part, Error &error) {
  const auto text = [](const std::string &line) { return StringView(line.data(), line.size()); };
  if (buffer == nullptr && part == nullptr) return {};
  (void)fail(error, EDGECORE_INVALID_ARGUMENT, "This state is of another program: ");
  if (part != nullptr) (void)extend(error, "it has the ", text(part->line), ", this program has ");
  if (part != nullptr && buffer != nullptr) return extend(error, "the ", text(buffer->line), ".");
  if (part != nullptr) return extend(error, "no such buffer.");
  return extend(error, "it lacks the ", text(buffer->line), ".");
}

// For each buffer, finds the saved part that has the same line. Buffers without a name may have equal lines; such
// buffers are matched with such parts in their order.
Status match(const std::vector<Buffer> &buffers, const std::vector<StatePart> &parts,
             std::vector<const StatePart *> &part_of, Error &error) {
  std::multimap<std::string, const StatePart *> unused;
  for (const StatePart &part : parts) unused.emplace(part.line, &part);
  const Buffer *missing = nullptr;
  for (const Buffer &buffer : buffers) {
    const auto found = unused.lower_bound(buffer.line);
    const bool is_there = found != unused.end() && found->first == buffer.line;
    part_of.push_back(is_there ? found->second : nullptr);
    if (is_there) unused.erase(found);
    if (!is_there && missing == nullptr) missing = &buffer;
  }
  const StatePart *foreign = nullptr;
  for (const auto &[line, part] : unused) {
    if (foreign == nullptr || part < foreign) foreign = part;
  }
  return check_rest(missing, foreign, error);
}

}  // namespace

Status export_state(Span<Method *const> methods, const StateStore &store, std::vector<uint8_t> &state, Error &error) {
  for (const StateSet *set = store.first_state_set(); set != nullptr; set = set->next) EDGECORE_TRY(set->check(error));
  std::vector<Buffer> buffers;
  EDGECORE_TRY(collect(methods, store, buffers, error));
  size_t bytes = StateWriter::header_bytes();
  for (const Buffer &buffer : buffers) bytes += StateWriter::part_bytes(buffer.line, buffer.bytes);
  state.clear();
  state.reserve(bytes);
  StateWriter writer(state);
  for (const Buffer &buffer : buffers) {
    EDGECORE_TRY(export_buffer(buffer, writer.add(buffer.line, buffer.bytes), error));
  }
  writer.finish();
  return {};
}

Status import_state(Span<Method *const> methods, const StateStore &store, Bytes state, Error &error) {
  std::vector<StatePart> parts;
  EDGECORE_TRY(read_parts(state, parts, error));
  std::vector<Buffer> buffers;
  EDGECORE_TRY(collect(methods, store, buffers, error));
  std::vector<const StatePart *> part_of;
  EDGECORE_TRY(match(buffers, parts, part_of, error));
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (part_of[i]->data.size() == buffers[i].bytes) continue;
    return fail(error, EDGECORE_INVALID_ARGUMENT, "This state is damaged: the ",
                StringView(buffers[i].line.data(), buffers[i].line.size()), " has ", part_of[i]->data.size(),
                " bytes.");
  }
  for (StateSet *set = store.first_state_set(); set != nullptr; set = set->next) set->interrupted = true;
  // import the buffers of backends first: if this fails, the runtime's buffers are still unchanged
  for (const bool in_sets : {true, false}) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if ((buffers[i].set != nullptr) == in_sets) EDGECORE_TRY(import_buffer(buffers[i], part_of[i]->data, error));
    }
  }
  for (StateSet *set = store.first_state_set(); set != nullptr; set = set->next) set->interrupted = false;
  return {};
}

}  // namespace edgecore
