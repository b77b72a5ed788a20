#include "cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <new>
#include <string_view>
#include <tuple>
#include <vector>

namespace edgecore::xnnpack {

namespace {

constexpr char kMagic[8] = {'E', 'D', 'G', 'E', 'P', 'A', 'K', '1'};
constexpr std::string_view kSuffix = ".packed", kTemporary = "tmp-";
// a temporary file that has not changed for this time is assumed to belong to a dead process
constexpr time_t kAbandonedSeconds = 3600;
// number of zero bytes that follow the packed weights in a file; kernels may read past the end of weights
constexpr uint64_t kTail = 64;

// Each file of packed weights begins with this header. Its size is XNNPACK's largest alignment, so that the packed
// weights after the header are aligned.
struct Header {
  char magic[8];
  Identity identity;
  uint64_t bytes;
  Identity checksum;
  uint64_t reserved[10];
};
static_assert(sizeof(Header) == 128, "the packing after the header must be aligned");

// Owns a file descriptor: the destructor closes it.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

struct Name {
  char text[48];
};

Name file_name(const Identity &identity, FileKind kind) {
  Name name;
  std::snprintf(name.text, sizeof(name.text), "%016llx%016llx%s", static_cast<unsigned long long>(identity.first),
                static_cast<unsigned long long>(identity.second),
                kind == FileKind::kPacking ? kSuffix.data() : ".measured");
  return name;
}

// Opens a regular file for reading, and sets `bytes` to its size. Returns -1 if there is no such file, if it is too
// large for this process to map, or if another user (except root) could have written it.
int open_own(int folder, const char *name, size_t *bytes) {
  const int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat info;
  if (file < 0) return -1;
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) <= PTRDIFF_MAX &&
      (info.st_uid == geteuid() || info.st_uid == 0) && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
    *bytes = static_cast<size_t>(info.st_size);
    return file;
  }
  close(file);
  return -1;
}

bool write_all(int file, const void *data, size_t bytes) {
  const auto *at = static_cast<const char *>(data);
  while (bytes > 0) {
    const ssize_t written = write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

// Writes `parts` one after the other to a temporary file and renames this file to `name`, so that other processes never
// see an incomplete file of this name. On failure, sets errno and returns false.
bool publish(int folder, const char *name, std::initializer_list<iovec> parts) {
  const Secret random = random_secret();
  char temporary[32];
  std::snprintf(temporary, sizeof(temporary), "tmp-%016llx", static_cast<unsigned long long>(random[0]));
  bool is_written = false;
  {
    const Descriptor file{openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR)};
    if (file.number < 0) return false;
    is_written = true;
    for (const iovec &part : parts) is_written = is_written && write_all(file.number, part.iov_base, part.iov_len);
  }
  if (is_written && renameat(folder, temporary, folder, name) == 0) return true;
  const int error = errno;
  unlinkat(folder, temporary, 0);
  errno = error;
  return false;
}

}  // namespace

Secret random_secret() {
  Secret secret = {};
  (void)!getrandom(secret.data(), sizeof(secret), 0);
  return secret;
}

Packing::~Packing() {
  if (mapping != nullptr) {
    munmap(mapping, mapped);
  } else {
    std::free(data);
  }
}

CacheFolder::~CacheFolder() {
  if (folder_ >= 0) close(folder_);
}

bool CacheFolder::open(const char *path, std::string *problem) {
  path_ = path;
  if (mkdir(path, S_IRWXU) == 0 || errno == EEXIST) folder_ = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ >= 0 && (read_secret() || make_secret())) return true;
  *problem = "the folder of packed weights " + path_ + " cannot be used: " + strerror(errno);
  return false;
}

bool CacheFolder::read_secret() {
  size_t bytes = 0;
  const Descriptor file{open_own(folder_, "key", &bytes)};
  return file.number >= 0 && bytes == sizeof(secret_) && read(file.number, &secret_, bytes) == sizeof(secret_);
}

// Creates the file "key" with a random secret, the key of the hash that names the other files. Holds the folder's lock
// meanwhile: if several processes miss the file at the same time, the first creates it, and all use its secret. On a
// file system without locks they may use different secrets; then each process finds only files that were written with
// its own secret, and packs all other weights.
bool CacheFolder::make_secret() {
  const bool is_locked = flock(folder_, LOCK_EX) == 0;
  Secret secret = random_secret();
  const bool is_made = read_secret() || (publish(folder_, "key", {{&secret, sizeof(secret)}}) && read_secret());
  const int error = errno;
  if (is_locked) flock(folder_, LOCK_UN);
  errno = error;
  return is_made;
}

std::unique_ptr<Packing> CacheFolder::load(const Identity &identity, const HashKey &key, FileKind kind) const {
  size_t size = 0;
  const Descriptor file{open_own(folder_, file_name(identity, kind).text, &size)};
  if (file.number < 0 || size < sizeof(Header) + kTail) return nullptr;
  std::unique_ptr<Packing> packing(new (std::nothrow) Packing);
  if (packing == nullptr) return nullptr;
  void *mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file.number, 0);
  if (mapping == MAP_FAILED) return nullptr;
  packing->mapping = mapping;
  packing->mapped = size;
  Header header;
  std::memcpy(&header, mapping, sizeof(header));
  packing->identity = identity;
  packing->data = static_cast<char *>(mapping) + sizeof(header);
  packing->bytes = size - sizeof(header) - kTail;
  const bool is_valid = std::memcmp(header.magic, kMagic, sizeof(kMagic)) == 0 && header.identity == identity &&
                        header.bytes == packing->bytes && header.checksum == key.hash(packing->data, packing->bytes);
  if (!is_valid) return nullptr;
  futimens(file.number, nullptr);  // set the time of the last use, by which prune() chooses files to remove
  return packing;
}

bool CacheFolder::save(const Packing &packing, const HashKey &key, FileKind kind, std::string *problem) const {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.identity = packing.identity;
  header.bytes = packing.bytes;
  header.checksum = key.hash(packing.data, packing.bytes);
  char tail[kTail] = {};
  if (publish(folder_, file_name(packing.identity, kind).text,
              {{&header, sizeof(header)}, {packing.data, packing.bytes}, {tail, sizeof(tail)}})) {
    return true;
  }
  *problem = "no packed weights are written to " + path_ + ": " + strerror(errno);
  return false;
}

void CacheFolder::prune(uint64_t limit) const {
  struct Entry {
    timespec used;
    uint64_t bytes;
    std::string name;
  };
  const int number = openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *const listing = number < 0 ? nullptr : fdopendir(number);
  if (listing == nullptr) {
    if (number >= 0) close(number);
    return;
  }
  const time_t now = time(nullptr);
  std::vector<Entry> entries;
  uint64_t total = 0;
  while (const dirent *item = readdir(listing)) {
    const std::string name = item->d_name;
    struct stat info;
    if (fstatat(folder_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    if (name.compare(0, kTemporary.size(), kTemporary) == 0) {
      if (now - info.st_mtim.tv_sec > kAbandonedSeconds) unlinkat(folder_, name.c_str(), 0);
    } else if (name.size() > kSuffix.size() &&
               name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0) {
      entries.push_back({info.st_mtim, static_cast<uint64_t>(info.st_size), name});
      total += entries.back().bytes;
    }
  }
  closedir(listing);
  if (total <= limit) return;
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec) < std::tie(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Entry &entry : entries) {
    if (total <= limit) return;
    unlinkat(folder_, entry.name.c_str(), 0);  // other processes that have mapped the removed file can still read it
    total -= entry.bytes;
  }
}

}  // namespace edgecore::xnnpack
