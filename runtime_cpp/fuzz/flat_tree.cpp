#include "flat_tree.h"

#include <flatbuffers/reflection.h>
#include <string.h>

namespace edgecore::fuzz {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::uoffset_t;
using reflection::BaseType;
using reflection::Field;

constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxTables = 2000;

// Converts a flatbuffer, which may be damaged, to a tree. flatbuffers::Verify, which works for any schema, cannot check
// the flatbuffer first, because flatbuffers::Verify itself reads out of bounds in a damaged flatbuffer.
class Reader {
 public:
  Reader(const Schema &schema, const uint8_t *flat, size_t size) : schema_(schema), flat_(flat), size_(size) {}

  std::optional<Record> read_root(const reflection::Object *type) {
    Record root = read_table(type, follow(0), kMaxDepth);
    return damaged_ ? std::nullopt : std::optional<Record>(std::move(root));
  }

 private:
  template <typename T>
  T number(size_t at) {
    T number = 0;
    damaged_ = damaged_ || at > size_ || size_ - at < sizeof(T);
    if (!damaged_) memcpy(&number, flat_ + at, sizeof(T));
    return number;
  }

  size_t follow(size_t at) { return at + number<uint32_t>(at); }

  File bytes(size_t at, size_t element) {
    const uint64_t size = uint64_t{number<uint32_t>(at)} * element;
    damaged_ = damaged_ || size > size_ - at - sizeof(uint32_t);
    return damaged_ ? File() : File(flat_ + at + 4, flat_ + at + 4 + size);
  }

  Record read_table(const reflection::Object *type, size_t at, size_t depth) {
    Record record = schema_.empty(type);
    const size_t vtable = at - static_cast<size_t>(int64_t{number<int32_t>(at)});
    const size_t vtable_size = number<uint16_t>(vtable);
    damaged_ = damaged_ || depth == 0 || ++tables_ > kMaxTables;
    const std::vector<const Field *> &fields = schema_.fields(type);
    for (size_t i = 0; i < fields.size() && !damaged_; ++i) {
      if (fields[i]->offset() + sizeof(uint16_t) > vtable_size) continue;
      const size_t offset = number<uint16_t>(vtable + fields[i]->offset());
      if (offset != 0) read_field(*fields[i], at + offset, depth, record, i);
    }
    return record;
  }

  void read_field(const Field &field, size_t at, size_t depth, Record &record, size_t id) {
    Content &content = record.fields[id];
    const BaseType base = field.type()->base_type(), element = field.type()->element();
    content.present = true;
    if (is_scalar(base)) {
      for (size_t i = 0; i < scalar_size(base); ++i) content.number |= uint64_t{number<uint8_t>(at + i)} << 8 * i;
    } else if (base == reflection::String) {
      content.bytes = bytes(follow(at), 1);
    } else if (base == reflection::Obj || base == reflection::Union) {
      const reflection::Object *member = base == reflection::Obj
                                             ? schema_.object(field.type()->index())
                                             : schema_.union_member(&field, record.fields[id - 1].number);
      content.present = member != nullptr;
      if (member != nullptr) content.records.push_back(read_table(member, follow(at), depth - 1));
    } else if (is_scalar(element)) {
      content.bytes = bytes(follow(at), scalar_size(element));
    } else {
      const size_t vector = follow(at);
      const uint32_t count = number<uint32_t>(vector);
      for (uint32_t i = 0; i < count && !damaged_; ++i) {
        const size_t to = follow(vector + sizeof(uint32_t) * (i + 1));
        if (element == reflection::String) {
          content.texts.push_back(bytes(to, 1));
        } else {
          content.records.push_back(read_table(schema_.object(field.type()->index()), to, depth - 1));
        }
      }
    }
  }

  const Schema &schema_;
  const uint8_t *flat_;
  size_t size_;
  size_t tables_ = 0;
  bool damaged_ = false;
};

uoffset_t write_scalars(FlatBufferBuilder &builder, const Field &field, const File &bytes) {
  const size_t size = scalar_size(field.type()->element());
  const size_t count = bytes.size() / size;
  const auto *attributes = field.attributes();
  const reflection::KeyValue *align = attributes == nullptr ? nullptr : attributes->LookupByKey("force_align");
  if (align != nullptr) builder.ForceVectorAlignment(count, size, strtoul(align->value()->c_str(), nullptr, 10));
  uint8_t *to = nullptr;
  const uoffset_t vector = builder.CreateUninitializedVector(count, size, &to);
  if (count != 0) memcpy(to, bytes.data(), count * size);
  return vector;
}

Offset<flatbuffers::String> write_text(FlatBufferBuilder &builder, const File &text) {
  return builder.CreateString(reinterpret_cast<const char *>(text.data()), text.size());
}

void add_number(FlatBufferBuilder &builder, uint16_t offset, BaseType type, uint64_t number) {
  switch (scalar_size(type)) {
    case 1:
      return builder.AddElement<uint8_t>(offset, static_cast<uint8_t>(number), 0);
    case 2:
      return builder.AddElement<uint16_t>(offset, static_cast<uint16_t>(number), 0);
    case 4:
      return builder.AddElement<uint32_t>(offset, static_cast<uint32_t>(number), 0);
    default:
      return builder.AddElement<uint64_t>(offset, number, 0);
  }
}

uoffset_t write_table(const Schema &schema, FlatBufferBuilder &builder, const Record &record) {
  const std::vector<const Field *> &fields = schema.fields(record.type);
  std::vector<uoffset_t> parts(fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    const Content &content = record.fields[i];
    const BaseType base = fields[i]->type()->base_type();
    if (!content.present || is_scalar(base)) continue;
    if (base == reflection::String) {
      parts[i] = write_text(builder, content.bytes).o;
    } else if (base == reflection::Obj || base == reflection::Union) {
      parts[i] = write_table(schema, builder, content.records[0]);
    } else if (is_scalar(fields[i]->type()->element())) {
      parts[i] = write_scalars(builder, *fields[i], content.bytes);
    } else {
      std::vector<Offset<void>> elements;
      for (const Record &element : content.records) elements.emplace_back(write_table(schema, builder, element));
      for (const File &text : content.texts) elements.emplace_back(write_text(builder, text).o);
      parts[i] = builder.CreateVector(elements).o;
    }
  }
  const uoffset_t start = builder.StartTable();
  for (size_t i = 0; i < fields.size(); ++i) {
    const BaseType base = fields[i]->type()->base_type();
    if (!record.fields[i].present) continue;
    if (is_scalar(base)) {
      add_number(builder, fields[i]->offset(), base, record.fields[i].number);
    } else {
      builder.AddOffset(fields[i]->offset(), Offset<void>(parts[i]));
    }
  }
  return builder.EndTable(start);
}

}  // namespace

size_t scalar_size(BaseType type) { return flatbuffers::GetTypeSize(type); }

Schema::Schema(const uint8_t *binary) : schema_(reflection::GetSchema(binary)) {
  for (const reflection::Object *type : *schema_->objects()) {
    std::vector<const Field *> &fields = fields_[type];
    fields.resize(type->fields()->size());
    for (const Field *field : *type->fields()) fields[field->id()] = field;
  }
}

Record Schema::empty(const reflection::Object *type) const { return {type, std::vector<Content>(fields(type).size())}; }

const std::vector<const Field *> &Schema::fields(const reflection::Object *type) const {
  return fields_.find(type)->second;
}

const reflection::Object *Schema::union_member(const Field *field, uint64_t tag) const {
  for (const reflection::EnumVal *value : *enumeration(field->type()->index())->values()) {
    if (tag != 0 && static_cast<uint64_t>(value->value()) == tag) return object(value->union_type()->index());
  }
  return nullptr;
}

std::optional<Record> Schema::decode(const uint8_t *flat, size_t size) const {
  return Reader(*this, flat, size).read_root(schema_->root_table());
}

File Schema::encode(const Record &root) const {
  FlatBufferBuilder builder;
  builder.ForceDefaults(true);
  const uoffset_t table = write_table(*this, builder, root);
  builder.Finish(Offset<void>(table), schema_->file_ident()->c_str());
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace edgecore::fuzz
