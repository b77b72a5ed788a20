// Hugging Face's tokenizer.json with byte-pair encoding. The encoding merges either bytes (GPT-2, Llama 3, Qwen), or
// characters, with `▁` for spaces (Llama 2, Gemma).
#ifndef EDGECORE_LLM_HUGGING_FACE_H_
#define EDGECORE_LLM_HUGGING_FACE_H_

#include <nlohmann/json_fwd.hpp>
#include <unordered_map>

#include "added_tokens.h"
#include "edgecore/llm/tokenizer.h"
#include "merge.h"
#include "splitter.h"

namespace edgecore::llm {

struct ModelTables;

class HuggingFaceTokenizer final : public Tokenizer, private MergeRules {
 public:
  // Reads the text of a tokenizer.json. `path` is for error messages. Errors: INVALID_EXTERNAL_DATA, NOT_SUPPORTED.
  Status read(const std::string &content, const std::string &path, Error &error);

  // Reads which tokens begin and end a text. The arguments are the contents of tokenizer_config.json and
  // generation_config.json, which may be empty. `folder` is for error messages. Errors: INVALID_EXTERNAL_DATA.
  Status read_settings(const std::string &config, const std::string &generation, const std::string &folder,
                       Error &error);

  std::string token_bytes(int32_t token) const override;
  bool is_special(int32_t token) const override;

 private:
  Status read_parts(const nlohmann::json &json, const ModelTables &tables, Error &error);
  Status read_model(const nlohmann::json &model, Error &error);
  Status read_tables(const ModelTables &tables, Error &error);
  Status read_added(const nlohmann::json &json, Error &error);
  Status read_decoder(const nlohmann::json &json, Error &error);
  int32_t id_of(const nlohmann::json *token) const;

  Status append(const std::string &text, bool specials, std::vector<int32_t> &tokens, Error &error) const override;
  Status append_text(const std::string &text, bool is_at_begin, std::vector<int32_t> &tokens, Error &error) const;
  void append_piece(const std::string &piece, std::vector<int32_t> &tokens) const;
  Merge find(int32_t left, int32_t right, StringView text) const override;

  std::vector<Normalization> normalizer_;
  std::vector<Splitting> pre_tokenizer_;
  bool is_byte_level_ = false;
  std::vector<std::string> spellings_;  // the spelling of each token of the model, by id; empty: no token
  ByteTable ids_;                       // maps spellings to ids
  ByteTable pieces_;                    // maps the bytes for which a token stands to its id
  PairTable merges_;
  bool ignores_merges_ = false;  // true: a piece of text that is a token becomes this token, without merges
  bool has_byte_fallback_ = false;
  int32_t byte_ids_[256];  // ids of the tokens <0x00> to <0xFF>, or -1
  std::string unknown_token_;
  int32_t unknown_id_ = -1;
  bool fuses_unknown_ = false;
  std::unordered_map<int32_t, AddedToken> added_;
  std::unordered_map<std::string, int32_t> added_ids_;
  AddedTokens raw_added_;         // added tokens to find in the original text
  AddedTokens normalized_added_;  // added tokens to find in the normalized text
  int32_t begin_id_ = -1;         // the token that the file puts before every text, or -1
};

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_HUGGING_FACE_H_
