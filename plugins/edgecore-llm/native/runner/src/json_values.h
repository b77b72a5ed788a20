// Reads values of JSON objects, which may be missing or have another type.
#ifndef EDGECORE_LLM_JSON_VALUES_H_
#define EDGECORE_LLM_JSON_VALUES_H_

#include <nlohmann/json.hpp>
#include <string>

namespace edgecore::llm {

// Returns the value under a key, or NULL if there is none or if `json` is not an object.
inline const nlohmann::json *member(const nlohmann::json &json, const char *key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

// Returns the string under a key, or NULL.
inline const std::string *find_text(const nlohmann::json &json, const char *key) {
  const nlohmann::json *found = member(json, key);
  return found == nullptr ? nullptr : found->get_ptr<const std::string *>();
}

inline bool find_bool(const nlohmann::json &json, const char *key, bool otherwise) {
  const nlohmann::json *found = member(json, key);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : otherwise;
}

// Returns the value if it is a non-negative int32, otherwise -1.
inline int32_t token_of(const nlohmann::json &json) {
  if (!json.is_number_integer()) return -1;
  const auto value = json.get<int64_t>();
  return value < 0 || value > INT32_MAX ? -1 : static_cast<int32_t>(value);
}

// Returns a step's kind, the string under "type"; an empty string if there is none.
inline std::string kind_of(const nlohmann::json &json) {
  const std::string *found = find_text(json, "type");
  return found == nullptr ? std::string() : *found;
}

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_JSON_VALUES_H_
