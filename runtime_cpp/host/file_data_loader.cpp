#include "edgecore/file_data_loader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "host/copied_data_loader.h"
#include "host/file.h"
#include "host/heap.h"

namespace edgecore {
namespace {

constexpr StringView kModes[] = {"file", "mmap", "mmap_use_mlock", "mmap_use_mlock_ignore_errors", "mmap_use_madvise"};

// Returns the alignment in memory of a piece of the file: the alignment of its offset, but at least 64 bytes and at
// most 64 KiB.
size_t alignment_at(uint64_t offset) {
  constexpr uint64_t kMin = 64, kMax = 65536;
  const uint64_t own = offset & (~offset + 1);
  return static_cast<size_t>(std::clamp(own, kMin, kMax));
}

#if defined(__APPLE__)
const timespec &modified(const struct stat &info) { return info.st_mtimespec; }
#else
const timespec &modified(const struct stat &info) { return info.st_mtim; }
#endif

}  // namespace

Result<LoadMode> load_mode_of(StringView name, Error &error) {
  for (uint8_t i = 0; i < std::size(kModes); ++i) {
    if (kModes[i] == name) return static_cast<LoadMode>(i);
  }
  const Status status = fail(error, EDGECORE_INVALID_ARGUMENT, "There is no load mode '", name, "'; there are");
  for (size_t i = 0; i < std::size(kModes); ++i) (void)extend(error, i == 0 ? " '" : ", '", kModes[i], "'");
  (void)extend(error, ".");
  return status;
}

Status open_file(const char *path, LoadMode mode, std::unique_ptr<SystemDataLoader> &loader, Error &error) {
  if (mode == LoadMode::kFile) {
    auto file = std::make_unique<FileDataLoader>();
    EDGECORE_TRY(file->open(path, error));
    loader = std::move(file);
  } else {
    auto file = std::make_unique<MmapDataLoader>(mode);
    EDGECORE_TRY(file->open(path, error));
    loader = std::move(file);
  }
  return {};
}

Result<int> open_regular(const char *path, uint64_t &size, Error &error) {
  // O_NONBLOCK: do not wait for a pipe's writer, or for another process to give up its lease on the file.
  const int descriptor = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0 && errno == EWOULDBLOCK) {
    return fail(error, EDGECORE_ACCESS_FAILED, "Cannot open ", path, ": another process has locked it.");
  }
  struct stat info;
  if (descriptor < 0 || fstat(descriptor, &info) != 0) {
    const Status status = fail(error, EDGECORE_ACCESS_FAILED, "Cannot open ", path, ": ", std::strerror(errno), ".");
    if (descriptor >= 0) close(descriptor);
    return status;
  }
  if (S_ISREG(info.st_mode) && info.st_size > 0) {
    size = static_cast<uint64_t>(info.st_size);
    return descriptor;
  }
  close(descriptor);
  return fail(error, EDGECORE_INVALID_PROGRAM, path, S_ISREG(info.st_mode) ? " is empty." : " is not a regular file.");
}

FileDataLoader::~FileDataLoader() {
  for (const auto &[range, piece] : pieces_) Free()(piece.data);
  if (owns_descriptor_) close(descriptor_);
}

Status FileDataLoader::open(const char *path, Error &error) {
  name_ = path;
  const Result<int> opened = open_regular(path, size_, error);
  EDGECORE_TRY(opened.status());
  descriptor_ = *opened;
  owns_descriptor_ = true;
  return start(error);
}

Status FileDataLoader::open(int descriptor, const char *name, Error &error) {
  name_ = name;
  descriptor_ = descriptor;
  return start(error);
}

Status FileDataLoader::start(Error &error) {
  struct stat info;
  if (fstat(descriptor_, &info) != 0) {
    return fail(error, EDGECORE_ACCESS_FAILED, "Cannot read ", name_.c_str(), ": ", std::strerror(errno), ".");
  }
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    return fail(error, EDGECORE_INVALID_PROGRAM, name_.c_str(),
                S_ISREG(info.st_mode) ? " is empty." : " is not a regular file.");
  }
  size_ = static_cast<uint64_t>(info.st_size);
  has_links_ = info.st_nlink != 0;
  modified_[0] = modified(info).tv_sec;
  modified_[1] = modified(info).tv_nsec;
  return {};
}

Status FileDataLoader::check_unchanged(Error &error) const {
  struct stat info;
  if (fstat(descriptor_, &info) != 0) {
    return fail(error, EDGECORE_ACCESS_FAILED, "Cannot read ", name_.c_str(), ": ", std::strerror(errno), ".");
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size != size_) {
    return fail(error, EDGECORE_ACCESS_FAILED, name_.c_str(), size < size_ ? " was truncated" : " has grown",
                " while it was loaded: it has ", size, " bytes, and had ", size_, " when it was opened.");
  }
  if (has_links_ && info.st_nlink == 0) {
    return fail(error, EDGECORE_ACCESS_FAILED, name_.c_str(), " was deleted or replaced while it was loaded.");
  }
  if (modified_[0] != modified(info).tv_sec || modified_[1] != modified(info).tv_nsec) {
    return fail(error, EDGECORE_ACCESS_FAILED, name_.c_str(), " was written to while it was loaded.");
  }
  return {};
}

Status FileDataLoader::read(uint64_t offset, size_t size, uint8_t *to, Error &error) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = read_(descriptor_, to + done, size - done, static_cast<off_t>(offset + done));
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (count == 0) {
      EDGECORE_TRY(check_unchanged(error));  // report this error first: the file was probably truncated
      return fail(error, EDGECORE_ACCESS_FAILED, name_.c_str(), " ends at byte ", offset + done, " of the ",
                  static_cast<uint64_t>(size), " bytes from byte ", offset, ".");
    } else if (errno != EINTR) {
      return fail(error, EDGECORE_ACCESS_FAILED, "Cannot read ", static_cast<uint64_t>(size - done),
                  " bytes from byte ", offset + done, " of ", name_.c_str(), ": ", std::strerror(errno), ".");
    }
  }
  return check_unchanged(error);  // check after the last read, so that changes during any read are detected
}

Result<Bytes> FileDataLoader::load(uint64_t offset, size_t size, LoadUse, Error &error) {
  EDGECORE_TRY(check_range(size_, offset, size, name_.c_str(), error));
  const std::lock_guard<std::mutex> lock(mutex_);
  const Range range(offset, size);
  const auto existing = pieces_.find(range);
  if (existing != pieces_.end()) {
    ++existing->second.users;
    return Bytes(existing->second.data, size);
  }
  if (size > 2 * size_ - std::min(held_, 2 * size_)) {
    return fail(error, EDGECORE_INVALID_PROGRAM, name_.c_str(),
                " is loaded more than twice at the same time: its segments overlap.");
  }
  HeapBlock memory = size > SIZE_MAX - kTail ? nullptr : heap_block(size + kTail, alignment_at(offset));
  if (memory == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for ", static_cast<uint64_t>(size), " bytes of ",
                name_.c_str(), ".");
  }
  auto *data = static_cast<uint8_t *>(memory.get());
  EDGECORE_TRY(read(offset, size, data, error));
  std::memset(data + size, 0, kTail);
  memory.release();
  pieces_[range] = {data, 1};
  range_of_[data] = range;
  held_ += size;
  return Bytes(data, size);
}

void FileDataLoader::release(Bytes bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto range = range_of_.find(bytes.data());
  if (range == range_of_.end()) return;
  const auto piece = pieces_.find(range->second);
  if (--piece->second.users != 0) return;
  held_ -= range->second.second;
  Free()(piece->second.data);
  pieces_.erase(piece);
  range_of_.erase(range);
}

Status CopiedDataLoader::copy(Bytes bytes, std::unique_ptr<SystemDataLoader> &loader, Error &error) {
  HeapBlock memory = bytes.size() > SIZE_MAX - kTail ? nullptr : heap_block(bytes.size() + kTail, 128);
  if (memory == nullptr) {
    return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "No memory for a program of ",
                static_cast<uint64_t>(bytes.size()), " bytes.");
  }
  auto *data = static_cast<uint8_t *>(memory.get());
  if (!bytes.empty()) std::memcpy(data, bytes.data(), bytes.size());
  std::memset(data + bytes.size(), 0, kTail);
  loader.reset(new CopiedDataLoader(std::move(memory), bytes.size()));
  return {};
}

}  // namespace edgecore
