#include "host/state_parts.h"

#include <cstring>

namespace edgecore {
namespace {

// Format of a saved state: 8 magic bytes, a checksum of all bytes after the checksum, and the number of parts. A part
// has the sizes in bytes of its line and of its data, then the line and the data, both padded with zeros to a multiple
// of 8 bytes. Numbers have 64 bits and are little-endian.
constexpr char kMagic[8] = {'E', 'C', 'S', 'T', 'A', 'T', 'E', '2'};
static_assert(sizeof kMagic == kStateChecksumOffset);
// offset of the first byte that the checksum covers
constexpr size_t kSummed = kStateChecksumOffset + sizeof(uint64_t);
constexpr size_t kHeader = kSummed + sizeof(uint64_t);

size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

// Reads the bytes of a saved state from front to back. Each member returns false if too few bytes are left.
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
  bool take_part(StatePart &out) {
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

}  // namespace

// Computes FNV-1a over 64-bit words. The checksum detects each change of one word: XOR and multiplication by an odd
// number modulo 2^64 are invertible, so changing a word changes the checksum.
uint64_t state_checksum(Bytes state) {
  uint64_t sum = 0xcbf29ce484222325;
  for (size_t i = kSummed; i + sizeof sum <= state.size(); i += sizeof sum) {
    uint64_t word;
    std::memcpy(&word, state.data() + i, sizeof word);
    sum = (sum ^ word) * 0x100000001b3;
  }
  return sum;
}

StateWriter::StateWriter(std::vector<uint8_t> &out) : out_(out) {
  out_.assign(kHeader, 0);
  std::memcpy(out_.data(), kMagic, sizeof kMagic);
}

size_t StateWriter::header_bytes() { return kHeader; }

size_t StateWriter::part_bytes(const std::string &line, size_t data_bytes) {
  return 2 * sizeof(uint64_t) + padded(line.size()) + padded(data_bytes);
}

uint8_t *StateWriter::add(const std::string &line, size_t data_bytes) {
  const size_t begin = out_.size();
  out_.resize(begin + part_bytes(line, data_bytes));
  const uint64_t sizes[] = {line.size(), data_bytes};
  std::memcpy(out_.data() + begin, sizes, sizeof sizes);
  std::memcpy(out_.data() + begin + sizeof sizes, line.data(), line.size());
  ++count_;
  return out_.data() + begin + sizeof sizes + padded(line.size());
}

void StateWriter::finish() {
  std::memcpy(out_.data() + kSummed, &count_, sizeof count_);
  const uint64_t sum = state_checksum({out_.data(), out_.size()});
  std::memcpy(out_.data() + kStateChecksumOffset, &sum, sizeof sum);
}

Status read_parts(Bytes state, std::vector<StatePart> &parts, Error &error) {
  Bytes magic;
  uint64_t sum = 0, count = 0;
  Reader reader(state);
  if (!reader.take(sizeof kMagic, magic) || std::memcmp(magic.data(), kMagic, sizeof kMagic) != 0) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, "These ", state.size(),
                " bytes are not a state that export_state returned.");
  }
  bool complete =
      state.size() % 8 == 0 && reader.take_number(sum) && sum == state_checksum(state) && reader.take_number(count);
  for (uint64_t i = 0; complete && i < count; ++i) {
    parts.emplace_back();
    complete = reader.take_part(parts.back());
  }
  if (complete && reader.at_end()) return {};
  return fail(error, EDGECORE_INVALID_ARGUMENT, "This state of ", state.size(), " bytes is damaged or incomplete.");
}

}  // namespace edgecore
