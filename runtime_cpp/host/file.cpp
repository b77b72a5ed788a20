#include "host/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace edgecore {
namespace {

// A file descriptor that is closed at the end of its scope.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

}  // namespace

File::~File() {
  unmap();
  free(heap_);
}

void File::unmap() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
  mapping_ = nullptr;
}

void File::release() const {
  if (mapping_ != nullptr) madvise(mapping_, mapped_, MADV_DONTNEED);
}

Status File::make_private(Error &error) {
  if (mapping_ == nullptr) return {};
  EDGECORE_TRY(copy(bytes_, error));
  unmap();
  return {};
}

Status File::map(const char *path, Error &error) {
  const Descriptor file{open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // opening a pipe must not wait for a writer
  struct stat info;
  if (file.number < 0 || fstat(file.number, &info) != 0) {
    return fail(error, EDGECORE_ACCESS_FAILED, "Cannot open ", path, ": ", strerror(errno), ".");
  }
  if (!S_ISREG(info.st_mode)) return fail(error, EDGECORE_INVALID_PROGRAM, path, " is not a regular file.");
  if (info.st_size == 0) return fail(error, EDGECORE_INVALID_PROGRAM, path, " is empty.");
  const auto size = static_cast<size_t>(info.st_size);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  // Map the file over the front of an anonymous mapping; the rest of that mapping is the readable tail.
  const size_t mapped_size = (size + kTail + page - 1) / page * page;
  void *base = mmap(nullptr, mapped_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No address space to map the ", size, " bytes of ", path,
                ".");
  }
  mapping_ = base;
  mapped_ = mapped_size;
  if (mmap(base, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, file.number, 0) == MAP_FAILED) {
    return fail(error, EDGECORE_ACCESS_FAILED, "Cannot map ", path, ": ", strerror(errno), ".");
  }
  bytes_ = {static_cast<const uint8_t *>(base), size};
  return {};
}

Status File::copy(Bytes bytes, Error &error) {
  if (bytes.size() > SIZE_MAX - kTail || posix_memalign(&heap_, 128, bytes.size() + kTail) != 0) {
    heap_ = nullptr;
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a program of ", bytes.size(), " bytes.");
  }
  auto *data = static_cast<uint8_t *>(heap_);
  if (!bytes.empty()) memcpy(data, bytes.data(), bytes.size());
  memset(data + bytes.size(), 0, kTail);
  bytes_ = {data, bytes.size()};
  return {};
}

}  // namespace edgecore
