// .ptd files: tensors and data of delegates by name, stored outside of the programs that use them.
#ifndef EDGECORE_DATA_H_
#define EDGECORE_DATA_H_

#include "edgecore/allocator.h"
#include "edgecore/limits.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// The data stored under one key of a .ptd file: the bytes of a tensor or of anything else.
struct NamedBytes {
  Bytes bytes;
  bool has_layout = false;  // the entry is a tensor, described by the other members
  int32_t scalar_type = 0;
  Span<const int32_t> sizes;
  Span<const uint8_t> dim_order;
};

struct DataTables;  // core/data.cpp

// A verified .ptd file. Immutable; several programs may use it at the same time.
class DataFile {
 public:
  // Reads and verifies a whole .ptd file. The data are used in place, so `file` must outlive the DataFile; the
  // flatbuffer part is copied before it is verified, so that a later change of the file has no effect on it. `name`
  // (the path) is for error messages and must outlive the DataFile too. The DataFile lives in `allocator` and needs no
  // destruction.
  // Errors: INVALID_EXTERNAL_DATA (not a .ptd, truncated or inconsistent), NOT_SUPPORTED (a newer version),
  // MEMORY_ALLOCATION_FAILED.
  static Result<const DataFile *> load(Bytes file, StringView name, Allocator *allocator, const Limits &limits,
                                       Error &error);

  StringView name() const { return name_; }
  size_t count() const { return keys_.size(); }  // of entries
  StringView key(size_t index) const;            // sorted byte by byte
  // Returns the entry with this key; `bytes.data()` is NULL if there is none.
  NamedBytes find(StringView key) const;
  bool contains(StringView key) const;
  uint64_t bytes() const;  // size of all data

  DataFile(StringView name, const DataTables *tables, Span<const uint32_t> keys)
      : name_(name), tables_(tables), keys_(keys) {}

 private:
  StringView name_;
  const DataTables *tables_;
  Span<const uint32_t> keys_;  // indices of the named data, sorted by key
};

// Fails if two of the files contain the same key, which is ambiguous; the error names the key and both files. Errors:
// INVALID_EXTERNAL_DATA.
Status check_data_files(Span<const DataFile *const> files, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_DATA_H_
