#include "file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace edgecore::llm {
namespace {

constexpr off_t kLargest = 1 << 30;

struct Close {
  void operator()(FILE *file) const { std::fclose(file); }
};

}  // namespace

bool file_exists(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

Status read_file(const std::string &path, std::string &content, Error &error) {
  const std::unique_ptr<FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const int32_t code = errno == ENOENT ? EDGECORE_NOT_FOUND : EDGECORE_ACCESS_FAILED;
    return fail(error, code, path.c_str(), " cannot be read: ", std::strerror(errno), ".");
  }
  struct stat info;
  if (fstat(fileno(file.get()), &info) != 0 || !S_ISREG(info.st_mode)) {
    return fail(error, EDGECORE_ACCESS_FAILED, path.c_str(), " cannot be read: it is no file.");
  }
  if (info.st_size > kLargest) {
    return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, path.c_str(), " is larger than 1 GB.");
  }
  content.resize(static_cast<size_t>(info.st_size));
  content.resize(std::fread(content.data(), 1, content.size(), file.get()));
  return {};
}

}  // namespace edgecore::llm
