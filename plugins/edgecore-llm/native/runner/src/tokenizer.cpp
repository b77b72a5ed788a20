#include "edgecore/llm/tokenizer.h"

#include "utf8.h"

namespace edgecore::llm {

Status Tokenizer::encode(StringView text, const EncodeOptions &options, std::vector<int32_t> &tokens,
                         Error &error) const {
  tokens.clear();
  if (options.bos && adds_bos_ && bos_id_ >= 0) tokens.push_back(bos_id_);
  std::string valid;
  valid.reserve(text.size());
  append_valid_utf8(text, valid);
  return append(valid, options.specials, tokens, error);
}

std::string Tokenizer::decode(Span<const int32_t> tokens, bool specials) const {
  std::string bytes, text;
  bool strips = strips_first_space_;
  for (const int32_t token : tokens) {
    const bool is_special = this->is_special(token);
    if (is_special && !specials) continue;
    std::string found = token_bytes(token);
    if (strips && !is_special && !found.empty() && found[0] == ' ') found.erase(0, 1);
    strips = false;
    bytes += found;
  }
  append_valid_utf8({bytes.data(), bytes.size()}, text);
  return text;
}

}  // namespace edgecore::llm
