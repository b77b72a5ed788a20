#include "blob.h"

namespace edgecore::ethosu {
namespace {

constexpr uint64_t kNameSize = 16, kHeaderSize = 32, kAlignment = 16;
constexpr uint32_t kRank = 6, kTensorNumbers = kRank + 3, kArenaRegion = 1;
constexpr uint32_t kMaxScratch = INT32_MAX;
constexpr char kStart[] = "vela_bin_stream", kEnd[] = "vela_end_stream";

uint32_t u32(const uint8_t *bytes) {
  return bytes[0] | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[3]} << 24;
}

bool all_zero(const uint8_t *bytes, uint64_t size) {
  for (uint64_t i = 0; i < size; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

template <typename... Pieces>
bool fail(Problem &problem, int32_t code, const Pieces &...pieces) {
  problem.code = code;
  (problem.sentence << ... << pieces);
  return false;
}

template <typename... Pieces>
bool damaged(Problem &problem, const Pieces &...pieces) {
  return fail(problem, EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob is damaged: ", pieces...);
}

class Reader {
 public:
  Reader(edgecore_bytes bytes, Problem &problem) : bytes_(bytes), problem_(problem) {}

  uint64_t left() const { return bytes_.size - position_; }

  // Returns the next `size` bytes, or NULL if fewer are left.
  const uint8_t *take(uint64_t size) {
    if (size > left()) {
      (void)damaged(problem_, "its ", bytes_.size, " bytes end too early");
      return nullptr;
    }
    const uint8_t *taken = bytes_.data + position_;
    position_ += size;
    return taken;
  }

  bool finish() { return left() == 0 || damaged(problem_, left(), " bytes follow its end"); }

 private:
  edgecore_bytes bytes_;
  uint64_t position_ = 0;
  Problem &problem_;
};

// Reads the block called `name`, which must be the next block of the blob.
bool read_block(Reader &reader, const char *name, edgecore_bytes &data, Problem &problem) {
  const uint8_t *header = reader.take(kHeaderSize);
  if (header == nullptr) return false;
  const size_t length = strlen(name);
  if (memcmp(header, name, length) != 0 || !all_zero(header + length, kNameSize - length)) {
    if (name == kStart) {
      return fail(problem, EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
                  "the blob was not written for an Ethos-U delegate: vela_bin_stream is missing");
    }
    return damaged(problem, "another block is where ", name, " must be");
  }
  data.size = u32(header + kNameSize);
  const uint8_t is_elsewhere = header[kNameSize + 4];
  if (is_elsewhere == 1) {
    return fail(problem, EDGECORE_NOT_SUPPORTED, "the data of the block ", name,
                " is outside the blob, which edgecore-ethosu does not support");
  }
  if (is_elsewhere != 0 || !all_zero(header + kNameSize + 5, kHeaderSize - kNameSize - 5)) {
    return damaged(problem, "the header of the block ", name, " has unknown flags");
  }
  data.data = reader.take(data.size);
  const uint64_t padding = (kAlignment - data.size % kAlignment) % kAlignment;
  const uint8_t *zeros = data.data == nullptr ? nullptr : reader.take(padding);
  if (zeros == nullptr) return false;
  if (!all_zero(zeros, padding)) return damaged(problem, "the bytes after the block ", name, " are not zeros");
  if ((name == kStart || name == kEnd) && data.size != 0) {
    return damaged(problem, "the block ", name, " has ", data.size, " bytes instead of none");
  }
  return true;
}

bool read_tensors(edgecore_bytes block, const char *what, uint32_t arena, ArenaTensors &tensors, Problem &problem) {
  Reader reader(block, problem);
  const uint8_t *count = reader.take(sizeof(uint32_t));
  if (count == nullptr) return false;
  tensors.count = u32(count);
  constexpr uint64_t kRecord = kTensorNumbers * sizeof(uint32_t);
  if (tensors.count > reader.left() / kRecord) {
    return damaged(problem, tensors.count, " records in ", reader.left(), " bytes");
  }
  tensors.records = reader.take(tensors.count * kRecord);
  for (uint64_t index = 0; index < tensors.count; ++index) {
    const uint8_t *record = tensors.records + index * kRecord;
    uint64_t bytes = 1;
    for (uint32_t d = 0; d < kRank; ++d) {
      const uint32_t size = u32(record + 4 * d);
      // Refuse a dim or tensor larger than the arena immediately, so that the product of the dims cannot overflow.
      if (size == 0 || size > arena || (bytes *= size) > arena) {
        return damaged(problem, what, " ", index, " has a dim of size ", size, " in an arena of ", arena, " bytes");
      }
    }
    const uint32_t element = u32(record + 4 * kRank), offset = u32(record + 4 * kRank + 4);
    if (element != 1 && element != 2 && element != 4 && element != 8) {
      return damaged(problem, what, " ", index, " has elements of ", element, " bytes");
    }
    bytes *= element;
    if (u32(record + 4 * kRank + 8) != kArenaRegion || bytes > arena || offset > arena - bytes) {
      return damaged(problem, what, " ", index, " lies outside the arena of ", arena, " bytes");
    }
  }
  return reader.finish();
}

}  // namespace

ArenaTensor ArenaTensors::operator[](uint32_t index) const {
  const uint8_t *record = records + uint64_t{index} * kTensorNumbers * sizeof(uint32_t);
  ArenaTensor tensor = {1, u32(record + 4 * kRank), u32(record + 4 * kRank + 4)};
  for (uint32_t d = 0; d < kRank; ++d) tensor.bytes *= u32(record + 4 * d);
  tensor.bytes *= tensor.element_size;
  return tensor;
}

bool read_blob(edgecore_bytes bytes, Blob &blob, Problem &problem) {
  Reader reader(bytes, problem);
  edgecore_bytes nothing = {}, scratch = {}, inputs = {}, outputs = {};
  if (!read_block(reader, kStart, nothing, problem) || !read_block(reader, "cmd_data", blob.commands, problem) ||
      !read_block(reader, "weight_data", blob.weights, problem) ||
      !read_block(reader, "scratch_size", scratch, problem) || !read_block(reader, "inputs", inputs, problem) ||
      !read_block(reader, "outputs", outputs, problem) || !read_block(reader, kEnd, nothing, problem) ||
      !reader.finish()) {
    return false;
  }
  if (blob.commands.size % 4 != 0 || blob.commands.size == 0 || memcmp(blob.commands.data, "COP1", 4) != 0) {
    return damaged(problem, "cmd_data is no command stream of an Ethos-U");
  }
  if (blob.commands.size > INT32_MAX) return damaged(problem, "its command stream has ", blob.commands.size, " bytes");
  if (scratch.size != sizeof(uint32_t)) {
    return damaged(problem, "scratch_size has ", scratch.size, " bytes instead of 4");
  }
  blob.arena_bytes = u32(scratch.data);
  if (blob.arena_bytes > kMaxScratch) return damaged(problem, "its arena has ", blob.arena_bytes, " bytes");
  return read_tensors(inputs, "input", blob.arena_bytes, blob.inputs, problem) &&
         read_tensors(outputs, "output", blob.arena_bytes, blob.outputs, problem);
}

}  // namespace edgecore::ethosu
