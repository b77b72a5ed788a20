#include "added_tokens.h"

#include <algorithm>

#include "unicode.h"
#include "utf8.h"

namespace edgecore::llm {
namespace {

// Returns the byte offset of the UTF-8 character that ends at offset `place`.
size_t before(const std::string &text, size_t place) {
  do {
    --place;
  } while ((static_cast<uint8_t>(text[place]) & 0xC0) == 0x80);
  return place;
}

bool stands_alone(const std::string &text, size_t begin, size_t end) {
  const bool is_begin = begin == 0 || !is_word(utf8_code(text.data() + before(text, begin)));
  return is_begin && (end == text.size() || !is_word(utf8_code(text.data() + end)));
}

}  // namespace

void AddedTokens::add(const AddedToken &token, const std::string &spelling) {
  spellings_.add({spelling.data(), spelling.size()}, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
  std::vector<size_t> &lengths = lengths_[static_cast<uint8_t>(spelling[0])];
  const auto place = std::lower_bound(lengths.begin(), lengths.end(), spelling.size(), std::greater<>());
  if (place == lengths.end() || *place != spelling.size()) lengths.insert(place, spelling.size());
}

void AddedTokens::split(const std::string &text, bool specials, std::vector<TextPart> &parts) const {
  size_t done = 0;  // offset in bytes: the text before it is in `parts` already
  for (size_t place = 0, size = 1; place < text.size(); place += size) {
    const AddedToken *token = find(text, place, size);
    if (token == nullptr || (token->is_special && !specials)) continue;
    size_t begin = place, end = place + size;
    if (token->is_single_word && !stands_alone(text, begin, end)) continue;
    if (token->eats_left) {
      while (begin > done && is_space(utf8_code(text.data() + before(text, begin)))) begin = before(text, begin);
    }
    if (token->eats_right) {
      while (end < text.size() && is_space(utf8_code(text.data() + end))) end += utf8_size(text[end]);
    }
    if (done < begin) parts.push_back({{done, begin}, -1});
    parts.push_back({{begin, end}, token->id});
    done = end;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}, -1});
}

// Returns the longest added token at offset `place` of the text, and sets `size` to its length. If there is none,
// returns NULL and sets `size` to 1.
const AddedToken *AddedTokens::find(const std::string &text, size_t place, size_t &size) const {
  for (const size_t length : lengths_[static_cast<uint8_t>(text[place])]) {
    if (length > text.size() - place) continue;
    const int32_t index = spellings_.find({text.data() + place, length});
    if (index < 0) continue;
    size = length;
    return &tokens_[static_cast<size_t>(index)];
  }
  size = 1;
  return nullptr;
}

}  // namespace edgecore::llm
