// Tokens that are found in a text before anything else: special tokens, and those that were added to a vocabulary.
#ifndef EDGECORE_LLM_ADDED_TOKENS_H_
#define EDGECORE_LLM_ADDED_TOKENS_H_

#include <array>
#include <string>
#include <vector>

#include "byte_table.h"
#include "regular_expression.h"

namespace edgecore::llm {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool is_special = false;
  bool is_normalized = false;   // it is found in the text after the normalizer
  bool is_single_word = false;  // it is found only where no word character is next to it
  bool eats_left = false;       // white space before it belongs to it
  bool eats_right = false;
};

// A part of a text: a token, or text between tokens (-1).
struct TextPart {
  Range range;
  int32_t token = -1;
};

class AddedTokens {
 public:
  // Adds a token that is found where the text has `spelling`, which is not empty.
  void add(const AddedToken &token, const std::string &spelling);

  // Appends the parts of a text; no part is empty text. Of tokens that begin at one place the longest is found, before
  // those that begin later. Special tokens stay text unless `specials`.
  void split(const std::string &text, bool specials, std::vector<TextPart> &parts) const;

 private:
  const AddedToken *find(const std::string &text, size_t place, size_t &size) const;

  std::vector<AddedToken> tokens_;
  ByteTable spellings_;                             // to the index of their tokens
  std::array<std::vector<size_t>, 256> lengths_{};  // of the spellings with this first byte, falling
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_ADDED_TOKENS_H_
