#include "npy.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace edgecore::tools {
namespace {

struct Type {
  int32_t scalar_type;
  const char *descr;  // the dtype in the spelling of numpy's header
};
constexpr Type kTypes[] = {{0, "|u1"},  {1, "|i1"},  {2, "<i2"},  {3, "<i4"},  {4, "<i8"},
                           {5, "<f2"},  {6, "<f4"},  {7, "<f8"},  {11, "|b1"}, {27, "<u2"},
                           {28, "<u4"}, {29, "<u8"}, {15, "|V2"}, {15, "<V2"}};  // bfloat16, in ml_dtypes' spellings

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;

struct Close {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
using FilePointer = std::unique_ptr<std::FILE, Close>;

// Returns the text after `key` in the header's Python dictionary; empty if the key is missing.
std::string after(const std::string &header, const char *key) {
  const size_t at = header.find(std::string("'") + key + "':");
  if (at == std::string::npos) return {};
  const size_t value = header.find_first_not_of(' ', at + std::strlen(key) + 3);
  return value == std::string::npos ? std::string() : header.substr(value);
}

Status parse_header(const char *path, const std::string &header, Array &array, Error &error) {
  const std::string descr = after(header, "descr");
  const std::string shape = after(header, "shape");
  array.scalar_type = -1;
  for (const Type &type : kTypes) {
    if (!descr.empty() && descr.compare(1, std::strlen(type.descr), type.descr) == 0)
      array.scalar_type = type.scalar_type;
  }
  if (array.scalar_type < 0) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, path, " has the dtype ", descr.substr(0, 8).c_str(),
                ", which edgecore does not support.");
  }
  if (after(header, "fortran_order").compare(0, 5, "False") != 0 || shape.empty() || shape[0] != '(') {
    return fail(error, EDGECORE_INVALID_ARGUMENT, path, " does not hold a row-major array.");
  }
  const char *at = shape.c_str() + 1;
  while (*at != ')' && *at != '\0') {
    char *end = nullptr;
    const long long size = std::strtoll(at, &end, 10);
    if (end == at || size < 0) break;
    array.shape.push_back(size);
    at = end + std::strspn(end, ", ");
  }
  return *at == ')' ? Status() : fail(error, EDGECORE_INVALID_ARGUMENT, path, " has a shape that cannot be read.");
}

}  // namespace

Status read_file(const char *path, std::vector<uint8_t> &bytes, Error &error) {
  const FilePointer file(std::fopen(path, "rb"));
  if (file == nullptr) {
    return fail(error, EDGECORE_ACCESS_FAILED, "Cannot open ", path, ": ", std::strerror(errno), ".");
  }
  uint8_t chunk[16384];
  while (const size_t count = std::fread(chunk, 1, sizeof chunk, file.get())) {
    bytes.insert(bytes.end(), chunk, chunk + count);
  }
  return std::ferror(file.get()) == 0 ? Status() : fail(error, EDGECORE_ACCESS_FAILED, "Cannot read ", path, ".");
}

Status read_npy(const char *path, Array &array, Error &error) {
  std::vector<uint8_t> &bytes = array.bytes;
  EDGECORE_TRY(read_file(path, bytes, error));
  if (bytes.size() < 12 || std::memcmp(bytes.data(), kMagic, kMagicSize) != 0) {
    return fail(error, EDGECORE_INVALID_ARGUMENT, path, " is no .npy file.");
  }
  const bool first_version = bytes[6] == 1;
  const size_t start = first_version ? 10 : 12;
  size_t length = bytes[8] | size_t{bytes[9]} << 8;
  if (!first_version) length |= size_t{bytes[10]} << 16 | size_t{bytes[11]} << 24;
  if (length > bytes.size() - start) return fail(error, EDGECORE_INVALID_ARGUMENT, path, " is truncated.");
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(start);
  const auto data = begin + static_cast<std::ptrdiff_t>(length);
  EDGECORE_TRY(parse_header(path, std::string(begin, data), array, error));
  bytes.erase(bytes.begin(), data);
  return {};
}

Status write_npy(const std::string &path, int32_t scalar_type, Span<const int64_t> shape, Bytes data, Error &error) {
  const char *descr = nullptr;
  for (const Type &type : kTypes) {
    if (type.scalar_type == scalar_type) descr = type.descr;
  }
  if (descr == nullptr) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "numpy has no dtype for ScalarType ", scalar_type, ", so ", path.c_str(),
                " is not written.");
  }
  std::string header = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (";
  for (const int64_t size : shape) header += std::to_string(size) + ", ";
  if (shape.size() > 1) header.resize(header.size() - 2);
  header += "), }";
  // pad with spaces, so that the data begin at a multiple of 64 bytes
  header.resize((kMagicSize + 4 + header.size() + 1 + 63) / 64 * 64 - kMagicSize - 4, ' ');
  header.back() = '\n';
  const FilePointer file(std::fopen(path.c_str(), "wb"));
  const uint8_t prefix[] = {1, 0, static_cast<uint8_t>(header.size()), static_cast<uint8_t>(header.size() >> 8)};
  const bool written = file != nullptr && std::fwrite(kMagic, kMagicSize, 1, file.get()) == 1 &&
                       std::fwrite(prefix, sizeof prefix, 1, file.get()) == 1 &&
                       std::fwrite(header.data(), header.size(), 1, file.get()) == 1 &&
                       (data.empty() || std::fwrite(data.data(), data.size(), 1, file.get()) == 1) &&
                       std::fflush(file.get()) == 0;
  if (written) return {};
  return fail(error, EDGECORE_ACCESS_FAILED, "Cannot write ", path.c_str(), ": ", std::strerror(errno), ".");
}

}  // namespace edgecore::tools
