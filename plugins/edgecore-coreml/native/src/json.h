// A parser of JSON (RFC 8259) for small texts in a blob, which may be damaged.
#ifndef EDGECORE_COREML_JSON_H_
#define EDGECORE_COREML_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace edgecore::coreml {

// A JSON value. Numbers with a fraction, integers of more than 64 bits, true, false and null have the kind kOther.
struct Json {
  enum class Kind { kOther, kInteger, kText, kArray, kObject };

  Kind kind = Kind::kOther;
  int64_t integer = 0;
  std::string text;
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> members;

  // Return the member `key` of an object; throw edgecore::backend::Failure if it is missing or has another kind.
  const Json &at(std::string_view key, Kind kind) const;
  uint64_t size_at(std::string_view key) const;  // a non-negative integer
  const std::string &text_at(std::string_view key) const { return at(key, Kind::kText).text; }
  std::vector<std::string> texts_at(std::string_view key) const;
  // Returns nullptr if there is no member `key`.
  const Json *find(std::string_view key) const;
};

// Parses the value at the start of `text`, and sets `*end` to its length in bytes. Throws edgecore::backend::Failure if
// there is no value, if an object has a key twice, or if the value is nested more than 16 levels deep.
Json parse_json(std::string_view text, size_t *end);

}  // namespace edgecore::coreml

#endif  // EDGECORE_COREML_JSON_H_
