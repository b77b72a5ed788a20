#include "cache.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>

#include "core/sha256.h"

namespace edgecore::coreml {
namespace {

namespace fs = std::filesystem;
using edgecore::backend::fail;

std::string digest_of(edgecore_bytes blob) {
  uint8_t digest[32];
  edgecore::sha256({blob.data, static_cast<size_t>(blob.size)}, digest);
  std::string text;
  for (const uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// Returns the path of a new folder beside `folder`. No other thread or process uses this path.
fs::path temporary_beside(const fs::path &folder) {
  static std::atomic<uint32_t> count{0};
  std::random_device random;
  fs::path path = folder;
  path += "." + std::to_string(random()) + "-" + std::to_string(count++);
  return path;
}

void write_file(const fs::path &path, edgecore_bytes content) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(content.data), static_cast<std::streamsize>(content.size));
  file.close();
  if (!file) {
    fail(EDGECORE_ACCESS_FAILED, "%s cannot be written: is the disk full, or the load option model_cache_folder wrong?",
         path.string().c_str());
  }
}

struct Removal {
  const fs::path &path;
  ~Removal() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

}  // namespace

std::string cached_folder(const std::string &cache, edgecore_bytes blob, const std::vector<File> &files,
                          const std::function<void(const std::string &folder)> &finish) {
  const fs::path folder = fs::path(cache) / digest_of(blob);
  std::error_code error;
  if (fs::is_directory(folder, error)) return folder.string();
  const fs::path temporary = temporary_beside(folder);
  const Removal removal{temporary};
  for (const File &file : files) write_file(temporary / fs::path(file.path), file.content);
  finish(temporary.string());
  fs::rename(temporary, folder, error);  // if rename fails, another process was faster: use its folder
  if (!fs::is_directory(folder)) {
    fail(EDGECORE_ACCESS_FAILED, "%s cannot be renamed: %s", temporary.string().c_str(), error.message().c_str());
  }
  return folder.string();
}

std::string default_cache() {
  const char *home = std::getenv("HOME");
#if !defined(__APPLE__)
  const char *cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/edgecore-coreml";
#endif
  if (home == nullptr || home[0] == '\0') {
    fail(EDGECORE_INVALID_ARGUMENT,
         "the environment has no HOME for compiled models: set the load option model_cache_folder");
  }
#if defined(__APPLE__)
  return std::string(home) + "/Library/Caches/edgecore-coreml";
#else
  return std::string(home) + "/.cache/edgecore-coreml";
#endif
}

}  // namespace edgecore::coreml
