#include "llama2c.h"

#include <cstring>

#include "utf8.h"

namespace edgecore::llm {
namespace {

constexpr int32_t kBos = 1, kEos = 2, kFirstByte = 3, kSmallest = kFirstByte + 256;
constexpr size_t kHead = 8;  // bytes of a token's score and length, which precede its text in the file

uint32_t word(const char *bytes) {  // little-endian
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

}  // namespace

Status Llama2cTokenizer::read(const std::string &content, const std::string &path, Error &error) {
  for (size_t place = 4; place < content.size();) {
    const size_t count = pieces_.size();
    if (content.size() - place < kHead) {
      return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, path.c_str(), " is truncated: it ends within token ", count,
                  ".");
    }
    const uint32_t bits = word(content.data() + place);
    const auto length = static_cast<int32_t>(word(content.data() + place + 4));
    place += kHead;
    if (length < 0 || static_cast<size_t>(length) > content.size() - place) {
      return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, path.c_str(), " is truncated or damaged: token ", count,
                  " has ", length, " bytes.");
    }
    float score;
    std::memcpy(&score, &bits, sizeof score);
    pieces_.emplace_back(content.data() + place, static_cast<size_t>(length));
    scores_.push_back(score);
    place += static_cast<size_t>(length);
  }
  if (pieces_.size() < static_cast<size_t>(kSmallest)) {
    return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, path.c_str(), " is no tokenizer of llama2.c: it has ",
                pieces_.size(), " tokens.");
  }
  for (size_t i = kSmallest; i < pieces_.size(); ++i) {
    ids_.add({pieces_[i].data(), pieces_[i].size()}, static_cast<int32_t>(i));
  }
  vocabulary_ = pieces_.size();
  bos_id_ = kBos;
  eos_ids_ = {kEos};
  strips_first_space_ = true;
  return {};
}

std::string Llama2cTokenizer::token_bytes(int32_t token) const {
  if (token >= kFirstByte && token < kSmallest) return std::string(1, static_cast<char>(token - kFirstByte));
  return token >= 0 && static_cast<size_t>(token) < vocabulary_ ? pieces_[static_cast<size_t>(token)] : "";
}

bool Llama2cTokenizer::is_special(int32_t token) const { return token >= 0 && token < kFirstByte; }

Status Llama2cTokenizer::append(const std::string &text, bool, std::vector<int32_t> &tokens, Error &) const {
  if (text.empty()) return {};
  const std::string spaced = " " + text;
  std::vector<Symbol> symbols;
  for (size_t place = 0; place < spaced.size();) {
    const size_t size = utf8_size(spaced[place]);
    const int32_t known = ids_.find({spaced.data() + place, size});
    if (known >= 0) {
      symbols.push_back({size, known});
    } else {
      for (size_t i = 0; i < size; ++i) {
        symbols.push_back({1, kFirstByte + static_cast<uint8_t>(spaced[place + i])});
      }
    }
    place += size;
  }
  merge_symbols({spaced.data(), spaced.size()}, *this, symbols);
  for (const Symbol &symbol : symbols) tokens.push_back(symbol.token);
  return {};
}

Merge Llama2cTokenizer::find(int32_t left, int32_t right, StringView text) const {
  if (left < kSmallest || right < kSmallest) return {};
  const int32_t token = ids_.find(text);
  if (token < 0) return {};
  return {-static_cast<double>(scores_[static_cast<size_t>(token)]), token};
}

}  // namespace edgecore::llm
