#include "mutate_tree.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <iterator>

namespace edgecore::fuzz {
namespace {

using reflection::BaseType;
using reflection::Field;

constexpr size_t kLongest = 64;  // maximum number of elements of a vector that a mutation lengthens

constexpr uint64_t kNumbers[] = {0,          1,          2,          3,          4,          5,          7,
                                 8,          15,         16,         31,         32,         64,         100,
                                 127,        128,        255,        256,        1000,       4095,       4096,
                                 32767,      32768,      65535,      65536,      0x7FFFFFFE, 0x7FFFFFFF, 0x80000000,
                                 0xFFFFFFFE, 0xFFFFFFFF, 1ull << 32, 1ull << 62, INT64_MAX,  1ull << 63, UINT64_MAX - 1,
                                 UINT64_MAX};
constexpr double kReals[] = {0.0,   -0.0, 1.0,  -1.0,  0.5,      1e-45,     1e-30, 1e-7,
                             255.0, 1e9,  3e38, 1e300, INFINITY, -INFINITY, NAN};

// A field of one table of the tree.
template <typename RecordType, typename ContentType>
struct At {
  const Field *field;
  RecordType *record;
  size_t id;
  ContentType &content() const { return record->fields[id]; }
  BaseType base() const { return field->type()->base_type(); }
  BaseType element() const { return field->type()->element(); }
};
using Place = At<Record, Content>;
using Source = At<const Record, const Content>;

template <typename Each, typename RecordType>
void collect(const Schema &schema, RecordType &record, std::vector<Each> &out) {
  const std::vector<const Field *> &fields = schema.fields(record.type);
  for (size_t i = 0; i < fields.size(); ++i) {
    out.push_back({fields[i], &record, i});
    for (auto &member : record.fields[i].records) collect(schema, member, out);
  }
}

class Change {
 public:
  Change(const Schema &schema, Record &root, const Record &donor, Random &random)
      // copy `donor`: it may be `root`, which is mutated
      : schema_(schema), random_(random), donor_(donor) {
    collect(schema, root, places_);
    collect(schema, donor_, sources_);
  }

  void make() {
    if (random_.one_in(4) && rename()) return;
    Place place = places_[random_.below(places_.size())];
    for (int i = 0; i < 2 && !place.content().present; ++i) place = places_[random_.below(places_.size())];
    // the field is the tag of a union: mutate the union itself, which is the next field
    if (place.base() == reflection::UType) {
      place = {schema_.fields(place.record->type)[place.id + 1], place.record, place.id + 1};
    }
    Content &content = place.content();
    if (!content.present) {
      content.present = true;
      fill(place);
    } else if (random_.one_in(12)) {
      content = {};
    } else {
      change(place);
    }
  }

 private:
  uint64_t number() {
    const uint64_t number = kNumbers[random_.below(std::size(kNumbers))];
    return random_.one_in(4) ? 0 - number : number;
  }

  uint64_t real(BaseType type) {
    const double real = kReals[random_.below(std::size(kReals))];
    uint64_t bits = 0;
    if (type == reflection::Double) {
      memcpy(&bits, &real, sizeof(real));
    } else {
      const float narrow = real == 1e300 ? INFINITY : static_cast<float>(real);
      memcpy(&bits, &narrow, sizeof(narrow));
    }
    return bits;
  }

  // Returns another value for a scalar field: an enumerator, a special or nearby number, or a number from the tree.
  uint64_t scalar(const Field &field, BaseType type, uint64_t old) {
    const size_t choice = random_.below(8);
    if (field.type()->index() >= 0 && type != reflection::Obj && choice != 0) {
      const auto &values = *schema_.enumeration(field.type()->index())->values();
      return static_cast<uint64_t>(values.Get(static_cast<uint32_t>(random_.below(values.size())))->value());
    }
    if (type == reflection::Float || type == reflection::Double) {
      if (choice < 6) return real(type);
      return old ^ uint64_t { 1 } << random_.below(scalar_size(type) * 8);
    }
    if (type == reflection::Bool) return random_.one_in(8) ? random_.below(256) : old ^ 1;
    if (choice < 2) return old + 1 + random_.below(2);
    if (choice < 3) return old - 1;
    if (choice < 4) return old ^ uint64_t { 1 } << random_.below(scalar_size(type) * 8);
    if (choice < 6) {
      const Source source = sources_[random_.below(sources_.size())];
      if (is_scalar(source.base()) && source.content().present) return source.content().number;
    }
    return choice == 7 ? random_.below(24) : number();
  }

  void set_element(const Place &place, size_t index) {
    const size_t size = scalar_size(place.element());
    uint64_t value = 0;
    memcpy(&value, place.content().bytes.data() + index * size, size);
    value = scalar(*place.field, place.element(), value);
    memcpy(place.content().bytes.data() + index * size, &value, size);
  }

  // Adds, removes, swaps or copies vector elements. T has the interface of std::vector; `fresh()` makes an element.
  template <typename T, typename Fresh>
  void change_length(T &elements, Fresh fresh) {
    const size_t count = elements.size();
    switch (count == 0 ? 0 : random_.below(6)) {
      case 0:
        elements.push_back(fresh());
        break;
      case 1:
        elements.erase(elements.begin() + static_cast<ptrdiff_t>(random_.below(count)));
        break;
      case 2:
        std::swap(elements[random_.below(count)], elements[random_.below(count)]);
        break;
      case 3: {
        auto copy = elements[random_.below(count)];
        elements.insert(elements.begin() + static_cast<ptrdiff_t>(random_.below(count + 1)), std::move(copy));
        break;
      }
      case 4:
        elements.resize(random_.below(count));
        break;
      default: {
        const auto copy = elements[random_.below(count)];
        elements.resize(std::max(count, random_.below(kLongest)), copy);
      }
    }
  }

  void change_scalars(const Place &place) {
    const size_t size = scalar_size(place.element());
    File &bytes = place.content().bytes;
    const size_t count = bytes.size() / size;
    if (count != 0 && !random_.one_in(3)) return set_element(place, random_.below(count));
    std::vector<uint64_t> numbers(count);
    for (size_t i = 0; i < count; ++i) memcpy(&numbers[i], bytes.data() + i * size, size);
    change_length(numbers, [&] { return scalar(*place.field, place.element(), 0); });
    bytes.resize(numbers.size() * size);
    for (size_t i = 0; i < numbers.size(); ++i) memcpy(bytes.data() + i * size, &numbers[i], size);
  }

  void change_text(File &text) {
    if (random_.one_in(3)) {
      const Source source = sources_[random_.below(sources_.size())];
      if (source.base() == reflection::String) {
        text = source.content().bytes;
        return;
      }
    }
    change_length(text, [&] { return static_cast<uint8_t>(random_.below(256)); });
  }

  // Returns a table of this type: a copy of a table in the tree or in the donor, or a new table without fields.
  Record table(const reflection::Object *type) {
    const Source *found = nullptr;
    size_t seen = 0;
    for (const Source &source : sources_) {
      if (source.id == 0 && source.record->type == type && random_.one_in(++seen)) found = &source;
    }
    return found == nullptr || random_.one_in(8) ? schema_.empty(type) : *found->record;
  }

  const reflection::Object *member_type(const Place &place) const {
    return schema_.object(place.field->type()->index());
  }

  // Gives a union another tag and a table of the tag's type, or no table if the tag has no type.
  void change_union(const Place &place) {
    Content &tag = place.record->fields[place.id - 1];
    const auto &values = *schema_.enumeration(place.field->type()->index())->values();
    const reflection::EnumVal &value = *values.Get(static_cast<uint32_t>(random_.below(values.size())));
    tag.present = true;
    tag.number = static_cast<uint64_t>(value.value());
    const reflection::Object *member = schema_.union_member(place.field, tag.number);
    if (member == nullptr) {
      place.content() = {};
    } else {
      place.content().present = true;
      place.content().records = {table(member)};
    }
  }

  void fill(const Place &place) {
    Content &content = place.content();
    if (is_scalar(place.base())) {
      content.number = scalar(*place.field, place.base(), content.number);
    } else if (place.base() == reflection::String) {
      change_text(content.bytes);
    } else if (place.base() == reflection::Obj) {
      content.records = {table(member_type(place))};
    } else if (place.base() == reflection::Union) {
      change_union(place);
    } else {
      change_vector(place);
    }
  }

  void change(const Place &place) {
    // Half of the mutations of a union change the union's tag. The fields of its table stay if the new tag has the same
    // table type.
    if (place.base() == reflection::Union && random_.one_in(2)) return retag(place);
    fill(place);
  }

  void retag(const Place &place) {
    const auto &values = *schema_.enumeration(place.field->type()->index())->values();
    const uint64_t tag =
        static_cast<uint64_t>(values.Get(static_cast<uint32_t>(random_.below(values.size())))->value());
    if (schema_.union_member(place.field, tag) == place.content().records[0].type) {
      place.record->fields[place.id - 1].number = tag;
    } else {
      change_union(place);
    }
  }

  void change_vector(const Place &place) {
    Content &content = place.content();
    if (is_scalar(place.element())) return change_scalars(place);
    if (place.element() == reflection::String) {
      if (!content.texts.empty() && random_.one_in(2))
        return change_text(content.texts[random_.below(content.texts.size())]);
      return change_length(content.texts, [] { return File(); });
    }
    if (!content.records.empty() && random_.one_in(6)) {
      content.records[random_.below(content.records.size())] = table(member_type(place));
    } else {
      change_length(content.records, [&] { return table(member_type(place)); });
    }
  }

  // Replaces one number by another wherever it occurs: in all fields with the same name, in all vectors, or in the
  // whole tree. Numbers that must be equal, such as an index in two tables, thus stay equal.
  bool rename() {
    const Field *only = random_.one_in(2) ? places_[random_.below(places_.size())].field : nullptr;
    const bool scalars = only != nullptr || random_.one_in(2);
    std::vector<uint64_t> numbers;
    each_number(only, scalars, [&](uint64_t each) {
      numbers.push_back(each);
      return each;
    });
    if (numbers.empty()) return false;
    const uint64_t old = numbers[random_.below(numbers.size())];
    uint64_t other = random_.one_in(3) ? numbers[random_.below(numbers.size())] : number();
    if (random_.one_in(3)) other = 1 + random_.below(12);
    each_number(only, scalars, [&](uint64_t each) { return each == old ? other : each; });
    return true;
  }

  template <typename Function>
  void each_number(const Field *only, bool scalars, Function function) {
    for (const Place &place : places_) {
      Content &content = place.content();
      const BaseType base = place.base(), element = place.element();
      if (!content.present || place.field->type()->index() >= 0) continue;  // skip enumerators and tables
      if (only != nullptr && place.field != only) continue;
      if (scalars && base >= reflection::Short && base <= reflection::ULong) {
        content.number = function(content.number);
      }
      if (base != reflection::Vector || element < reflection::Short || element > reflection::ULong) continue;
      const size_t size = scalar_size(element);
      for (size_t i = 0; i + size <= content.bytes.size(); i += size) {
        uint64_t number = 0;
        memcpy(&number, content.bytes.data() + i, size);
        number = function(number);
        memcpy(content.bytes.data() + i, &number, size);
      }
    }
  }

  const Schema &schema_;
  Random &random_;
  const Record donor_;
  std::vector<Place> places_;
  std::vector<Source> sources_;
};

}  // namespace

uint64_t Random::next() {
  uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

void mutate(const Schema &schema, Record &root, const Record &donor, Random &random) {
  Change(schema, root, donor, random).make();
}

}  // namespace edgecore::fuzz
