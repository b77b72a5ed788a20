// Converts text to tokens and tokens to text.
#ifndef EDGECORE_LLM_TOKENIZER_H_
#define EDGECORE_LLM_TOKENIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "edgecore/span.h"
#include "edgecore/status.h"

namespace edgecore::llm {

struct EncodeOptions {
  bool bos = false;  // true: encoding puts bos_id() first, if the model's texts begin with it

  // true: encode the spelling of a special token, such as <|eot_id|>, as this token. Leave it false for text from
  // users.
  bool specials = false;
};

// A tokenizer. It is immutable, so threads may share it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  size_t vocabulary() const { return vocabulary_; }                 // number of token ids: the largest id plus one
  int32_t bos_id() const { return bos_id_; }                        // the token that begins a text, or -1
  bool adds_bos() const { return adds_bos_; }                       // true if the model's texts begin with bos_id()
  const std::vector<int32_t> &eos_ids() const { return eos_ids_; }  // the tokens that end a text

  // Returns true if encoding puts a space before a text, and decoding removes this space.
  bool strips_first_space() const { return strips_first_space_; }

  // Sets `tokens` to the tokens of a text. Bytes that are not UTF-8 count as U+FFFD. Errors: NOT_SUPPORTED (splitting
  // the text by the tokenizer's pattern exceeds the limits of the search).
  Status encode(StringView text, const EncodeOptions &options, std::vector<int32_t> &tokens, Error &error) const;

  // Returns the text of tokens, without special tokens unless `specials` is true. Bytes that are not UTF-8 become
  // U+FFFD.
  std::string decode(Span<const int32_t> tokens, bool specials = false) const;

  // Returns the bytes that a token adds to a text, perhaps only a part of a character; none if no token has this id.
  virtual std::string token_bytes(int32_t token) const = 0;

  // Returns true for a special token, which is not text, such as the beginning or end of a text, a chat role, or
  // padding.
  virtual bool is_special(int32_t token) const = 0;

 protected:
  // Appends the tokens of a text, which is valid UTF-8, to `tokens`.
  virtual Status append(const std::string &text, bool specials, std::vector<int32_t> &tokens, Error &error) const = 0;

  size_t vocabulary_ = 0;
  int32_t bos_id_ = -1;
  bool adds_bos_ = true;
  std::vector<int32_t> eos_ids_;
  bool strips_first_space_ = false;
};

// Opens a tokenizer from a file, or from a folder: its tokenizer.json, or else tokenizer.model or tokenizer.bin.
// Supports Hugging Face's tokenizer.json with BPE, tiktoken's ranks with the pattern and special tokens of Llama 3, and
// the format of llama2.c. Errors: NOT_FOUND, ACCESS_FAILED, INVALID_EXTERNAL_DATA (damaged), NOT_SUPPORTED (another
// kind).
Status open_tokenizer(const char *path, std::unique_ptr<Tokenizer> &tokenizer, Error &error);

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_TOKENIZER_H_
