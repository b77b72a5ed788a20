// Reads the vocabulary and the merges of a tokenizer.json without making JSON objects of them. These two tables are
// nearly the whole file; as JSON objects they would use many times their size in memory, and most of the loading time.
#ifndef EDGECORE_LLM_MODEL_TABLES_H_
#define EDGECORE_LLM_MODEL_TABLES_H_

#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "edgecore/span.h"

namespace edgecore::llm {

// The tables of a tokenizer.json. Strings point into the JSON text, or into `unescaped` if they have escapes.
struct ModelTables {
  std::vector<std::pair<StringView, int32_t>> vocabulary;  // spelling and id of each token; -1: no valid id in the file
  std::vector<std::pair<StringView, StringView>> merges;
  bool has_wrong_merge = false;  // true if a merge is neither a pair of strings nor a string with one space
  std::deque<std::string> unescaped;
};

// Parses a JSON text, and reads the object `model.vocab` and the array `model.merges` into the tables; in the returned
// JSON both are empty. For invalid JSON the result is not an object. The tables are valid as long as the text.
nlohmann::json read_tokenizer_json(const std::string &text, ModelTables &tables);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_MODEL_TABLES_H_
