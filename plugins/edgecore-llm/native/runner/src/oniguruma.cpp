#include "oniguruma.h"

#include <algorithm>
#include <cstring>

namespace edgecore::llm {
namespace {

// The white space of Unicode, which replaces \s: PCRE2's own \s also matches U+180E.
constexpr const char *kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr const char *kOthers =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";

bool is_digit(char one) { return one >= '0' && one <= '9'; }
bool is_upper(char one) { return one >= 'A' && one <= 'Z'; }
bool is_letter(char one) { return is_upper(one) || (one >= 'a' && one <= 'z'); }

class Translation {
 public:
  Translation(const std::string &pattern, std::string &changed) : pattern_(pattern), changed_(changed) {}

  const char *run() {
    while (place_ < pattern_.size()) {
      const char next = pattern_[place_];
      const char *reason = next == '\\'   ? read_escape()
                           : is_in_class_ ? read_in_class()
                           : next == '['  ? begin_class()
                           : next == '('  ? read_group()
                           : next == '{'  ? read_interval()
                                          : copy(1);
      if (reason != nullptr) return reason;
    }
    return nullptr;
  }

 private:
  char at(size_t offset) const { return place_ + offset < pattern_.size() ? pattern_[place_ + offset] : '\0'; }

  const char *copy(size_t size) {
    changed_.append(pattern_, place_, size);
    place_ += size;
    return nullptr;
  }

  const char *replace(size_t size, const std::string &text) {
    changed_ += text;
    place_ += size;
    return nullptr;
  }

  const char *read_escape() {
    const char next = at(1);
    if (next == 's' || next == 'S') {
      const bool is_end = place_ > class_begin_ && pattern_[place_ - 1] == '-' && pattern_[place_ - 2] != '\\';
      if (is_in_class_ && (is_end || (at(2) == '-' && at(3) != ']'))) return "- beside \\s or \\S has several meanings";
      const std::string characters = next == 's' ? kSpaces : kOthers;
      return replace(2, is_in_class_ ? characters : "[" + characters + "]");
    }
    if (next == 'p' || next == 'P') return read_property();
    if (next == 'x' && at(2) == '{') {
      const size_t end = pattern_.find('}', place_);
      return end == std::string::npos ? "\\x{ without } has several meanings" : copy(end + 1 - place_);
    }
    const bool is_plain = !is_letter(next) && !is_digit(next) && next != '\0';
    if (is_plain || std::strchr("rntfdD", next) != nullptr) return next == '\0' ? "it ends with \\" : copy(2);
    return "an escape of a letter or digit may have several meanings, except \\d, \\p, \\s, \\x{...}, \\r, \\n, \\t, "
           "\\f";
  }

  // Copies \p{L} and the like. The NAME of a script becomes "sc:NAME", because PCRE2 interprets NAME as script
  // extensions.
  const char *read_property() {
    const size_t end = pattern_.find('}', place_);
    size_t begin = place_ + 3;
    if (at(2) != '{' || end == std::string::npos) return "\\p without { } has several meanings";
    if (pattern_[begin] == '^') ++begin;
    const std::string name = pattern_.substr(begin, end - begin);
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_letter) || !is_upper(name[0])) {
      return "the name in \\p{ } may have several meanings";
    }
    changed_.append(pattern_, place_, begin - place_);
    // Names of one or two letters are categories such as Lu, except the script Yi.
    if (name.size() > 2 || name == "Yi") changed_ += "sc:";
    place_ = begin;
    return copy(end + 1 - begin);
  }

  const char *begin_class() {
    size_t size = at(1) == '^' ? 2 : 1;
    if (at(size) == ']') ++size;  // a ] right after the [ or [^ does not end the class
    is_in_class_ = true;
    class_begin_ = place_ + size + 1;  // a - right after the [ or [^ is a literal
    return copy(size);
  }

  const char *read_in_class() {
    const char next = at(0);
    if (next == '[') return "[ within a class has several meanings";
    if (next == '&' && at(1) == '&') return "&& within a class has several meanings";
    is_in_class_ = next != ']';
    return copy(1);
  }

  const char *read_group() {
    if (at(1) != '?' && at(1) != '*') return copy(1);
    for (const char *begin : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (pattern_.compare(place_, std::strlen(begin), begin) == 0) return copy(std::strlen(begin));
    }
    if (pattern_.compare(place_, 4, "(?i:") != 0) return "a group of this kind may have several meanings";
    // Refuse ss and the like: if case is ignored, they match other characters too, such as U+00DF (sharp s).
    const size_t end = pattern_.find(')', place_);
    if (end == std::string::npos) return "a group has no end";
    for (size_t i = place_ + 4; i < end; ++i) {
      const auto one = static_cast<unsigned char>(pattern_[i]);
      const bool is_mark = std::strchr("'|[]?", pattern_[i]) != nullptr;
      const bool is_quote = pattern_.compare(i, 3, "\u2019") == 0;
      if (!is_letter(pattern_[i]) && !is_mark && !is_quote)
        return "(?i: with other than letters may have several meanings";
      if (is_quote) i += 2;
      if (one < 0x80 && !is_in_set_ && is_pair(i))
        return "(?i: with pairs of letters that have a ligature has several meanings";
      is_in_set_ = pattern_[i] == '[' || (is_in_set_ && pattern_[i] != ']');
    }
    is_in_set_ = false;
    return copy(end + 1 - place_);
  }

  // Returns true if a single character, such as a ligature, is a case variant of the two letters at offset `i`.
  bool is_pair(size_t i) const {
    const std::string pair = pattern_.substr(i, 2);
    for (const char *other : {"ss", "ff", "fi", "fl", "st"}) {
      if (pair.size() == 2 && (pair[0] | 0x20) == other[0] && (pair[1] | 0x20) == other[1]) return true;
    }
    return false;
  }

  // Copies {n}, {n,}, {n,m} and {,m}, which older versions of PCRE2 read as literals.
  const char *read_interval() {
    size_t size = 1;
    while (is_digit(at(size))) ++size;
    const bool has_minimum = size > 1, has_comma = at(size) == ',';
    if (has_comma) ++size;
    const size_t most = size;
    while (is_digit(at(size))) ++size;
    if (at(size) != '}' || (!has_minimum && size == most)) return "{ that begins no interval has several meanings";
    const char after = at(size + 1);
    if (after == '+' || (after == '?' && !has_comma)) return "{ } before + or ? has several meanings";
    if (!has_minimum) {
      changed_ += "{0";
      ++place_;
      return copy(size);
    }
    return copy(size + 1);
  }

  const std::string &pattern_;
  std::string &changed_;
  size_t place_ = 0;
  size_t class_begin_ = 0;
  bool is_in_class_ = false, is_in_set_ = false;
};

}  // namespace

const char *pcre2_pattern(const std::string &pattern, std::string &changed) {
  changed.clear();
  return Translation(pattern, changed).run();
}

}  // namespace edgecore::llm
