// Splits files that the core reads (.pte, .ptd, .bpte) into header, flatbuffer and data, and joins the parts again.
#include <string.h>

#include <algorithm>

#include "bundled_program_bfbs_generated.h"
#include "flat_tensor_bfbs_generated.h"
#include "meta_bfbs_generated.h"
#include "mutate_file.h"
#include "program_bfbs_generated.h"

namespace edgecore::fuzz {
namespace {

constexpr size_t kHeaderAt = 8;
constexpr size_t kMaxHeader = 64;
constexpr size_t kSegmentAlignment = 128;
constexpr size_t kProgramGrowth = 512;  // bytes that one mutation may add to the program inside a .bpte file
constexpr char kMetaKey[] = "edgecore.meta.v1";

template <typename Binary>
const Schema &schema() {
  static const Schema loaded(Binary::data());
  return loaded;
}

bool has(const File &file, size_t at, const char *text) {
  return file.size() >= at + strlen(text) && memcmp(file.data() + at, text, strlen(text)) == 0;
}

// Splits a file into three parts: `header` bytes after the identifier, the flatbuffer up to `flat_end`, and the data
// from `base` on.
void cut(const File &file, size_t header, size_t flat_end, size_t base, Parts &parts) {
  const auto at = [&](size_t byte) { return file.begin() + static_cast<ptrdiff_t>(byte); };
  parts.header.assign(at(kHeaderAt), at(kHeaderAt + header));
  parts.flat.assign(at(0), at(flat_end));
  parts.rest.assign(at(base), file.end());
}

bool split_pte(const File &file, Parts &parts) {
  if (!has(file, kHeaderAt, "eh00") || file.size() < kHeaderAt + 32) {
    parts.flat = file;
    return true;
  }
  const uint32_t length = read_number<uint32_t>(file, kHeaderAt + 4);
  const uint64_t end = read_number<uint64_t>(file, kHeaderAt + 8);
  uint64_t base = read_number<uint64_t>(file, kHeaderAt + 16);
  if (base == 0) base = file.size();
  if (length < 32 || length > kMaxHeader || end < kHeaderAt + length || end > base || base > file.size()) return false;
  cut(file, length, end, base, parts);
  return true;
}

// Appends the data `rest` to the file, at a multiple of 128 bytes, and returns the position where it begins.
size_t append_rest(File &file, const File &rest) {
  const size_t base = (file.size() + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
  file.resize(base);
  file.insert(file.end(), rest.begin(), rest.end());
  return base;
}

File join_pte(const Parts &parts) {
  if (parts.header.empty()) return parts.flat;
  File file = with_header(parts.flat, parts.header);
  const size_t end = file.size();
  const size_t base = append_rest(file, parts.rest);
  write_number(file, kHeaderAt + 8, end, 8);
  write_number(file, kHeaderAt + 16, base, 8);
  write_number(file, kHeaderAt + 24, parts.rest.size(), 8);
  return file;
}

bool split_ptd(const File &file, Parts &parts) {
  if (!has(file, kHeaderAt, "FH01") || file.size() < kHeaderAt + 40) return false;
  const uint64_t header = read_number<uint64_t>(file, kHeaderAt + 8);
  const uint64_t size = read_number<uint64_t>(file, kHeaderAt + 16);
  const uint64_t base = read_number<uint64_t>(file, kHeaderAt + 24);
  const bool fits = header >= 40 && header <= kMaxHeader && size <= file.size() && header + size <= base;
  if (!fits || base > file.size() || header + kHeaderAt > header + size) return false;
  cut(file, header, header + size, base, parts);
  return true;
}

File join_ptd(const Parts &parts) {
  File file = with_header(parts.flat, parts.header);
  const size_t base = append_rest(file, parts.rest);
  write_number(file, kHeaderAt + 8, parts.header.size(), 8);
  write_number(file, kHeaderAt + 16, parts.flat.size(), 8);
  write_number(file, kHeaderAt + 24, base, 8);
  write_number(file, kHeaderAt + 32, parts.rest.size(), 8);
  return file;
}

bool split_all(const File &file, Parts &parts) {
  parts.flat = file;
  return true;
}
File join_all(const Parts &parts) { return parts.flat; }

Content &field(Record &record, const char *name) {
  return record.fields[record.type->fields()->LookupByKey(name)->id()];
}

// Mutates edgecore's metadata in a .pte: a flatbuffer in the segment to which the named data entry kMetaKey refers.
bool mutate_meta(Record &root, Parts &parts, Random &random) {
  std::vector<Record> &segments = field(root, "segments").records;
  for (Record &entry : field(root, "named_data").records) {
    const uint64_t index = field(entry, "segment_index").number;
    if (!has(field(entry, "key").bytes, 0, kMetaKey) || index >= segments.size()) continue;
    uint64_t &offset = field(segments[index], "offset").number, &size = field(segments[index], "size").number;
    if (offset > parts.rest.size() || size > parts.rest.size() - offset) return false;
    const auto from = parts.rest.begin() + static_cast<ptrdiff_t>(offset);
    const Schema &meta_schema = schema<fb::meta::MetaBinarySchema>();
    const File old(from, from + static_cast<ptrdiff_t>(size));
    std::optional<Record> meta = meta_schema.decode(old.data(), old.size());
    if (!meta.has_value()) return false;
    mutate(meta_schema, *meta, *meta, random);
    const File changed = meta_schema.encode(*meta);
    if (changed.size() > size) offset = append_rest(parts.rest, {});
    size = changed.size();
    if (offset + size > parts.rest.size()) parts.rest.resize(offset + size);
    std::copy(changed.begin(), changed.end(), parts.rest.begin() + static_cast<ptrdiff_t>(offset));
    return true;
  }
  return false;
}

// Mutates the program inside a .bpte file (a program together with test cases).
bool mutate_program(Record &root, Parts &, Random &random) {
  File &program = field(root, "program").bytes;
  const size_t size = program.size();
  program.resize(size + kProgramGrowth);
  program.resize(mutate_file(pte_kind(), program.data(), size, program.size(), static_cast<unsigned>(random.next())));
  return true;
}

}  // namespace

const Kind &pte_kind() {
  static const Kind kind = {schema<fb::ProgramBinarySchema>(), split_pte, join_pte, mutate_meta};
  return kind;
}

const Kind &ptd_kind() {
  static const Kind kind = {schema<fb::ptd::FlatTensorBinarySchema>(), split_ptd, join_ptd};
  return kind;
}

const Kind &bpte_kind() {
  static const Kind kind = {schema<fb::bundled::BundledProgramBinarySchema>(), split_all, join_all, mutate_program};
  return kind;
}

}  // namespace edgecore::fuzz
