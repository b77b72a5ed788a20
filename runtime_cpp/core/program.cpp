#include "edgecore/program.h"

#include <string.h>

#include <new>

#include "core/checked.h"
#include "core/extended_header.h"
#include "core/load_tables.h"
#include "core/program_tables.h"
#include "edgecore/method.h"

namespace edgecore {
namespace {

constexpr size_t kSmallestFile = 16;
constexpr size_t kHeaderOffset = 8;
constexpr size_t kHeaderLength = 24;    // minimum length of an extended header
constexpr size_t kHeaderWithSize = 32;  // length of an extended header that also has the size of the segment data

// Positions of the two parts of a .pte file: the flatbuffer with the tables, then the data segments.
struct Extent {
  uint64_t program_size = 0;
  uint64_t segment_base = 0;  // position of the first data segment in the .pte file; 0: the file has no segments
  uint64_t segment_end = 0;
};

Result<Extent> read_header(DataLoader &loader, Error &error) {
  const uint64_t file_size = loader.size();
  Extent extent{file_size, 0, 0};
  uint8_t start[kHeaderOffset + kHeaderWithSize] = {};
  if (file_size >= kSmallestFile) {
    const size_t count = file_size < sizeof(start) ? static_cast<size_t>(file_size) : sizeof(start);
    EDGECORE_TRY(copy_start(loader, count, start, error));
  }
  if (memcmp(start + 4, "ET", 2) != 0) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "This is not a .pte file: ", file_size,
                " bytes without the identifier ET12 at byte 4.");
  }
  if (memcmp(start + 4, "ET12", 4) != 0) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "This .pte file has identifier '",
                StringView(reinterpret_cast<const char *>(start) + 4, 4), "'; this runtime reads ET12.");
  }
  const uint8_t *header = start + kHeaderOffset;
  // without the magic number "eh00", the file is only a flatbuffer without segments
  if (memcmp(header, "eh00", 4) != 0) return extent;

  const uint32_t length = read_u32(header + 4);
  if (length < kHeaderLength || length > file_size - kHeaderOffset) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "The extended header gives its own length as ", length,
                " bytes: the file is damaged or truncated.");
  }
  extent.program_size = read_u64(header + 8);
  extent.segment_base = read_u64(header + 16);
  extent.segment_end = extent.segment_base == 0 ? 0 : file_size;
  if (extent.program_size < kHeaderOffset + length || extent.program_size > file_size) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "The extended header gives the program ", extent.program_size,
                " bytes, the file has ", file_size, ": it is damaged or truncated.");
  }
  if (extent.segment_base != 0 && (extent.segment_base < extent.program_size || extent.segment_base > file_size)) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "The extended header puts segments at byte ", extent.segment_base,
                ", outside of what follows the program (bytes ", extent.program_size, " to ", file_size,
                "): the file is damaged or truncated.");
  }
  if (length >= kHeaderWithSize && extent.segment_base != 0) {
    const uint64_t size = read_u64(header + 24);
    if (!contains(file_size, extent.segment_base, size)) {
      return fail(error, EDGECORE_INVALID_PROGRAM, "The extended header announces ", size,
                  " bytes of segments from byte ", extent.segment_base, ", the file has ", file_size,
                  " bytes: it is damaged or truncated.");
    }
    extent.segment_end = extent.segment_base + size;
  }
  return extent;
}

Status resolve_segments(const Extent &extent, DataLoader &loader, Allocator &allocator, ProgramTables &tables,
                        Error &error) {
  const auto *segments = tables.root->segments();
  EDGECORE_TRY(tables.segments.allocate(size_of(segments), allocator, &loader, error));
  const uint64_t available = extent.segment_end - extent.segment_base;
  for (uint32_t i = 0; i < size_of(segments); ++i) {
    const fb::DataSegment &segment = *segments->Get(i);
    if (extent.segment_base == 0 && segment.size() != 0) {
      return fail(error, EDGECORE_INVALID_PROGRAM, "Segment ", i, " has ", segment.size(),
                  " bytes, but no extended header says where segments start.");
    }
    if (!contains(available, segment.offset(), segment.size())) {
      return fail(error, EDGECORE_INVALID_PROGRAM, "Segment ", i, " (", segment.size(), " bytes at offset ",
                  segment.offset(), ") exceeds the ", available,
                  " bytes of segment data: the file is damaged or truncated.");
    }
    tables.segments[i].offset = extent.segment_base + segment.offset();
    tables.segments[i].size = segment.size();
  }
  return Status();
}

Status check_named_data(const ProgramTables &tables, Error &error) {
  for (uint32_t i = 0; i < size_of(tables.root->named_data()); ++i) {
    const fb::NamedData &entry = *tables.root->named_data()->Get(i);
    if (entry.key() == nullptr || entry.segment_index() >= tables.segments.size()) {
      return fail(error, EDGECORE_INVALID_PROGRAM, "Named data ", i, " ('", view_of(entry.key()), "') is in segment ",
                  entry.segment_index(), " of ", tables.segments.size(), ".");
    }
  }
  return Status();
}

// Finds the metadata of each method by the method's name.
Status resolve_methods(const ProgramConfig &config, ProgramTables &tables, Error &error) {
  using Entry = const fb::meta::Method *;
  const auto *metas = tables.meta->methods();
  const size_t count = size_of(tables.root->execution_plan());
  // validate_program refuses a file with more methods than the limit
  if (count > config.limits.methods) return Status();
  if (size_of(metas) > count) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "The metadata has ", size_of(metas), " methods, the program ", count,
                ".");
  }
  auto *entries = static_cast<Entry *>(config.allocator->allocate(count * sizeof(Entry), alignof(Entry)));
  if (entries == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a table of ", count, " methods.");
  }
  for (uint32_t i = 0; i < count; ++i) {
    entries[i] = nullptr;
    for (uint32_t j = 0; j < size_of(metas) && entries[i] == nullptr; ++j) {
      if (view_of(metas->Get(j)->name()) == view_of(tables.root->execution_plan()->Get(i)->name())) {
        entries[i] = metas->Get(j);
      }
    }
  }
  tables.method_metas = {entries, count};
  return Status();
}

Status load_meta(DataLoader &loader, const ProgramConfig &config, ProgramTables &tables, Error &error) {
  for (uint32_t i = 0; i < size_of(tables.root->named_data()); ++i) {
    const fb::NamedData &entry = *tables.root->named_data()->Get(i);
    if (view_of(entry.key()) != kMetaKey) continue;
    const Segment &segment = tables.segments[entry.segment_index()];
    const uint64_t size = segment.size;
    if (size < 16 || size > config.limits.flatbuffer_bytes || size > kFlatbufferMax) {
      return fail(error, EDGECORE_INVALID_PROGRAM, "Named data '", kMetaKey, "' of ", size, " bytes is not metadata.");
    }
    const Result<Bytes> bytes =
        load_tables(loader, segment.offset, size, config.tables_in_place, *config.allocator, kMetaKey, error);
    EDGECORE_TRY(bytes.status());
    flatbuffers::Verifier verifier((*bytes).data(), (*bytes).size(), config.limits.nesting, config.limits.tables);
    if (!fb::meta::VerifyMetaBuffer(verifier)) {
      return fail(error, EDGECORE_INVALID_PROGRAM, "Named data '", kMetaKey, "' is damaged.");
    }
    tables.meta = fb::meta::GetMeta((*bytes).data());
    // Read only the first entry with kMetaKey: a small damaged file may have a million entries with this key.
    return resolve_methods(config, tables, error);
  }
  return Status();
}

}  // namespace

Result<const Program *> Program::load(DataLoader &loader, const ProgramConfig &config, Error &error) {
  if (config.allocator == nullptr) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "Program::load needs ProgramConfig.allocator.");
  }
  const Result<Extent> header = read_header(loader, error);
  EDGECORE_TRY(header.status());
  const Extent extent = *header;
  const uint64_t limit =
      config.limits.flatbuffer_bytes < kFlatbufferMax ? config.limits.flatbuffer_bytes : kFlatbufferMax;
  if (extent.program_size >= limit) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "The program part has ", extent.program_size,
                " bytes; the limit flatbuffer_bytes is ", limit, ".");
  }
  const Result<Bytes> bytes =
      load_tables(loader, 0, extent.program_size, config.tables_in_place, *config.allocator, "the program", error);
  EDGECORE_TRY(bytes.status());
  flatbuffers::Verifier verifier((*bytes).data(), (*bytes).size(), config.limits.nesting, config.limits.tables);
  if (!fb::VerifyProgramBuffer(verifier)) {
    return fail(error, EDGECORE_INVALID_PROGRAM, "The program's flatbuffer (", extent.program_size,
                " bytes) is damaged or truncated, or exceeds the limits nesting ", config.limits.nesting, " or tables ",
                config.limits.tables, ".");
  }

  void *tables_memory = config.allocator->allocate(sizeof(ProgramTables), alignof(ProgramTables));
  void *program_memory = config.allocator->allocate(sizeof(Program), alignof(Program));
  if (tables_memory == nullptr || program_memory == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for the Program object.");
  }
  ProgramTables *tables = new (tables_memory) ProgramTables;
  tables->root = fb::GetProgram((*bytes).data());
  // The tail is the number of readable bytes after the tables: kArenaTail if the tables were copied, loader.tail() if
  // they are used in place. With `tables_in_place`, misaligned tables were copied all the same, so use the smaller of
  // the two numbers.
  tables->tail = config.tables_in_place && loader.tail() < kArenaTail ? loader.tail() : kArenaTail;
  tables->file_size = loader.size();
  if (tables->root->version() != 0) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "The program has schema version ", tables->root->version(),
                "; this runtime reads version 0.");
  }
  EDGECORE_TRY(resolve_segments(extent, loader, *config.allocator, *tables, error));
  EDGECORE_TRY(check_named_data(*tables, error));
  EDGECORE_TRY(load_meta(loader, config, *tables, error));
  EDGECORE_TRY(validate_program(*tables, config.limits, error));
  EDGECORE_TRY(check_data_files(config.data, error));
  return new (program_memory) Program(tables, config);
}

size_t Program::method_count() const { return tables_->root->execution_plan()->size(); }

Result<size_t> Program::find_method(StringView name, Error &error) const {
  const size_t count = method_count();
  for (size_t i = 0; i < count; ++i) {
    if (method(i).name() == name) return i;
  }
  const Status status = fail(error, EDGECORE_NOT_FOUND, "The program has no method '", name, "'; it has ");
  for (size_t i = 0; i < count; ++i) {
    append(error, i == 0 ? "'" : ", '");
    append(error, method(i).name());
    append(error, "'");
  }
  append(error, ".");
  return status;
}

size_t Program::named_data_count() const { return size_of(tables_->root->named_data()); }

StringView Program::named_data_key(size_t index) const {
  return view_of(tables_->root->named_data()->Get(static_cast<uint32_t>(index))->key());
}

Result<Bytes> Program::named_data(StringView key, Error &error) const {
  for (uint32_t i = 0; i < named_data_count(); ++i) {
    const fb::NamedData &entry = *tables_->root->named_data()->Get(i);
    if (view_of(entry.key()) == key) {
      return tables_->segments.keep(entry.segment_index(), LoadUse::kNamedData, error);
    }
  }
  for (const DataFile *file : data_) {
    if (!file->contains(key)) continue;
    NamedBytes found;
    EDGECORE_TRY(file->find(key, found, error));
    return found.bytes;
  }
  return fail(error, EDGECORE_NOT_FOUND, "Neither the program nor a data file has named data '", key, "'.");
}

Status Program::external_data(StringView key, NamedBytes &data, Error &error) const {
  for (const DataFile *file : data_) {
    if (file->contains(key)) return file->find(key, data, error);
  }
  if (data_.empty()) {
    return fail(error, EDGECORE_NOT_FOUND, "the program keeps '", key,
                "' in a .ptd file, and none was loaded; pass the data file that belongs to this program.");
  }
  const Status status = fail(error, EDGECORE_NOT_FOUND, "the program keeps '", key, "' outside, and it is not in ");
  for (size_t i = 0; i < data_.size(); ++i) {
    if (i != 0) append(error, " or ");
    append(error, data_[i]->name());
  }
  append(error, "; pass the data file that belongs to this program.");
  return status;
}

bool Program::shares_state(StringView qualified_name) const {
  if (!has_meta() || tables_->meta->shared_state() == nullptr) return false;
  for (const auto *shared : *tables_->meta->shared_state()) {
    if (view_of(shared) == qualified_name) return true;
  }
  return false;
}

bool Program::shares_state() const { return has_meta() && size_of(tables_->meta->shared_state()) != 0; }

bool Program::has_meta() const { return tables_->meta != nullptr; }

StringView Program::target_runtime() const { return has_meta() ? view_of(tables_->meta->profile()) : StringView(); }

}  // namespace edgecore
