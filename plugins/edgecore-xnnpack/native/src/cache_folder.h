// Packed weights in files, so that another process need not pack them: a folder that the
// user names.
//
// FOLDER/key holds the secret of the folder's identities, so that nobody makes a program whose weights pass for those
// of another. FOLDER/IDENTITY.packed is a header and a packing, complete from the moment on that it has its name.
// Whatever does not check is treated as missing, and replaced.
#ifndef EDGECORE_XNNPACK_CACHE_FOLDER_H_
#define EDGECORE_XNNPACK_CACHE_FOLDER_H_

#include <memory>
#include <string>

#include "hash.h"

namespace edgecore::xnnpack {

// What XNNPACK made of a filter and its bias. Never written to once others see it.
struct Packing {
  Identity identity;
  void *data = nullptr;
  uint64_t bytes = 0;
  void *mapping = nullptr;  // of a file; else `data` is of the heap
  uint64_t mapped = 0;

  ~Packing();
};

class CacheFolder {
 public:
  CacheFolder() = default;
  ~CacheFolder();

  // Makes the folder and its key if they are missing. False with a sentence in `problem`.
  bool Open(const char *path, std::string *problem);

  const Secret &secret() const { return secret_; }

  // NULL if there is no file, or if it is damaged, of another format or another user's. Thread-safe.
  std::unique_ptr<Packing> Load(const Identity &identity, const HashKey &key) const;

  // False with a sentence in `problem`. Thread-safe.
  bool Save(const Packing &packing, const HashKey &key, std::string *problem) const;

  // Removes packings, those first that were not used longest, until they are at most `limit` bytes, and what processes
  // that died left half written. Several processes may do it at once, and others use the files meanwhile. Thread-safe.
  void Prune(uint64_t limit) const;

  CacheFolder(const CacheFolder &) = delete;
  CacheFolder &operator=(const CacheFolder &) = delete;

 private:
  bool ReadSecret();
  bool MakeSecret();

  std::string path_;
  int folder_ = -1;
  Secret secret_ = {};
};

Secret RandomSecret();

}  // namespace edgecore::xnnpack

#endif  // EDGECORE_XNNPACK_CACHE_FOLDER_H_
