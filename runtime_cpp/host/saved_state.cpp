#include "host/saved_state.h"

#include <cstring>
#include <set>
#include <string>

#include "edgecore/scalar_type.h"

namespace edgecore {
namespace {

// Format: 8 magic bytes, a checksum of all bytes after the checksum, and the number of parts. A part is the state of
// one buffer or backend: the sizes in bytes of its line and its data, the line (a text that names the buffer or
// backend) and the data, both padded with zeros to 8 bytes. Numbers have 64 bits and are little-endian.
constexpr char kMagic[8] = {'E', 'C', 'S', 'T', 'A', 'T', 'E', '1'};
constexpr size_t kSummed = sizeof kMagic + sizeof(uint64_t);  // offset of the first byte under the checksum
constexpr size_t kHeader = kSummed + sizeof(uint64_t);

struct Part {
  std::string line;
  Bytes data;
};

// FNV-1a over words of 64 bits. It detects every change of a single word: XOR with a word, and multiplication by an odd
// number modulo 2^64, are invertible, so a different word leads to a different sum.
uint64_t checksum(const uint8_t *begin, size_t bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (size_t i = 0; i + sizeof sum <= bytes; i += sizeof sum) {
    uint64_t word;
    std::memcpy(&word, begin + i, sizeof word);
    sum = (sum ^ word) * 0x100000001b3;
  }
  return sum;
}

size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

void put(std::vector<uint8_t> &out, const void *from, size_t bytes) {
  const auto *begin = static_cast<const uint8_t *>(from);
  out.insert(out.end(), begin, begin + bytes);
  out.resize(padded(out.size()));
}

void put_number(std::vector<uint8_t> &out, uint64_t number) { put(out, &number, sizeof number); }

void write_parts(const std::vector<Part> &parts, std::vector<uint8_t> &out) {
  size_t bytes = kHeader;
  for (const Part &part : parts) bytes += 2 * sizeof(uint64_t) + padded(part.line.size()) + padded(part.data.size());
  out.clear();
  out.reserve(bytes);
  put(out, kMagic, sizeof kMagic);
  put_number(out, 0);
  put_number(out, parts.size());
  for (const Part &part : parts) {
    put_number(out, part.line.size());
    put_number(out, part.data.size());
    put(out, part.line.data(), part.line.size());
    put(out, part.data.data(), part.data.size());
  }
  const uint64_t sum = checksum(out.data() + kSummed, out.size() - kSummed);
  std::memcpy(out.data() + sizeof kMagic, &sum, sizeof sum);
}

// Reads bytes that write_parts wrote. Each member returns false if there are too few bytes.
class Reader {
 public:
  explicit Reader(Bytes bytes) : rest_(bytes) {}

  bool take(uint64_t bytes, Bytes &out) {
    if (bytes > rest_.size() || padded(static_cast<size_t>(bytes)) > rest_.size()) return false;
    out = {rest_.data(), static_cast<size_t>(bytes)};
    const size_t taken = padded(out.size());
    rest_ = {rest_.data() + taken, rest_.size() - taken};
    return true;
  }
  bool take_number(uint64_t &out) {
    Bytes bytes;
    if (!take(sizeof out, bytes)) return false;
    std::memcpy(&out, bytes.data(), sizeof out);
    return true;
  }
  bool take_part(Part &out) {
    uint64_t line = 0, data = 0;
    Bytes text;
    if (!take_number(line) || !take_number(data) || !take(line, text) || !take(data, out.data)) return false;
    out.line.assign(reinterpret_cast<const char *>(text.data()), text.size());
    return true;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  Bytes rest_;
};

Status read_parts(Bytes state, std::vector<Part> &parts, Error &error) {
  Bytes magic;
  uint64_t sum = 0, count = 0;
  Reader reader(state);
  if (!reader.take(sizeof kMagic, magic) || std::memcmp(magic.data(), kMagic, sizeof kMagic) != 0) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "These ", state.size(),
                " bytes are not a state that export_state returned.");
  }
  bool complete = state.size() % 8 == 0 && reader.take_number(sum) &&
                  sum == checksum(state.data() + kSummed, state.size() - kSummed) && reader.take_number(count);
  for (uint64_t i = 0; complete && i < count; ++i) {
    parts.emplace_back();
    complete = reader.take_part(parts.back());
  }
  if (complete && reader.at_end()) return {};
  return fail(error, EDGECORE_INVALID_ARGUMENT, "This state of ", state.size(), " bytes is damaged or incomplete.");
}

// Collects the buffers of all methods, each once: a buffer that methods share has the same address in all of them.
class Buffers final : public StateVisitor {
 public:
  struct Buffer {
    std::string line;
    MutableBytes memory;
  };

  explicit Buffers(Span<Method *const> methods) {
    for (const Method *method : methods) {
      method_ = method->info().name();
      method->visit_state(*this);
    }
  }
  const std::vector<Buffer> &all() const { return buffers_; }

 private:
  // Adds the buffer with a line such as "buffer 'cache.k' float32 [1, 8, 64] dim order [0, 1, 2] of method 'decode'",
  // unless an earlier method shares it.
  void visit(const StateBuffer &buffer) override {
    if (buffer.memory.empty() || !seen_.insert(buffer.memory.data()).second) return;
    Error line;
    (void)fail(line, EDGECORE_OK, "buffer '", buffer.name, "' ", scalar_type_info(buffer.scalar_type).name, " ",
               buffer.sizes, " dim order ", buffer.dim_order, " of method '", method_, "'");
    buffers_.push_back({std::string(line.text, line.size), buffer.memory});
  }

  StringView method_;
  std::set<const uint8_t *> seen_;
  std::vector<Buffer> buffers_;
};

StringView id_of(const LoadedBackend &backend) { return backend.table->backend_id; }

// Finds the backends whose state is exported. A backend that can reset state but not export it is an error.
Status find_stateful(Span<const LoadedBackend> backends, std::vector<const LoadedBackend *> &out, Error &error) {
  for (const LoadedBackend &backend : backends) {
    if (backend.table->export_state != nullptr) {
      out.push_back(&backend);
    } else if (backend.table->reset != nullptr) {
      return fail(error, EDGECORE_NOT_SUPPORTED, "The backend '", id_of(backend),
                  "' keeps state of this program and cannot export it.");
    }
  }
  return {};
}

std::string line_of(const LoadedBackend &backend) {
  return "backend '" + std::string(id_of(backend).data(), id_of(backend).size()) + "'";
}

Status check_line(const Part &part, const std::string &expected, Error &error) {
  if (part.line == expected) return {};
  return fail(error, EDGECORE_INVALID_ARGUMENT, "This state is of another program: it has the ",
              StringView(part.line.data(), part.line.size()), ", this program has the ",
              StringView(expected.data(), expected.size()), ".");
}

}  // namespace

Status export_state(const LoadedBackend &backend, std::vector<uint8_t> &state, Error &error) {
  const edgecore_backend *table = backend.table;
  if (table->export_state == nullptr) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The backend '", id_of(backend), "' cannot export its state.");
  }
  edgecore_memory_block block = {nullptr, 0};
  error.clear();
  EDGECORE_TRY(Status(table->export_state(backend.program, &block, &error)));
  state.resize(static_cast<size_t>(block.bytes));
  if (state.empty()) return {};
  block.data = state.data();
  return Status(table->export_state(backend.program, &block, &error));
}

Status import_state(const LoadedBackend &backend, Bytes state, Error &error) {
  const edgecore_backend *table = backend.table;
  if (table->import_state == nullptr) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The backend '", id_of(backend), "' cannot import its state.");
  }
  error.clear();
  return Status(table->import_state(backend.program, {state.data(), state.size()}, &error));
}

Status export_state(Span<Method *const> methods, Span<const LoadedBackend> backends, std::vector<uint8_t> &state,
                    Error &error) {
  std::vector<const LoadedBackend *> exporting;
  EDGECORE_TRY(find_stateful(backends, exporting, error));
  const Buffers buffers(methods);
  std::vector<Part> parts;
  for (const Buffers::Buffer &buffer : buffers.all()) parts.push_back({buffer.line, buffer.memory});
  std::vector<std::vector<uint8_t>> states(exporting.size());
  for (size_t i = 0; i < exporting.size(); ++i) {
    EDGECORE_TRY(export_state(*exporting[i], states[i], error));
    parts.push_back({line_of(*exporting[i]), {states[i].data(), states[i].size()}});
  }
  write_parts(parts, state);
  return {};
}

Status import_state(Span<Method *const> methods, Span<const LoadedBackend> backends, Bytes state, Error &error) {
  std::vector<Part> parts;
  EDGECORE_TRY(read_parts(state, parts, error));
  std::vector<const LoadedBackend *> importing;
  EDGECORE_TRY(find_stateful(backends, importing, error));
  const Buffers buffers(methods);
  const size_t buffer_count = buffers.all().size();
  if (parts.size() != buffer_count + importing.size()) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "This state is of another program: it has ", parts.size(),
                " buffers and backends, this program has ", buffer_count, " and ", importing.size(), ".");
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_buffer = i < buffer_count;
    EDGECORE_TRY(
        check_line(parts[i], is_buffer ? buffers.all()[i].line : line_of(*importing[i - buffer_count]), error));
    if (is_buffer && parts[i].data.size() != buffers.all()[i].memory.size()) {
      return fail(error, EDGECORE_INVALID_ARGUMENT, "This state is damaged: the ",
                  StringView(parts[i].line.data(), parts[i].line.size()), " has ", parts[i].data.size(), " bytes.");
    }
  }
  // If a backend refuses its state, the backends before it get their previous state back.
  std::vector<std::vector<uint8_t>> before(importing.size());
  for (size_t i = 0; i < importing.size(); ++i) {
    Status status = i + 1 < importing.size() ? export_state(*importing[i], before[i], error) : Status();
    if (status.ok()) status = import_state(*importing[i], parts[buffer_count + i].data, error);
    if (status.ok()) continue;
    while (i-- > 0) {
      Error ignored;
      (void)import_state(*importing[i], {before[i].data(), before[i].size()}, ignored);
    }
    return status;
  }
  for (size_t i = 0; i < buffer_count; ++i) {
    const MutableBytes memory = buffers.all()[i].memory;
    if (!memory.empty()) std::memcpy(memory.data(), parts[i].data.data(), memory.size());
  }
  return {};
}

}  // namespace edgecore
