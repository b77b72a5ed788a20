#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "edgecore/file_data_loader.h"
#include "host/file.h"

namespace edgecore {
namespace {

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// The memory pages that overlap a piece of the file; if `whole`, only the pages that lie completely within it.
struct Pages {
  uint8_t *begin;
  size_t size;

  Pages(Bytes piece, bool whole) {
    const uintptr_t page = page_size();
    const uintptr_t first = reinterpret_cast<uintptr_t>(piece.data()), last = first + piece.size();
    const uintptr_t start = (whole ? first + page - 1 : first) / page * page;
    const uintptr_t end = (whole ? last : last + page - 1) / page * page;
    begin = const_cast<uint8_t *>(piece.data()) + static_cast<ptrdiff_t>(start - first);
    size = end > start ? end - start : 0;
  }
};

}  // namespace

MmapDataLoader::~MmapDataLoader() {
  if (base_ != nullptr) munmap(base_, mapped_);
}

Status MmapDataLoader::open(const char *path, Error &error) {
  name_ = path;
  uint64_t size = 0;
  const Result<int> opened = open_regular(path, size, error);
  EDGECORE_TRY(opened.status());
  const size_t page = page_size();
  void *base = MAP_FAILED;
  size_t mapped = 0;
  if (size <= SIZE_MAX - kTail - page) {
    // Map the file over the start of a larger anonymous mapping, whose rest is the readable tail after the file.
    mapped = (static_cast<size_t>(size) + kTail + page - 1) / page * page;
    base = mmap(nullptr, mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (base == MAP_FAILED) {
    close(*opened);
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No address space to map the ", size, " bytes of ", path,
                ".");
  }
  base_ = static_cast<uint8_t *>(base);
  mapped_ = mapped;
  size_ = static_cast<size_t>(size);
  const bool ok = mmap(base, size_, PROT_READ, MAP_PRIVATE | MAP_FIXED, *opened, 0) != MAP_FAILED;
  const int reason = errno;
  close(*opened);
  if (!ok) return fail(error, EDGECORE_ACCESS_FAILED, "Cannot map ", path, ": ", std::strerror(reason), ".");
  if (mode_ == LoadMode::kMmapUseMadvise) {
    madvise(base_, size_, MADV_SEQUENTIAL);
    madvise(base_, size_, MADV_WILLNEED);
  }
  return {};
}

Result<Bytes> MmapDataLoader::load(uint64_t offset, size_t size, LoadUse, Error &error) {
  EDGECORE_TRY(check_range(size_, offset, size, name_.c_str(), error));
  const Bytes piece(base_ + offset, size);
  if (!locks()) return piece;
  const std::lock_guard<std::mutex> lock(mutex_);
  const Pages pages(piece, false);
  if (mlock(pages.begin, pages.size) != 0 && mode_ == LoadMode::kMmapUseMlock) {
    return fail(error, EDGECORE_ACCESS_FAILED, "Cannot lock ", static_cast<uint64_t>(size), " bytes of ", name_.c_str(),
                " in memory: ", std::strerror(errno),
                "; raise the limit of locked memory (ulimit -l), or use the load mode mmap_use_mlock_ignore_errors.");
  }
  ++users_[{piece.data(), size}];
  return piece;
}

void MmapDataLoader::release(Bytes bytes) {
  const Pages pages(bytes, true);
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  if (locks()) {
    lock.lock();
    const auto users = users_.find({bytes.data(), bytes.size()});
    if (users == users_.end() || --users->second != 0) return;
    users_.erase(users);
    if (pages.size != 0) munlock(pages.begin, pages.size);
  }
  if (pages.size == 0) return;
  madvise(pages.begin, pages.size, MADV_DONTNEED);
}

void MmapDataLoader::drop_pages() {
  if (!locks()) madvise(base_, mapped_, MADV_DONTNEED);
}

}  // namespace edgecore
