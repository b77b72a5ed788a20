// A DataLoader that copies each piece to a separate allocation, so that a sanitizer detects accesses past the piece's
// end or after its release. The loader also counts bytes, and can simulate failures.
#ifndef EDGECORE_TESTS_PIECES_LOADER_H_
#define EDGECORE_TESTS_PIECES_LOADER_H_

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "edgecore/data_loader.h"

namespace edgecore {

class PiecesLoader final : public DataLoader {
 public:
  explicit PiecesLoader(Bytes file) : file_(file) {}
  ~PiecesLoader() {
    for (const auto &[data, size] : pieces_) free(const_cast<uint8_t *>(data));
  }

  uint64_t size() const override { return file_.size(); }

  Result<Bytes> load(uint64_t offset, size_t size, LoadUse use, Error &error) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    uses.push_back(use);
    if (uses.size() == fail_at) {
      return silent ? Status(EDGECORE_ACCESS_FAILED)
                    : fail(error, EDGECORE_ACCESS_FAILED, "The disk has a bad sector.");
    }
    EDGECORE_TRY(check_range(file_.size(), offset, size, "The file", error));
    void *memory = nullptr;
    if (size == 0 || posix_memalign(&memory, 128, size + shift) != 0) abort();
    auto *data = static_cast<uint8_t *>(memory);
    memcpy(data + shift, file_.data() + offset, size);
    const size_t returned = size - std::min(size, missing);
    pieces_[data] = returned;
    held += returned;
    peak = std::max(peak, held);
    return Bytes(data + shift, returned);
  }

  void release(Bytes bytes) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto piece = pieces_.find(bytes.data() - shift);
    if (piece == pieces_.end() || piece->second != bytes.size()) abort();
    held -= bytes.size();
    free(const_cast<uint8_t *>(piece->first));
    pieces_.erase(piece);
  }

  size_t count(LoadUse use) const { return static_cast<size_t>(std::count(uses.begin(), uses.end(), use)); }

  std::vector<LoadUse> uses;  // of all calls of load
  uint64_t held = 0;          // number of bytes not released yet
  uint64_t peak = 0;          // maximum of `held`
  size_t fail_at = 0;         // number of the failing call of load, from 1; 0: none
  bool silent = false;        // the failure has no message
  size_t missing = 0;         // number of bytes that load leaves out
  size_t shift = 0;           // distance of the address that load returns from a multiple of 128

 private:
  const Bytes file_;
  std::mutex mutex_;
  std::map<const uint8_t *, size_t> pieces_;
};

}  // namespace edgecore

#endif  // EDGECORE_TESTS_PIECES_LOADER_H_
