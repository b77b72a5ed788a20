#include "json.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "edgecore/backend.hpp"

namespace edgecore::coreml {
namespace {

using edgecore::backend::damaged;

constexpr int kMaxDepth = 16;

void append_utf8(std::string &text, uint32_t code) {
  const auto add = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  size_t position() const { return at_; }

  Json value(int depth) {
    if (depth > kMaxDepth) damaged("JSON is nested more than %d times", kMaxDepth);
    Json result;
    if (take('{')) {
      members(result, depth);
    } else if (take('[')) {
      items(result, depth);
    } else if (peek() == '"') {
      result.kind = Json::Kind::kText;
      result.text = text();
    } else if (!take_word("true") && !take_word("false") && !take_word("null")) {
      number(result);
    }
    return result;
  }

 private:
  [[noreturn]] void expected(const char *what) const { damaged("JSON lacks %s at byte %zu", what, at_); }

  char peek() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != '\0') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  void members(Json &result, int depth) {
    result.kind = Json::Kind::kObject;
    if (take('}')) return;
    do {
      if (peek() != '"') expected("a key");
      std::string key = text();
      if (!take(':')) expected("':'");
      result.members.emplace_back(std::move(key), value(depth + 1));
    } while (take(','));
    if (!take('}')) expected("'}'");
    refuse_same_keys(result);
  }

  // Refuse duplicate keys, because JSON parsers differ in which of the two values they return.
  static void refuse_same_keys(const Json &object) {
    std::vector<std::string_view> keys;
    for (const auto &[key, member] : object.members) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    const auto same = std::adjacent_find(keys.begin(), keys.end());
    if (same != keys.end()) damaged("JSON has two members '%.*s'", static_cast<int>(same->size()), same->data());
  }

  void items(Json &result, int depth) {
    result.kind = Json::Kind::kArray;
    if (take(']')) return;
    do {
      result.items.push_back(value(depth + 1));
    } while (take(','));
    if (!take(']')) expected("']'");
  }

  void number(Json &result) {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '\0' && std::strchr("+-.0123456789eE", text_[at_]) != nullptr) ++at_;
    if (at_ == begin) expected("a value");
    const char *first = text_.data() + begin, *last = text_.data() + at_;
    int64_t integer = 0;
    const auto [end, error] = std::from_chars(first, last, integer);
    if (error != std::errc() || end != last) return;
    result.kind = Json::Kind::kInteger;
    result.integer = integer;
  }

  std::string text() {
    std::string result;
    for (++at_; at_ < text_.size() && text_[at_] != '"';) {
      const char c = text_[at_++];
      if (c == '\\') {
        escape(result);
      } else {
        result.push_back(c);
      }
    }
    if (at_ == text_.size()) expected("the end of a text");
    ++at_;
    return result;
  }

  void escape(std::string &result) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (at_ == text_.size()) expected("an escape");
    const char name = text_[at_++];
    const size_t index = kNames.find(name);
    if (index != std::string_view::npos) return result.push_back(kMeanings[index]);
    if (name != 'u') expected("an escape");
    uint32_t code = four_digits();
    if (code >= 0xD800 && code < 0xDC00 && take_word("\\u")) {  // UTF-16 surrogate pair: two escapes for one character
      code = 0x10000 + ((code - 0xD800) << 10) + (four_digits() - 0xDC00);
    }
    append_utf8(result, code & 0x1FFFFF);
  }

  uint32_t four_digits() {
    uint32_t code = 0;
    const char *first = text_.data() + at_;
    if (text_.size() - at_ < 4) expected("four digits");
    const auto [end, error] = std::from_chars(first, first + 4, code, 16);
    if (error != std::errc() || end != first + 4) expected("four digits");
    at_ += 4;
    return code;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

const Json *Json::find(std::string_view key) const {
  for (const auto &[name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Json &Json::at(std::string_view key, Kind wanted) const {
  const Json *value = find(key);
  if (value == nullptr || value->kind != wanted) {
    damaged("JSON lacks the member '%.*s', or it has another type", static_cast<int>(key.size()), key.data());
  }
  return *value;
}

uint64_t Json::size_at(std::string_view key) const {
  const int64_t value = at(key, Kind::kInteger).integer;
  if (value < 0) damaged("JSON has a negative number for '%.*s'", static_cast<int>(key.size()), key.data());
  return static_cast<uint64_t>(value);
}

std::vector<std::string> Json::texts_at(std::string_view key) const {
  std::vector<std::string> texts;
  for (const Json &item : at(key, Kind::kArray).items) {
    if (item.kind != Kind::kText) damaged("JSON has no text in '%.*s'", static_cast<int>(key.size()), key.data());
    texts.push_back(item.text);
  }
  return texts;
}

Json parse_json(std::string_view text, size_t *end) {
  Parser parser(text);
  Json value = parser.value(0);
  *end = parser.position();
  return value;
}

}  // namespace edgecore::coreml
