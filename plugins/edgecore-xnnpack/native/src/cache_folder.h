// Stores packed weights in files of a folder that the user names, so that other processes need not pack them again.
//
// FOLDER/key holds a secret, the key of the hash that names the files: without the secret no other user can craft
// weights with the same hash. FOLDER/IDENTITY.packed is a header followed by the packed weights; a file gets this name
// only once it is complete. A file that fails its checks is treated as missing, and replaced. FOLDER/IDENTITY.measured
// has the same format and stores the result of a speed measurement on this processor.
#ifndef EDGECORE_XNNPACK_CACHE_FOLDER_H_
#define EDGECORE_XNNPACK_CACHE_FOLDER_H_

#include <memory>
#include <string>

#include "hash.h"

namespace edgecore::xnnpack {

// A layer's filter and bias, packed into the order in which XNNPACK's kernels read them. Immutable once it is shared.
struct Packing {
  Identity identity;
  void *data = nullptr;
  size_t bytes = 0;
  void *mapping = nullptr;  // the mapped file that holds `data`; null if `data` is on the heap
  size_t mapped = 0;        // size of the mapped file in bytes; 0 if `data` is on the heap

  ~Packing();
};

enum class FileKind : uint8_t { kPacking, kMeasurement };

class CacheFolder {
 public:
  CacheFolder() = default;
  ~CacheFolder();

  // Creates the folder and its file "key" if they are missing, and reads the secret. On failure, returns false and sets
  // `problem` to an error message.
  bool open(const char *path, std::string *problem);

  const Secret &secret() const { return secret_; }

  // Maps the file of the packed weights with the hash `identity` into memory. Returns null if it is missing, damaged,
  // of another format, owned by another user than root and the current one, or writable by others. Thread-safe.
  std::unique_ptr<Packing> load(const Identity &identity, const HashKey &key, FileKind kind) const;

  // Writes packed weights to their file. On failure, returns false and sets `problem` to an error message. Thread-safe.
  bool save(const Packing &packing, const HashKey &key, FileKind kind, std::string *problem) const;

  // Removes unfinished files of dead processes. Then removes the least recently used files of packed weights until at
  // most `limit` bytes remain. Other processes may prune or use the folder at the same time. Thread-safe.
  void prune(uint64_t limit) const;

  CacheFolder(const CacheFolder &) = delete;
  CacheFolder &operator=(const CacheFolder &) = delete;

 private:
  bool read_secret();
  bool make_secret();

  std::string path_;
  int folder_ = -1;
  Secret secret_ = {};
};

Secret random_secret();

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_CACHE_FOLDER_H_
