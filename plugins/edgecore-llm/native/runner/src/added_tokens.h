// Tokens that are searched for in a text before it is encoded: special tokens, and tokens added to a vocabulary.
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
  bool is_normalized = false;   // true: search for the token after the text is normalized
  bool is_single_word = false;  // true: a match has no word characters next to it
  bool eats_left = false;       // true: a match includes the white space in front of it
  bool eats_right = false;
};

// A part of a text: an added token, or the text between two added tokens (then `token` is -1).
struct TextPart {
  Range range;
  int32_t token = -1;
};

class AddedTokens {
 public:
  // Adds a token with the spelling `spelling`, which is not empty.
  void add(const AddedToken &token, const std::string &spelling);

  // Divides a text into added tokens and the non-empty texts between them. If tokens overlap, the leftmost one is used;
  // of several with the same start, the longest one. Special tokens are treated as text unless `specials` is true.
  void split(const std::string &text, bool specials, std::vector<TextPart> &parts) const;

 private:
  const AddedToken *find(const std::string &text, size_t place, size_t &size) const;

  std::vector<AddedToken> tokens_;
  ByteTable spellings_;                             // maps the spelling of a token to its index in tokens_
  std::array<std::vector<size_t>, 256> lengths_{};  // by first byte: the lengths of spellings, in descending order
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_ADDED_TOKENS_H_
