// A .ptd file: tensors and bytes of delegates by name, apart from the programs that use them.
#ifndef EDGECORE_DATA_H_
#define EDGECORE_DATA_H_

#include "edgecore/allocator.h"
#include "edgecore/limits.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// An entry of a data file.
struct NamedBytes {
  Bytes bytes;
  bool has_layout = false;  // the entry is a tensor, described by the other members
  int32_t scalar_type = 0;
  Span<const int32_t> sizes;
  Span<const uint8_t> dim_order;
};

struct DataTables;  // core/data.cpp

// Immutable; may serve several programs at a time.
class DataFile {
 public:
  // Reads and verifies a whole .ptd file. `file` stays borrowed: data are used in place; everything that is checked is
  // copied first. `name` (its path) is for sentences and stays borrowed as well. The DataFile lives in `allocator` and
  // needs no destruction. Errors: INVALID_EXTERNAL_DATA (not a .ptd, truncated or inconsistent), NOT_SUPPORTED (a newer
  // version), MEMORY_ALLOCATION_FAILED.
  static Result<const DataFile *> load(Bytes file, StringView name, Allocator *allocator, const Limits &limits,
                                       Error &error);

  StringView name() const { return name_; }
  size_t count() const { return keys_.size(); }
  StringView key(size_t index) const;  // in the order of their bytes
  // Returns the entry of this name; `bytes.data()` is NULL if there is none.
  NamedBytes find(StringView key) const;
  bool contains(StringView key) const;
  uint64_t bytes() const;  // of all data

  DataFile(StringView name, const DataTables *tables, Span<const uint32_t> keys)
      : name_(name), tables_(tables), keys_(keys) {}

 private:
  StringView name_;
  const DataTables *tables_;
  Span<const uint32_t> keys_;  // indices of the named data, sorted by key
};

// Fails if two of the files have one name, which is ambiguous; the sentence gives the name and both files.
Status check_data_files(Span<const DataFile *const> files, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_DATA_H_
