// The vocabulary and the merges of a tokenizer.json, which are nearly all of it. As JSON objects they would take many
// times their bytes, and most of the time of reading.
#ifndef EDGECORE_LLM_MODEL_TABLES_H_
#define EDGECORE_LLM_MODEL_TABLES_H_

#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "edgecore/span.h"

namespace edgecore::llm {

// The strings lie in the text, or in `unescaped` if they have escapes there.
struct ModelTables {
  std::vector<std::pair<StringView, int32_t>> vocabulary;  // the id is -1 if it is no number from 0 on
  std::vector<std::pair<StringView, StringView>> merges;
  bool has_wrong_merge = false;  // one is neither a pair of strings nor a string with one space
  std::deque<std::string> unescaped;
};

// Reads a text of JSON, in which the object `model.vocab` and the array `model.merges` become empty, and these two. The
// result is no object if the text is none. The tables are valid as long as the text.
nlohmann::json read_tokenizer_json(const std::string &text, ModelTables &tables);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_MODEL_TABLES_H_
