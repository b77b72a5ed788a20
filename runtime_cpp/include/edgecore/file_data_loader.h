// DataLoaders for files of an operating system: read piece by piece, mapped, or copied from memory.
#ifndef EDGECORE_FILE_DATA_LOADER_H_
#define EDGECORE_FILE_DATA_LOADER_H_

#include <sys/types.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "edgecore/data_loader.h"

namespace edgecore {

// The way in which the bytes of a file get into memory. The names are the same as in ExecuTorch's Module::LoadMode.
enum class LoadMode : uint8_t {
  kFile,                      // read each piece of the file when it is needed; releasing the piece frees its memory
  kMmap,                      // map the file; the system reads pages when they are used, and may drop them
  kMmapUseMlock,              // map the file, and lock the pages of each piece in memory until the piece is released
  kMmapUseMlockIgnoreErrors,  // like kMmapUseMlock, but use a piece unlocked if its pages cannot be locked
  kMmapUseMadvise,            // map the file, and ask the system to read ahead, front to back
};

// Returns the mode called "file", "mmap", "mmap_use_mlock", "mmap_use_mlock_ignore_errors" or "mmap_use_madvise".
// Errors: INVALID_ARGUMENT with all names.
Result<LoadMode> load_mode_of(StringView name, Error &error);

// A DataLoader for a file of the operating system or for memory. Unlike DataLoader, it has a public destructor. kTail
// bytes after each loaded piece are readable too, because some delegates read past the end of a tensor.
class SystemDataLoader : public DataLoader {
 public:
  static constexpr size_t kTail = 128;

  virtual ~SystemDataLoader() = default;
  size_t tail() const override { return kTail; }

  // Lets the operating system free the physical memory of loaded pieces of the file. The bytes stay valid: the system
  // reads their pages from the file again when they are used.
  virtual void drop_pages() {}
};

// Opens a regular file. Errors: ACCESS_FAILED (with the system's reason), INVALID_PROGRAM (not a regular file, or
// empty), MEMORY_ALLOCATION_FAILED.
Status open_file(const char *path, LoadMode mode, std::unique_ptr<SystemDataLoader> &loader, Error &error);

// Reads pieces of a file with pread. If the file has grown, shrunk, been written to, deleted or replaced since it was
// opened, the next load fails.
class FileDataLoader final : public SystemDataLoader {
 public:
  // A function like pread.
  using ReadFunction = ssize_t (*)(int descriptor, void *to, size_t size, off_t offset);

  explicit FileDataLoader(ReadFunction read = pread) : read_(read) {}
  ~FileDataLoader() override;

  // Open the file at `path`, or use an open descriptor, which the caller must close after the loader is destroyed. For
  // a descriptor, error messages use `name`. Must be called once, before all other members. Errors: as open_file.
  Status open(const char *path, Error &error);
  Status open(int descriptor, const char *name, Error &error);

  uint64_t size() const override { return size_; }
  // Loads of the same bytes share memory. Errors: ACCESS_FAILED (the file has changed, or cannot be read),
  // INVALID_ARGUMENT (not in the file), MEMORY_ALLOCATION_FAILED, INVALID_PROGRAM (the loaded pieces are together more
  // than twice as large as the file: its segments overlap).
  Result<Bytes> load(uint64_t offset, size_t size, LoadUse use, Error &error) override;
  void release(Bytes bytes) override;

  FileDataLoader(const FileDataLoader &) = delete;
  FileDataLoader &operator=(const FileDataLoader &) = delete;

 private:
  using Range = std::pair<uint64_t, size_t>;
  struct Piece {
    uint8_t *data;
    size_t users;
  };

  Status start(Error &error);
  Status check_unchanged(Error &error) const;
  Status read(uint64_t offset, size_t size, uint8_t *to, Error &error);

  ReadFunction read_;
  int descriptor_ = -1;
  bool owns_descriptor_ = false;
  std::string name_;
  uint64_t size_ = 0;
  bool has_links_ = false;    // the opened file had a link count above 0, so a count of 0 means that it was deleted
  int64_t modified_[2] = {};  // time of the last modification: seconds and nanoseconds
  std::mutex mutex_;          // guards the members below
  std::map<Range, Piece> pieces_;
  std::map<const uint8_t *, Range> range_of_;
  uint64_t held_ = 0;  // bytes of all pieces
};

// Maps a file, read-only and private. The file must not be truncated while the loader exists: reading a page that is
// gone ends the process.
class MmapDataLoader final : public SystemDataLoader {
 public:
  // `mode` is any mode except kFile.
  explicit MmapDataLoader(LoadMode mode = LoadMode::kMmap) : mode_(mode) {}
  ~MmapDataLoader() override;

  // Maps the file at `path`. Must be called once, before all other members. Errors: as open_file.
  Status open(const char *path, Error &error);

  uint64_t size() const override { return size_; }
  // Errors of load: INVALID_ARGUMENT (bytes outside of the file), ACCESS_FAILED (the pages cannot be locked in memory).
  Result<Bytes> load(uint64_t offset, size_t size, LoadUse use, Error &error) override;
  void release(Bytes bytes) override;
  void drop_pages() override;

  MmapDataLoader(const MmapDataLoader &) = delete;
  MmapDataLoader &operator=(const MmapDataLoader &) = delete;

 private:
  bool locks() const { return mode_ == LoadMode::kMmapUseMlock || mode_ == LoadMode::kMmapUseMlockIgnoreErrors; }

  LoadMode mode_;
  std::string name_;
  uint8_t *base_ = nullptr;
  size_t mapped_ = 0;  // bytes of the mapping: size_ and the tail (kTail), rounded up to whole pages
  size_t size_ = 0;
  std::mutex mutex_;
  // Maps each loaded piece (address, size) to its number of loads without a release. When the number falls to 0, the
  // pages within the piece are unlocked. The first and last page may also belong to a neighbor, so they stay locked.
  std::map<std::pair<const uint8_t *, size_t>, size_t> users_;
};

}  // namespace edgecore

#endif  // EDGECORE_FILE_DATA_LOADER_H_
