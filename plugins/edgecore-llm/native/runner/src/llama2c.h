// The file tokenizer.bin of llama2.c: the pieces and scores of a SentencePiece BPE model.
#ifndef EDGECORE_LLM_LLAMA2C_H_
#define EDGECORE_LLM_LLAMA2C_H_

#include "edgecore/llm/tokenizer.h"
#include "merge.h"

namespace edgecore::llm {

// A tokenizer of llama2.c. The file has a number (the maximum length) and, for each token, its score, its length and
// its bytes. The tokens 0, 1, 2 are the unknown token, the begin and the end of a text; the next 256 are single bytes.
class Llama2cTokenizer final : public Tokenizer, private MergeRules {
 public:
  // Reads a tokenizer.bin from its bytes `content`. `path` is for error messages. Errors: INVALID_EXTERNAL_DATA.
  Status read(const std::string &content, const std::string &path, Error &error);

  std::string token_bytes(int32_t token) const override;
  bool is_special(int32_t token) const override;

 private:
  Status append(const std::string &text, bool specials, std::vector<int32_t> &tokens, Error &error) const override;
  Merge find(int32_t left, int32_t right, StringView text) const override;

  std::vector<std::string> pieces_;
  std::vector<float> scores_;
  ByteTable ids_;
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_LLAMA2C_H_
