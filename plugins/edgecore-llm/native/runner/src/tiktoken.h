// Ranks of tiktoken, as in the tokenizer.model of Llama 3: lines `BASE64 RANK`.
#ifndef EDGECORE_LLM_TIKTOKEN_H_
#define EDGECORE_LLM_TIKTOKEN_H_

#include "added_tokens.h"
#include "edgecore/llm/tokenizer.h"
#include "merge.h"

namespace edgecore::llm {

// Returns true if a file begins with a line `BASE64 RANK`.
bool has_ranks(const std::string &content);

// A tokenizer of tiktoken's ranks. The file lacks the pattern that splits a text, and the special tokens; this class
// uses the pattern and the special tokens of Llama 3.
class TiktokenTokenizer final : public Tokenizer, private MergeRules {
 public:
  // Reads a file of ranks from its bytes `content`. `path` is for error messages. Errors: INVALID_EXTERNAL_DATA.
  Status read(const std::string &content, const std::string &path, Error &error);

  std::string token_bytes(int32_t token) const override;
  bool is_special(int32_t token) const override;

 private:
  Status append(const std::string &text, bool specials, std::vector<int32_t> &tokens, Error &error) const override;
  Merge find(int32_t left, int32_t right, StringView text) const override;
  void append_piece(StringView piece, std::vector<int32_t> &tokens) const;
  Status read_ranks(const std::string &content, const std::string &path, Error &error);

  std::vector<std::string> bytes_;  // by id: the bytes of ranked tokens, then the names of special tokens
  size_t rank_count_ = 0;
  ByteTable ranks_;
  AddedTokens specials_;
  Regex pattern_;
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_TIKTOKEN_H_
