// The vocabulary and the merges of a tokenizer.json, which are nearly all of it. As JSON objects they would take many
// times their bytes, and most of the time of reading.
#ifndef EDGECORE_LLM_MODEL_TABLES_H_
#define EDGECORE_LLM_MODEL_TABLES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace edgecore::llm {

struct ModelTables {
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // the id is -1 if it is no number from 0 on
  std::vector<std::pair<std::string, std::string>> merges;
  bool has_wrong_merge = false;  // one is neither a pair of strings nor a string with one space
};

// Reads a text of JSON, in which `model.vocab` and `model.merges` become empty, and these two. The result is no object
// if the text is none.
nlohmann::json read_tokenizer_json(const std::string &text, ModelTables &tables);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_MODEL_TABLES_H_
