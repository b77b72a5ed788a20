// Decodes a flatbuffer of any schema to a tree, which the fuzzers' mutators change, and encodes the tree again. The
// schema has the binary form that `flatc --schema --bfbs-builtins` writes.
#ifndef EDGECORE_FUZZ_FLAT_TREE_H_
#define EDGECORE_FUZZ_FLAT_TREE_H_

#include <flatbuffers/reflection_generated.h>
#include <stddef.h>
#include <stdint.h>

#include <optional>
#include <unordered_map>
#include <vector>

namespace edgecore::fuzz {

using File = std::vector<uint8_t>;

struct Record;

// The content of one field of a table. The type of the field decides which members hold it.
struct Content {
  bool present = false;
  uint64_t number = 0;          // content of a scalar field: its bits
  File bytes;                   // content of a string, or of a vector of scalars: its bytes
  std::vector<File> texts;      // content of a vector of strings
  std::vector<Record> records;  // the table of a table or union field, or all tables of a vector
};

// A table of a flatbuffer: its type, and the contents of its fields in the order of their ids.
struct Record {
  const reflection::Object *type = nullptr;
  std::vector<Content> fields;
};

class Schema {
 public:
  explicit Schema(const uint8_t *binary);

  // Decodes a flatbuffer. Returns no tree if an offset or a length is out of bounds, or if there are too many tables.
  std::optional<Record> decode(const uint8_t *flat, size_t size) const;
  File encode(const Record &root) const;

  Record empty(const reflection::Object *type) const;
  // Returns the fields of a table type, in the order of their ids.
  const std::vector<const reflection::Field *> &fields(const reflection::Object *type) const;
  const reflection::Object *object(int32_t index) const {
    return schema_->objects()->Get(static_cast<uint32_t>(index));
  }
  const reflection::Enum *enumeration(int32_t index) const {
    return schema_->enums()->Get(static_cast<uint32_t>(index));
  }
  // Returns the type of the table that a union holds if its tag is `tag`; NULL if no table has this tag.
  const reflection::Object *union_member(const reflection::Field *field, uint64_t tag) const;

 private:
  const reflection::Schema *schema_;
  std::unordered_map<const reflection::Object *, std::vector<const reflection::Field *>> fields_;
};

// Returns the number of bytes of a scalar of this type.
size_t scalar_size(reflection::BaseType type);
inline bool is_scalar(reflection::BaseType type) { return type >= reflection::UType && type <= reflection::Double; }

}  // namespace edgecore::fuzz

#endif  // EDGECORE_FUZZ_FLAT_TREE_H_
