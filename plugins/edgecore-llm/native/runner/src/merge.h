// Byte-pair encoding: merges adjacent symbols in the order of the vocabulary's merges.
#ifndef EDGECORE_LLM_MERGE_H_
#define EDGECORE_LLM_MERGE_H_

#include <vector>

#include "byte_table.h"

namespace edgecore::llm {

// A part of a text with its token. The token is -1 if the part never merges with a neighbour.
struct Symbol {
  size_t size = 0;  // in bytes
  int32_t token = -1;
};

class MergeRules {
 public:
  // Returns the merge of two adjacent symbols with the tokens `left` and `right`, which together spell `text`.
  virtual Merge find(int32_t left, int32_t right, StringView text) const = 0;

 protected:
  ~MergeRules() = default;
};

// Merges the symbols of a text until no pair has a merge. Of pairs with equal orders, the leftmost is merged first.
void merge_symbols(StringView text, const MergeRules &rules, std::vector<Symbol> &symbols);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_MERGE_H_
