// The source of the bytes of a .pte or .ptd file: memory, a file (edgecore/file_data_loader.h), or a class of the
// application.
#ifndef EDGECORE_DATA_LOADER_H_
#define EDGECORE_DATA_LOADER_H_

#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// The purpose for which the runtime asks a DataLoader for bytes.
enum class LoadUse : uint8_t {
  kTables,        // flatbuffers of the file; copied and released, or kept (see ProgramConfig::tables_in_place)
  kConstants,     // constant tensors; kept, unless they are loaded only to check their SHA-256
  kInitialState,  // initial values of mutable buffers; never released
  kDelegate,      // the blob of a delegate; released when the backend or the method releases it
  kNamedData,     // bytes that backends, or tensors of a .ptd file, find by a key; kept or released like kConstants
};

// Supplies the bytes of one file, piece by piece. Bytes that the runtime keeps without releasing them must stay valid
// until the loader is destroyed. The runtime loads a segment when it is first needed, and keeps no copy. If two threads
// load the same segment at the same time, the runtime keeps the bytes of one load and releases the others.
class DataLoader {
 public:
  // Returns the size of the file in bytes. It never changes.
  virtual uint64_t size() const = 0;

  // Returns exactly `size` bytes (`size` is at least 1) from byte `offset` of the file. The address must be divisible
  // by the largest power of two, up to 16, that divides `offset`: by 8 for offset 24. A file that was compiled with a
  // greater segment_alignment (for DMA, or for whole pages) needs a loader that keeps that alignment. May be called
  // from several threads at the same time. On failure `error` receives one sentence that names the source, or stays
  // empty: in that case the runtime's message says which bytes are missing.
  virtual Result<Bytes> load(uint64_t offset, size_t size, LoadUse use, Error &error) = 0;

  // Takes back the whole result of one call of load. May be called from several threads at the same time.
  virtual void release(Bytes bytes) = 0;

  // Returns the number of readable bytes after the end of every result of load; their content does not matter. Some
  // backends read past the end of a tensor; if the tail is too short for a backend, the runtime copies the tensor.
  virtual size_t tail() const { return 0; }

 protected:
  ~DataLoader() = default;
};

// A file in memory that is always addressable, such as flash or a buffer of the application: nothing is copied.
class BufferDataLoader final : public DataLoader {
 public:
  // `file` must not change or move while the loader is in use, and `tail` bytes after it must be readable. The address
  // of `file` should be a multiple of 128. If it is not even a multiple of 16, segments may be refused as misaligned.
  explicit BufferDataLoader(Bytes file, size_t tail = 0) : file_(file), tail_(tail) {}

  uint64_t size() const override { return file_.size(); }
  Result<Bytes> load(uint64_t offset, size_t size, LoadUse use, Error &error) override;
  void release(Bytes) override {}
  size_t tail() const override { return tail_; }

 private:
  Bytes file_;
  size_t tail_;
};

// Fails unless bytes [offset, offset + size) are within a file of `total` bytes. `name` is the name of the file.
// Errors: INVALID_ARGUMENT.
Status check_range(uint64_t total, uint64_t offset, uint64_t size, StringView name, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_DATA_LOADER_H_
