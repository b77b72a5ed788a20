// Text to tokens and back.
#ifndef EDGECORE_LLM_TOKENIZER_H_
#define EDGECORE_LLM_TOKENIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore::llm {

struct EncodeOptions {
  bool bos = false;  // begin with bos_id(), if texts of the model do
  // Text that spells a special token, such as <|eot_id|>, becomes this token. Wrong for what users write.
  bool specials = false;
};

// Immutable: threads may share it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  size_t vocabulary() const { return vocabulary_; }                 // the number of ids: one more than the largest
  int32_t bos_id() const { return bos_id_; }                        // the token that begins a text, or -1
  bool adds_bos() const { return adds_bos_; }                       // texts really begin with it
  const std::vector<int32_t> &eos_ids() const { return eos_ids_; }  // the tokens that end a text
  // Returns true if a text gets a space at its front, which decoding takes away again.
  bool strips_first_space() const { return strips_first_space_; }

  // Sets `tokens` to the tokens of a text. Bytes that are not UTF-8 count as U+FFFD. Errors: NOT_SUPPORTED (the search
  // for the pattern that splits texts exceeds its limits).
  Status encode(StringView text, const EncodeOptions &options, std::vector<int32_t> &tokens, Error &error) const;

  // Returns the text of tokens, with special ones spelled only if asked for. Bytes that are no UTF-8 become U+FFFD.
  std::string decode(Span<const int32_t> tokens, bool specials = false) const;

  // Returns the bytes that a token stands for within a text, which may be a part of a character. An id without a token
  // stands for none.
  virtual std::string token_bytes(int32_t token) const = 0;

  // Returns true if a token is no text: the begin or end of a text, a role, padding.
  virtual bool is_special(int32_t token) const = 0;

 protected:
  // Appends the tokens of a text in UTF-8.
  virtual Status append(const std::string &text, bool specials, std::vector<int32_t> &tokens, Error &error) const = 0;

  size_t vocabulary_ = 0;
  int32_t bos_id_ = -1;
  bool adds_bos_ = true;
  std::vector<int32_t> eos_ids_;
  bool strips_first_space_ = false;
};

// Opens a folder, preferring its tokenizer.json to tokenizer.model and tokenizer.bin, or one of these files: a
// tokenizer.json of Hugging Face with BPE, ranks of tiktoken with the pattern and special tokens of Llama 3, or a file
// of llama2.c. Errors: NOT_FOUND, ACCESS_FAILED, INVALID_EXTERNAL_DATA (damaged), NOT_SUPPORTED (of another kind).
Status open_tokenizer(const char *path, std::unique_ptr<Tokenizer> &tokenizer, Error &error);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_TOKENIZER_H_
