// JSON (RFC 8259) as small configuration files need it: an object of strings, integers and truth values, and of objects
// of these. Everything else is refused: arrays, null, fractions, deeper objects, a key that occurs twice.
#ifndef EDGECORE_HOST_FLAT_JSON_H_
#define EDGECORE_HOST_FLAT_JSON_H_

#include <string>
#include <vector>

#include "edgecore/status.h"

namespace edgecore {

enum class JsonType : uint8_t { kString, kInt, kBool, kObject };

struct JsonItem {
  std::string section;  // key of the object that holds it; empty at the top
  std::string key;      // never empty
  JsonType type = JsonType::kObject;
  std::string text;    // of a string: bytes as they stand there, without NUL
  int64_t number = 0;  // of a bool 0 or 1
};

// The items of `text` in their order; of an object the object itself first. At most 100 of them.
// Errors: INVALID_EXTERNAL_DATA with the line and what was expected there.
Status read_flat_json(StringView text, std::vector<JsonItem> &items, Error &error);

}  // namespace edgecore

#endif  // EDGECORE_HOST_FLAT_JSON_H_
