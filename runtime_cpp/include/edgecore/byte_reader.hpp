// The exception that a backend throws, and a reader for its blobs. edgecore/backend.hpp includes this file.
#ifndef EDGECORE_BYTE_READER_HPP_
#define EDGECORE_BYTE_READER_HPP_

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "edgecore/backend.h"

namespace edgecore::backend {

constexpr edgecore_str to_str(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view to_view(edgecore_str text) {
  return text.size == 0 ? std::string_view() : std::string_view(text.data, static_cast<size_t>(text.size));
}

template <typename Struct>
constexpr edgecore_header header() {
  return {sizeof(Struct), EDGECORE_ABI_MAJOR, EDGECORE_ABI_MINOR};
}

// The exception that a backend throws to report an error to the host: an EDGECORE_* code and a message.
struct Failure {
  int32_t code;
  std::string text;
};

// Returns the text that std::vprintf would print, cut off after 511 bytes.
[[gnu::format(printf, 1, 0)]] inline std::string format_text(const char *format, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof(text), format, arguments);
  return text;
}

[[noreturn, gnu::format(printf, 2, 3)]] inline void fail(int32_t code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_text(format, arguments);
  va_end(arguments);
  throw Failure{code, std::move(text)};
}

// Throws a Failure for a damaged blob, with a message that starts with "the blob is damaged: ".
[[noreturn, gnu::format(printf, 1, 2)]] inline void damaged(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = format_text(format, arguments);
  va_end(arguments);
  fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob is damaged: %s", text.c_str());
}

// Reads a blob from its start: little-endian unsigned numbers, texts and bytes. Texts and bytes are not copied: they
// point into the blob. Every member throws a Failure if the rest of the blob is shorter than the item to read.
// edgecore.plugin.ByteReader does the same in Python.
class ByteReader {
 public:
  explicit ByteReader(edgecore_bytes blob) : blob_(blob) {}

  // Reads the start of a blob: the bytes `magic` and a format version. Throws a Failure if the blob starts with other
  // bytes, or if its version is not `version`. The message names `package`, the package that writes these blobs.
  void header(std::string_view magic, uint32_t version, const char *package) {
    if (left() < magic.size() || std::memcmp(blob_.data + position_, magic.data(), magic.size()) != 0) {
      fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY, "the blob was not written by %s", package);
    }
    position_ += magic.size();
    const uint32_t blob_version = u32();
    if (blob_version == version) return;
    fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
         "the blob has version %u and this %s reads version %u: install the release that compiled it", blob_version,
         package, version);
  }

  const uint8_t *take(uint64_t size) {
    if (size > left()) damaged("its %llu bytes end too early", static_cast<unsigned long long>(blob_.size));
    const uint8_t *bytes = blob_.data + position_;
    position_ += size;
    return bytes;
  }

  template <typename Unsigned>
  Unsigned number() {
    static_assert(std::is_unsigned<Unsigned>::value, "signed numbers and floats are up to the caller");
    const uint8_t *bytes = take(sizeof(Unsigned));
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(Unsigned); ++i) value |= uint64_t{bytes[i]} << 8 * i;
    return static_cast<Unsigned>(value);
  }
  uint32_t u32() { return number<uint32_t>(); }

  // Reads the number of records that follow, each of at least `min_bytes` bytes. Throws if the rest of the blob is too
  // short for that many records, so that a damaged count does not lead to a huge allocation.
  uint32_t count(uint64_t min_bytes) {
    const uint32_t records = u32();
    if (records > left() / min_bytes) {
      damaged("%u records in %llu bytes", records, static_cast<unsigned long long>(left()));
    }
    return records;
  }

  // Reads a 32-bit length and a text of that many bytes.
  std::string_view text() {
    const uint32_t size = u32();
    return {reinterpret_cast<const char *>(take(size)), size};
  }

  // Skips bytes up to the next multiple of `alignment`, counted from the start of the blob.
  void align(uint64_t alignment) { take((alignment - position_ % alignment) % alignment); }

  // Returns the number of bytes that have not been read yet.
  uint64_t left() const { return blob_.size - position_; }

  // Throws if bytes of the blob were not read: bytes after the last record mean that the blob is damaged.
  void finish() const {
    if (left() != 0) damaged("%llu bytes follow its end", static_cast<unsigned long long>(left()));
  }

 private:
  edgecore_bytes blob_;
  uint64_t position_ = 0;
};

// Checks the compatibility string of a delegate, for Driver::check_compatibility: returns EDGECORE_COMPATIBLE if the
// string begins with the words `format`, such as "acme-blob 1", and throws a Failure otherwise. The message names
// `package`, the package that reads this format.
inline int32_t check_format(std::string_view compatibility, std::string_view format, const char *package) {
  const bool has_format = compatibility.substr(0, format.size()) == format;
  if (has_format && (compatibility.size() == format.size() || compatibility[format.size()] == ' ')) {
    return EDGECORE_COMPATIBLE;
  }
  fail(EDGECORE_DELEGATE_INVALID_COMPATIBILITY,
       "'%.*s' is not a format that this release of %s reads: compile the model again, or install the release that "
       "compiled it",
       static_cast<int>(compatibility.size()), compatibility.data(), package);
}

}  // namespace edgecore::backend

#endif  // EDGECORE_BYTE_READER_HPP_
