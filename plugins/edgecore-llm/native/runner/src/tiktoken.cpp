#include "tiktoken.h"

#include <algorithm>

namespace edgecore::llm {
namespace {

constexpr const char *kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s+(?!\S)|\s+)";
constexpr int32_t kSpecials = 256;

int sextet(char letter) {
  if (letter >= 'A' && letter <= 'Z') return letter - 'A';
  if (letter >= 'a' && letter <= 'z') return letter - 'a' + 26;
  if (letter >= '0' && letter <= '9') return letter - '0' + 52;
  return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

// Decodes base64 with padding. Returns false if the text is not base64.
bool decode(StringView text, std::string &bytes) {
  bytes.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  size_t size = text.size();
  for (int i = 0; i < 2 && text.data()[size - 1] == '='; ++i) --size;
  uint32_t bits = 0;
  for (size_t i = 0; i < size; ++i) {
    const int value = sextet(text.data()[i]);
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if (i % 4 != 0) bytes.push_back(static_cast<char>(bits >> (6 - 2 * (i % 4))));
  }
  return true;
}

// Reads a line `BASE64 RANK`: the bytes of a token, and its rank, which is its id. Returns false for any other line.
bool read_line(StringView line, std::string &bytes, size_t &rank) {
  size_t size = line.size();
  if (size > 0 && line.data()[size - 1] == '\r') --size;
  const char *space = std::find(line.data(), line.data() + size, ' ');
  const auto place = static_cast<size_t>(space - line.data());
  if (place + 1 >= size || size - place > 9 || !decode({line.data(), place}, bytes)) return false;
  rank = 0;
  for (size_t i = place + 1; i < size; ++i) {
    if (line.data()[i] < '0' || line.data()[i] > '9') return false;
    rank = 10 * rank + static_cast<size_t>(line.data()[i] - '0');
  }
  return true;
}

const char *named_special(int32_t index) {
  switch (index) {
    case 0:
      return "begin_of_text";
    case 1:
      return "end_of_text";
    case 4:
      return "finetune_right_pad_id";
    case 6:
      return "start_header_id";
    case 7:
      return "end_header_id";
    case 8:
      return "eom_id";
    case 9:
      return "eot_id";
    case 10:
      return "python_tag";
    default:
      return nullptr;
  }
}

}  // namespace

bool has_ranks(const std::string &content) {
  std::string bytes;
  size_t rank = 0;
  const size_t end = content.find('\n');
  return end < 512 && read_line({content.data(), end}, bytes, rank);
}

Status TiktokenTokenizer::read(const std::string &content, const std::string &path, Error &error) {
  EDGECORE_TRY(read_ranks(content, path, error));
  EDGECORE_TRY(pattern_.compile(kPattern, error));
  rank_count_ = bytes_.size();
  int reserved = 0;
  for (int32_t index = 0; index < kSpecials; ++index) {
    const char *name = named_special(index);
    AddedToken token;
    token.content = name == nullptr ? "<|reserved_special_token_" + std::to_string(reserved++) + "|>"
                                    : "<|" + std::string(name) + "|>";
    token.id = static_cast<int32_t>(rank_count_) + index;
    token.is_special = true;
    specials_.add(token, token.content);
    bytes_.push_back(token.content);
  }
  vocabulary_ = bytes_.size();
  bos_id_ = static_cast<int32_t>(rank_count_);
  eos_ids_ = {bos_id_ + 1, bos_id_ + 8, bos_id_ + 9};
  return {};
}

Status TiktokenTokenizer::read_ranks(const std::string &content, const std::string &path, Error &error) {
  std::vector<std::pair<size_t, std::string>> ranks;
  size_t number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const StringView line(content.data() + begin, end - begin);
    ++number;
    begin = end + 1;
    if (std::all_of(line.data(), line.data() + line.size(), [](char c) { return c == ' ' || c == '\r'; })) continue;
    std::string bytes;
    size_t rank = 0;
    if (!read_line(line, bytes, rank)) {
      return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, "Line ", number, " of ", path.c_str(),
                  " is not of the form BASE64 RANK.");
    }
    ranks.emplace_back(rank, std::move(bytes));
  }
  std::sort(ranks.begin(), ranks.end());
  for (size_t i = 0; i < ranks.size(); ++i) {
    const bool is_twice = ranks_.find({ranks[i].second.data(), ranks[i].second.size()}) >= 0;
    if (ranks[i].first != i || is_twice) {
      return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, path.c_str(),
                  " does not have each rank from 0 on once; it may be truncated.");
    }
    ranks_.add({ranks[i].second.data(), ranks[i].second.size()}, static_cast<int32_t>(i));
    bytes_.push_back(std::move(ranks[i].second));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char single = static_cast<char>(byte);
    if (ranks_.find({&single, 1}) >= 0) continue;
    return fail(error, EDGECORE_INVALID_EXTERNAL_DATA, path.c_str(), " has no rank for byte ", byte,
                "; it may be truncated.");
  }
  return {};
}

std::string TiktokenTokenizer::token_bytes(int32_t token) const {
  return token >= 0 && static_cast<size_t>(token) < vocabulary_ ? bytes_[static_cast<size_t>(token)] : "";
}

bool TiktokenTokenizer::is_special(int32_t token) const {
  return token >= 0 && static_cast<size_t>(token) >= rank_count_ && static_cast<size_t>(token) < vocabulary_;
}

Status TiktokenTokenizer::append(const std::string &text, bool specials, std::vector<int32_t> &tokens,
                                 Error &error) const {
  std::vector<TextPart> parts;
  if (specials) {
    specials_.split(text, true, parts);
  } else {
    parts.push_back({{0, text.size()}, -1});
  }
  for (const TextPart &part : parts) {
    if (part.token >= 0) {
      tokens.push_back(part.token);
      continue;
    }
    const std::string piece = text.substr(part.range.begin, part.range.end - part.range.begin);
    std::vector<Range> matches;
    EDGECORE_TRY(pattern_.find_all(piece, matches, error));
    for (const Range &match : matches) append_piece({piece.data() + match.begin, match.end - match.begin}, tokens);
  }
  return {};
}

void TiktokenTokenizer::append_piece(StringView piece, std::vector<int32_t> &tokens) const {
  if (const int32_t whole = ranks_.find(piece); whole >= 0) {
    tokens.push_back(whole);
    return;
  }
  std::vector<Symbol> symbols;
  for (size_t i = 0; i < piece.size(); ++i) symbols.push_back({1, ranks_.find({piece.data() + i, 1})});
  merge_symbols(piece, *this, symbols);
  for (const Symbol &symbol : symbols) tokens.push_back(symbol.token);
}

Merge TiktokenTokenizer::find(int32_t, int32_t, StringView text) const {
  const int32_t token = ranks_.find(text);
  return {static_cast<double>(token), token};
}

}  // namespace edgecore::llm
