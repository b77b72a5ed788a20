// .ptd files: tensors and data of delegates by name, stored outside of the programs that use them.
#ifndef EDGECORE_DATA_H_
#define EDGECORE_DATA_H_

#include "edgecore/allocator.h"
#include "edgecore/data_loader.h"
#include "edgecore/limits.h"
#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore {

// The data stored under one key of a .ptd file: the bytes of a tensor or of anything else.
struct NamedBytes {
  Bytes bytes;
  bool has_layout = false;  // true if the entry is a tensor, which scalar_type, sizes and dim_order describe
  int32_t scalar_type = 0;
  Span<const int32_t> sizes;
  Span<const uint8_t> dim_order;
};

struct DataTables;  // defined in core/data.cpp

// A verified .ptd file. Immutable: several programs may use the same DataFile at the same time.
class DataFile {
 public:
  // Loads and verifies the tables of a .ptd file. The flatbuffer is copied before it is verified, so that later changes
  // of the file cannot affect the tables. The data of an entry are loaded when they are needed. `loader` and `name`
  // (the path, for error messages) must outlive the DataFile. The DataFile lives in memory of `allocator` and needs no
  // destruction. Errors: INVALID_EXTERNAL_DATA (not a .ptd, truncated or inconsistent), NOT_SUPPORTED (a newer
  // version), MEMORY_ALLOCATION_FAILED, and the errors of the loader.
  static Result<const DataFile *> load(DataLoader &loader, StringView name, Allocator *allocator, const Limits &limits,
                                       Error &error);

  StringView name() const { return name_; }
  size_t count() const { return keys_.size(); }  // number of entries
  StringView key(size_t index) const;            // key number `index`; keys are sorted byte by byte

  // Sets `result` to the entry with this key. The entry's bytes stay valid as long as the loader. Errors: NOT_FOUND,
  // without a message, and the errors of the loader.
  Status find(StringView key, NamedBytes &result, Error &error) const;
  bool contains(StringView key) const;
  // Returns the bytes of entry `index`, valid until the caller passes them to release(). Errors: as the loader.
  Result<Bytes> borrow(size_t index, Error &error) const;
  void release(Bytes bytes) const;
  uint64_t bytes() const;  // size of all data

  DataFile(StringView name, const DataTables *tables, Span<const uint32_t> keys)
      : name_(name), tables_(tables), keys_(keys) {}

 private:
  const uint32_t *position(StringView key) const;  // returns the entry of `keys_` for `key`; NULL: no such key

  StringView name_;
  const DataTables *tables_;
  Span<const uint32_t> keys_;  // indices of the file's entries, sorted by the entries' keys
};

// Fails if two of the files contain the same key, because a look-up of that key would be ambiguous. The error names the
// key and both files. Errors: INVALID_EXTERNAL_DATA.
Status check_data_files(Span<const DataFile *const> files, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_DATA_H_
