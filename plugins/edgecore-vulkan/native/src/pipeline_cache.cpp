#include "pipeline_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace edgecore::vulkan {

namespace {

constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

struct Header {
  char magic[8] = {'E', 'D', 'G', 'E', 'V', 'K', 'P', '1'};
  uint32_t vendor = 0, device = 0, driver = 0, api = 0;
  uint8_t uuid[VK_UUID_SIZE] = {};
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};

// Returns the 64-bit FNV-1a hash of a file's content, which detects damage. It need not protect against attackers, who
// cannot write the file.
uint64_t checksum_of(const std::vector<uint8_t> &bytes) {
  uint64_t hash = 14695981039346656037u;
  for (const uint8_t byte : bytes) hash = (hash ^ byte) * 1099511628211u;
  return hash;
}

Header header_of(const VkPhysicalDeviceProperties &properties, const std::vector<uint8_t> &compiled) {
  Header header;
  header.vendor = properties.vendorID;
  header.device = properties.deviceID;
  header.driver = properties.driverVersion;
  header.api = properties.apiVersion;
  std::memcpy(header.uuid, properties.pipelineCacheUUID, VK_UUID_SIZE);
  header.bytes = compiled.size();
  header.checksum = checksum_of(compiled);
  return header;
}

// Owns a file descriptor: the destructor closes it.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

bool read_all(int file, void *data, uint64_t bytes) {
  auto *at = static_cast<char *>(data);
  while (bytes > 0) {
    const ssize_t count = ::read(file, at, bytes);
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<uint64_t>(count);
  }
  return true;
}

bool write_all(int file, const void *data, uint64_t bytes) {
  const auto *at = static_cast<const char *>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(file, at, bytes);
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<uint64_t>(count);
  }
  return true;
}

// Creates a folder and its parents.
void make_folders(const std::string &path) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), S_IRWXU);
  }
  mkdir(path.c_str(), S_IRWXU);
}

}  // namespace

PipelineCacheFile::PipelineCacheFile(const std::string &folder, const VkPhysicalDeviceProperties &properties,
                                     const std::string &suffix)
    : folder_(folder), properties_(properties) {
  if (folder.empty()) return;
  make_folders(folder);
  path_ = folder + "/";
  char digits[3];
  for (const uint8_t byte : properties.pipelineCacheUUID) {
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    path_ += digits;
  }
  path_ += "-" + std::to_string(properties.vendorID) + "-" + std::to_string(properties.deviceID) + suffix;
}

std::vector<uint8_t> PipelineCacheFile::read() const {
  if (!is_open()) return {};
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  struct stat info = {};
  if (file.number < 0 || fstat(file.number, &info) != 0 || !S_ISREG(info.st_mode)) return {};
  if ((info.st_uid != geteuid() && info.st_uid != 0) || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return {};
  Header header;
  if (!read_all(file.number, &header, sizeof(header)) || header.bytes > kMaxBytes) return {};
  if (static_cast<uint64_t>(info.st_size) != sizeof(header) + header.bytes) return {};
  std::vector<uint8_t> compiled(header.bytes);
  if (!read_all(file.number, compiled.data(), compiled.size())) return {};
  const Header expected = header_of(properties_, compiled);
  return std::memcmp(&header, &expected, sizeof(header)) == 0 ? compiled : std::vector<uint8_t>();
}

void PipelineCacheFile::write(const std::vector<uint8_t> &compiled) const {
  if (compiled.size() > kMaxBytes) return;
  std::string temporary = folder_ + "/new-XXXXXX";
  const Descriptor file{mkostemp(temporary.data(), O_CLOEXEC)};
  if (file.number < 0) return;
  const Header header = header_of(properties_, compiled);
  const bool written =
      write_all(file.number, &header, sizeof(header)) && write_all(file.number, compiled.data(), compiled.size());
  if (!written || rename(temporary.c_str(), path_.c_str()) != 0) unlink(temporary.c_str());
}

}  // namespace edgecore::vulkan
