// A parser for the part of JSON (RFC 8259) that small configuration files need: an object of strings, integers,
// booleans, and objects of these. The parser refuses everything else: arrays, null, fractions, more deeply nested
// objects, and duplicate keys.
//
// nlohmann-json, which the runner of edgecore-llm uses, is not used here, because nlohmann-json would become a
// dependency of every C++ application just for small files, and because it accepts texts that this parser must refuse.
#ifndef EDGECORE_HOST_FLAT_JSON_H_
#define EDGECORE_HOST_FLAT_JSON_H_

#include <string>
#include <vector>

#include "edgecore/status.h"

namespace edgecore {

enum class JsonType : uint8_t { kString, kInt, kBool, kObject };

struct JsonItem {
  std::string section;  // key of the object that contains the item; empty: the outermost object
  std::string key;      // never empty
  JsonType type = JsonType::kObject;
  std::string text;    // content of a string item, with escapes replaced; contains no NUL
  int64_t number = 0;  // value of an integer item; 0 or 1 for a boolean
};

// Reads the items (at most 100) of a JSON object in the order of the text. A nested object is an item too, and precedes
// its own items. Errors: INVALID_EXTERNAL_DATA with the line and the expected syntax.
Status read_flat_json(StringView text, std::vector<JsonItem> &items, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_FLAT_JSON_H_
