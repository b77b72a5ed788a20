#include "hugging_face.h"

#include "alphabet.h"
#include "utf8.h"

namespace edgecore::llm {

std::string HuggingFaceTokenizer::token_bytes(int32_t token) const {
  if (const auto added = added_.find(token); added != added_.end()) return added->second.content;
  if (token < 0 || static_cast<size_t>(token) >= spellings_.size()) return "";
  const std::string &spelling = spellings_[static_cast<size_t>(token)];
  bool is_whole = true;
  return is_byte_level_ ? bytes_of_spelling(spelling, is_whole) : bytes_of_sentence_piece(spelling);
}

bool HuggingFaceTokenizer::is_special(int32_t token) const {
  const auto added = added_.find(token);
  return added != added_.end() && added->second.is_special;
}

Status HuggingFaceTokenizer::append(const std::string &text, bool specials, std::vector<int32_t> &tokens,
                                    Error &error) const {
  std::vector<TextPart> parts, inner;
  raw_added_.split(text, specials, parts);
  for (const TextPart &part : parts) {
    if (part.token >= 0) {
      tokens.push_back(part.token);
      continue;
    }
    std::string normalized = text.substr(part.range.begin, part.range.end - part.range.begin);
    EDGECORE_TRY(normalize(normalizer_, normalized, error));
    inner.clear();
    normalized_added_.split(normalized, specials, inner);
    for (const TextPart &piece : inner) {
      if (piece.token >= 0) {
        tokens.push_back(piece.token);
        continue;
      }
      const bool is_at_begin = part.range.begin == 0 && piece.range.begin == 0;
      EDGECORE_TRY(append_text(normalized.substr(piece.range.begin, piece.range.end - piece.range.begin), is_at_begin,
                               tokens, error));
    }
  }
  return {};
}

// Appends the tokens of a normalized text that contains no added tokens.
Status HuggingFaceTokenizer::append_text(const std::string &text, bool is_at_begin, std::vector<int32_t> &tokens,
                                         Error &error) const {
  std::vector<Piece> pieces = {{text, is_at_begin}};
  EDGECORE_TRY(split(pre_tokenizer_, pieces, error));
  for (const Piece &piece : pieces) append_piece(piece.text, tokens);
  return {};
}

void HuggingFaceTokenizer::append_piece(const std::string &piece, std::vector<int32_t> &tokens) const {
  if (ignores_merges_) {
    if (const int32_t whole = pieces_.find({piece.data(), piece.size()}); whole >= 0) {
      tokens.push_back(whole);
      return;
    }
  }
  std::vector<Symbol> symbols;
  size_t unknown = 0;  // bytes of characters without a token, after the last symbol in `symbols`
  const auto add_unknown = [&] {
    if (unknown > 0) symbols.push_back({unknown, unknown_id_});
    unknown = 0;
  };
  for (size_t place = 0, size = 0; place < piece.size(); place += size) {
    size = is_byte_level_ ? 1 : utf8_size(piece[place]);
    const int32_t known = pieces_.find({piece.data() + place, size});
    if (known >= 0) {
      add_unknown();
      symbols.push_back({size, known});
      continue;
    }
    bool has_bytes = has_byte_fallback_;
    for (size_t i = 0; i < size && has_bytes; ++i) has_bytes = byte_ids_[static_cast<uint8_t>(piece[place + i])] >= 0;
    if (has_bytes) {
      for (size_t i = 0; i < size; ++i) symbols.push_back({1, byte_ids_[static_cast<uint8_t>(piece[place + i])]});
    } else if (unknown_id_ >= 0) {
      if (!fuses_unknown_) add_unknown();
      unknown += size;
    }
  }
  add_unknown();
  merge_symbols({piece.data(), piece.size()}, *this, symbols);
  for (const Symbol &symbol : symbols) tokens.push_back(symbol.token);
}

Merge HuggingFaceTokenizer::find(int32_t left, int32_t right, StringView) const { return merges_.find(left, right); }

}  // namespace edgecore::llm
