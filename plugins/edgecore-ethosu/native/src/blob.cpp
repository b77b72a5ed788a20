#include "blob.h"

#include <cstdio>
#include <cstring>
#include <string_view>

namespace edgecore_ethosu {
namespace {

using edgecore::backend::ByteReader;
using edgecore::backend::damaged;
using edgecore::backend::fail;

constexpr uint64_t kNameSize = 16, kReservedSize = 11, kAlignment = 16;
constexpr size_t kTensorNumbers = 9, kRank = 6;
constexpr uint64_t kMaxScratch = INT32_MAX;
constexpr char kStart[] = "vela_bin_stream", kEnd[] = "vela_end_stream";

bool all_zero(const uint8_t *bytes, uint64_t size) {
  for (uint64_t i = 0; i < size; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

// Reads the block `name`, which must be the next one, and returns its data.
edgecore_bytes read_block(ByteReader &reader, std::string_view name) {
  const uint8_t *found = reader.take(kNameSize);
  if (std::memcmp(found, name.data(), name.size()) != 0 || !all_zero(found + name.size(), kNameSize - name.size())) {
    if (name == kStart) {
      fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
           "the blob was not written for an Ethos-U delegate: vela_bin_stream is missing");
    }
    damaged("another block is where %s must be", name.data());
  }
  edgecore_bytes data = {};
  data.size = reader.u32();
  const uint8_t is_elsewhere = *reader.take(1);
  if (is_elsewhere == 1) {
    fail(EDGECORE_NOT_SUPPORTED, "the data of the block %s is outside the blob, which edgecore-ethosu does not support",
         name.data());
  }
  if (is_elsewhere != 0 || !all_zero(reader.take(kReservedSize), kReservedSize)) {
    damaged("the header of the block %s has unknown flags", name.data());
  }
  data.data = reader.take(data.size);
  const uint64_t padding = (kAlignment - data.size % kAlignment) % kAlignment;
  if (!all_zero(reader.take(padding), padding)) damaged("the bytes after the block %s are not zeros", name.data());
  if ((name == kStart || name == kEnd) && data.size != 0) {
    damaged("the block %s has %llu bytes instead of none", name.data(), static_cast<unsigned long long>(data.size));
  }
  return data;
}

std::vector<uint64_t> read_tensors(edgecore_bytes block, const char *what, uint64_t scratch) {
  ByteReader reader(block);
  const uint32_t count = reader.count(kTensorNumbers * sizeof(int32_t));
  std::vector<uint64_t> sizes;
  for (uint32_t index = 0; index < count; ++index) {
    uint64_t bytes = 1;
    for (size_t d = 0; d < kRank; ++d) {
      const uint32_t size = reader.u32();
      // A shape that is larger than the arena is wrong, so the product does not overflow.
      if (size == 0 || size > scratch || (bytes *= size) > scratch) {
        damaged("%s %u has a dim of size %u in an arena of %llu bytes", what, index, size,
                static_cast<unsigned long long>(scratch));
      }
    }
    const uint32_t element = reader.u32(), offset = reader.u32(), region = reader.u32();
    if (element != 1 && element != 2 && element != 4 && element != 8) {
      damaged("%s %u has elements of %u bytes", what, index, element);
    }
    bytes *= element;
    if (region > INT32_MAX || bytes > scratch || offset > scratch - bytes) {
      damaged("%s %u lies outside the arena of %llu bytes", what, index, static_cast<unsigned long long>(scratch));
    }
    sizes.push_back(bytes);
  }
  reader.finish();
  return sizes;
}

}  // namespace

Sizes read_blob(edgecore_bytes blob) {
  ByteReader reader(blob);
  read_block(reader, kStart);
  const edgecore_bytes commands = read_block(reader, "cmd_data");
  read_block(reader, "weight_data");
  const edgecore_bytes scratch = read_block(reader, "scratch_size");
  const edgecore_bytes inputs = read_block(reader, "inputs");
  const edgecore_bytes outputs = read_block(reader, "outputs");
  read_block(reader, kEnd);
  reader.finish();
  if (commands.size % 4 != 0 || commands.size == 0 || std::memcmp(commands.data, "COP1", 4) != 0) {
    damaged("cmd_data is no command stream of an Ethos-U");
  }
  if (scratch.size != sizeof(uint32_t)) {
    damaged("scratch_size has %llu bytes instead of 4", static_cast<unsigned long long>(scratch.size));
  }
  const uint64_t size = ByteReader(scratch).u32();
  if (size > kMaxScratch) damaged("its arena has %llu bytes", static_cast<unsigned long long>(size));
  return {read_tensors(inputs, "input", size), read_tensors(outputs, "output", size)};
}

std::string tosa_key(edgecore_bytes blob) {
  uint64_t sum = 0xcbf29ce484222325;
  ByteReader reader(blob);
  while (reader.left() >= sizeof(uint64_t)) {
    sum = (sum ^ reader.number<uint64_t>()) * 0x100000001b3;
    sum ^= sum >> 32;
  }
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(sum));
  return std::string("ethosu-tosa-") + digits;
}

}  // namespace edgecore_ethosu
