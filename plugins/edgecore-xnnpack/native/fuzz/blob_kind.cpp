#include "blob_kind.h"

#include <algorithm>
#include <cstring>

#include "xnnpack_bfbs_generated.h"

namespace edgecore::xnnpack {
namespace {

using fuzz::File;
using fuzz::Parts;
using fuzz::read_number;
using fuzz::write_number;

// The header of a blob has 30 bytes, padded to 32: u32 0, "XH00", u16 header length, u32 offset and u32 size of the
// flatbuffer, u32 offset and u64 size of the constants.
constexpr size_t kHeaderSize = 32;
constexpr size_t kAlignment = 16;

bool split(const File &file, Parts &parts) {
  if (file.size() < kHeaderSize || std::memcmp(file.data() + 4, "XH00", 4) != 0) {
    parts.flat = file;
    return true;
  }
  const uint64_t flat = read_number<uint32_t>(file, 10), flat_size = read_number<uint32_t>(file, 14);
  const uint64_t rest = read_number<uint32_t>(file, 18), rest_size = read_number<uint64_t>(file, 22);
  if (flat + flat_size > file.size() || rest > file.size() || rest_size > file.size() - rest) return false;
  const auto copy = [&](uint64_t offset, uint64_t size) {
    return File(file.begin() + static_cast<ptrdiff_t>(offset), file.begin() + static_cast<ptrdiff_t>(offset + size));
  };
  parts.header = copy(0, kHeaderSize);
  parts.flat = copy(flat, flat_size);
  parts.rest = copy(rest, rest_size);
  return true;
}

File join(const Parts &parts) {
  if (parts.header.empty()) return parts.flat;
  File file = parts.header;
  file.insert(file.end(), parts.flat.begin(), parts.flat.end());
  file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment);
  write_number(file, 10, kHeaderSize, 4);
  write_number(file, 14, parts.flat.size(), 4);
  write_number(file, 18, file.size(), 4);
  write_number(file, 22, parts.rest.size(), 8);
  file.insert(file.end(), parts.rest.begin(), parts.rest.end());
  return file;
}

}  // namespace

const fuzz::Kind &blob_kind() {
  static const fuzz::Schema schema(wire::GraphBinarySchema::data());
  static const fuzz::Kind kind = {schema, split, join};
  return kind;
}

}  // namespace edgecore::xnnpack
