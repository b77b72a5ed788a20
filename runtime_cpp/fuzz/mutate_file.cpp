#include "mutate_file.h"

#include <string.h>

#include <algorithm>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

namespace edgecore::fuzz {
namespace {

constexpr size_t kNoise = 5;    // one in kNoise mutations replaces bytes at random
constexpr size_t kGrowth = 64;  // maximum number of bytes that add_noise may add to a part of the file
constexpr size_t kAgain = 3;    // probability 1 / kAgain that another mutation of the tree follows

void add_noise(File &part, Random &random) {
  const size_t size = part.size();
  part.resize(size + random.below(kGrowth) + 1);
  part.resize(LLVMFuzzerMutate(part.data(), size, part.size()));
}

// Changes a 2- or 4-byte word of an encoded flatbuffer: an offset, a length, an entry of a vtable, or parts of these.
void damage_word(File &flat, Random &random) {
  const size_t width = random.one_in(2) ? 4 : 2;
  const size_t at = random.below(flat.size() / width) * width;
  uint64_t word = 0;
  memcpy(&word, flat.data() + at, width);
  switch (random.below(4)) {
    case 0:
      word += 4 * (1 + random.below(8));
      break;
    case 1:
      word -= 4 * (1 + random.below(8));
      break;
    case 2:
      word = random.below(flat.size());
      break;
    default:
      word ^= uint64_t{1} << random.below(width * 8);
  }
  memcpy(flat.data() + at, &word, width);
}

void mutate_often(const Schema &schema, Record &root, const Record &donor, Random &random) {
  do {
    mutate(schema, root, donor, random);
  } while (random.one_in(kAgain));
}

size_t put(const File &file, uint8_t *out, size_t max_size) {
  if (file.size() > max_size) return 0;
  if (!file.empty()) memcpy(out, file.data(), file.size());
  return file.size();
}

bool decode(const Kind &kind, const File &file, Parts &parts, Record &root) {
  if (!kind.split(file, parts)) return false;
  std::optional<Record> tree = kind.schema.decode(parts.flat.data(), parts.flat.size());
  if (!tree.has_value()) return false;
  root = std::move(*tree);
  return true;
}

// Encodes a tree with the file identifier of `before`, because some kinds of files allow several identifiers.
File encode_like(const File &before, const Schema &schema, const Record &root) {
  constexpr size_t kIdentifier = 4, kEnd = 8;
  File flat = schema.encode(root);
  if (before.size() >= kEnd) std::copy(before.begin() + kIdentifier, before.begin() + kEnd, flat.begin() + kIdentifier);
  return flat;
}

}  // namespace

template <typename T>
T read_number(const File &file, size_t at) {
  T number = 0;
  memcpy(&number, file.data() + at, sizeof(T));
  return number;
}
template uint16_t read_number(const File &, size_t);
template uint32_t read_number(const File &, size_t);
template uint64_t read_number(const File &, size_t);

void write_number(File &file, size_t at, uint64_t number, size_t size) { memcpy(file.data() + at, &number, size); }

File with_header(const File &flat, const File &header) {
  File file(flat);
  write_number(file, 0, read_number<uint32_t>(flat, 0) + header.size(), 4);
  file.insert(file.begin() + 8, header.begin(), header.end());
  return file;
}

size_t mutate_file(const Kind &kind, uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  Parts parts;
  Record root;
  if (random.one_in(kNoise) || !decode(kind, File(data, data + size), parts, root)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const size_t choice = random.below(16);
  File changed;
  if (choice == 0) {
    add_noise(parts.rest, random);
    parts.flat = encode_like(parts.flat, kind.schema, root);
  } else if (choice == 1) {
    parts.flat = encode_like(parts.flat, kind.schema, root);
    damage_word(parts.flat, random);
  } else {
    const bool inner = choice < 6 && kind.mutate_inner != nullptr && kind.mutate_inner(root, parts, random);
    if (!inner) mutate_often(kind.schema, root, root, random);
    parts.flat = encode_like(parts.flat, kind.schema, root);
  }
  const size_t written = put(kind.join(parts), data, max_size);
  return written != 0 ? written : LLVMFuzzerMutate(data, size, max_size);
}

size_t cross_files(const Kind &kind, const uint8_t *first, size_t first_size, const uint8_t *second, size_t second_size,
                   uint8_t *out, size_t max_size, unsigned seed) {
  Random random(seed);
  Parts parts, other_parts;
  Record root, other;
  if (!decode(kind, File(first, first + first_size), parts, root) ||
      !decode(kind, File(second, second + second_size), other_parts, other)) {
    return 0;
  }
  mutate_often(kind.schema, root, other, random);
  parts.flat = encode_like(parts.flat, kind.schema, root);
  if (random.one_in(4)) parts.rest = other_parts.rest;
  return put(kind.join(parts), out, max_size);
}

}  // namespace edgecore::fuzz
