#include "host/flat_json.h"

namespace edgecore {
namespace {

constexpr size_t kMaxItems = 100;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the value of a hexadecimal digit, or -1 for any other character.
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

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
  Parser(StringView text, std::vector<JsonItem> &items, Error &error)
      : at_(text.data()), end_(text.data() + text.size()), items_(items), error_(error) {}

  Status parse() {
    EDGECORE_TRY(object({}));
    skip_space();
    return at_ == end_ ? Status() : expected("nothing after the object");
  }

 private:
  Status expected(const char *what) const {
    return fail(error_, EDGECORE_INVALID_EXTERNAL_DATA, "line ", line_, ": expected ", what, ".");
  }

  void skip_space() {
    for (; at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r' || *at_ == '\n'); ++at_) line_ += *at_ == '\n';
  }

  // Skips white space. If the next character is `c`, skips it too and returns true.
  bool take(char c) {
    skip_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  bool take_word(StringView word) {
    if (static_cast<size_t>(end_ - at_) < word.size() || StringView(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Status object(const std::string &section) {
    if (!take('{')) return expected("'{'");
    if (take('}')) return {};
    do {
      JsonItem item;
      item.section = section;
      EDGECORE_TRY(string(item.key));
      if (item.key.empty()) return expected("a key that is not empty");
      for (const JsonItem &other : items_) {
        if (other.key == item.key && other.section == section) return expected("each key once");
      }
      if (items_.size() == kMaxItems) return expected("at most 100 values");
      if (!take(':')) return expected("':'");
      skip_space();
      const bool opens = at_ != end_ && *at_ == '{' && section.empty();
      if (!opens) EDGECORE_TRY(value(item));
      items_.push_back(item);
      if (opens) EDGECORE_TRY(object(item.key));
    } while (take(','));
    return take('}') ? Status() : expected("',' or '}'");
  }

  Status value(JsonItem &item) {
    if (at_ != end_ && *at_ == '"') {
      item.type = JsonType::kString;
      return string(item.text);
    }
    if (at_ != end_ && (*at_ == '-' || is_digit(*at_))) {
      item.type = JsonType::kInt;
      return integer(item.number);
    }
    item.type = JsonType::kBool;
    item.number = take_word("true") ? 1 : 0;
    return item.number == 1 || take_word("false") ? Status() : expected("a string, an integer, true or false");
  }

  Status integer(int64_t &value) {
    const bool negative = *at_ == '-';
    if (negative) ++at_;
    const char *first = at_;
    value = 0;
    for (; at_ != end_ && is_digit(*at_); ++at_) {
      // Add the digits of a negative number as negative values, because the absolute value of INT64_MIN does not fit.
      const int64_t digit = negative ? '0' - *at_ : *at_ - '0';
      if (__builtin_mul_overflow(value, int64_t{10}, &value) || __builtin_add_overflow(value, digit, &value)) {
        return expected("an integer of 64 bits");
      }
    }
    const bool fraction = at_ != end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E');
    if (at_ == first || fraction || (*first == '0' && at_ != first + 1)) return expected("an integer");
    return {};
  }

  Status string(std::string &text) {
    if (!take('"')) return expected("'\"'");
    while (at_ != end_ && *at_ != '"') {
      const char c = *at_++;
      if (static_cast<unsigned char>(c) < 0x20) return expected("no control character in a string");
      if (c != '\\') {
        text.push_back(c);
        continue;
      }
      EDGECORE_TRY(escape(text));
    }
    if (at_ == end_) return expected("the end of a string");
    ++at_;
    return {};
  }

  Status escape(std::string &text) {
    constexpr char kNames[] = "\"\\/bfnrt", kMeanings[] = "\"\\/\b\f\n\r\t";
    const char name = at_ == end_ ? '\0' : *at_++;
    for (size_t i = 0; kNames[i] != '\0'; ++i) {
      if (kNames[i] != name) continue;
      text.push_back(kMeanings[i]);
      return {};
    }
    uint32_t code = 0, low = 0;
    if (name != 'u' || !four_digits(code)) return expected("an escape of JSON after '\\'");
    if (code >= 0xD800 && code < 0xE000) {  // a surrogate: two escapes together encode one character
      const bool pair = code < 0xDC00 && take_word("\\u") && four_digits(low) && low >= 0xDC00 && low < 0xE000;
      if (!pair) return expected("two surrogates");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code == 0) return expected("no NUL in a string");
    append_utf8(text, code);
    return {};
  }

  bool four_digits(uint32_t &code) {
    if (end_ - at_ < 4) return false;
    for (int i = 0; i < 4; ++i) {
      const int digit = hex_digit(*at_++);
      if (digit < 0) return false;
      code = code << 4 | static_cast<uint32_t>(digit);
    }
    return true;
  }

  const char *at_;
  const char *end_;
  std::vector<JsonItem> &items_;
  Error &error_;
  uint32_t line_ = 1;
};

}  // namespace

Status read_flat_json(StringView text, std::vector<JsonItem> &items, Error &error) {
  items.clear();
  return Parser(text, items, error).parse();
}

}  // namespace edgecore
