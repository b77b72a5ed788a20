#include "model_tables.h"

#include <algorithm>

#include "json_values.h"
#include "utf8.h"

namespace edgecore::llm {
namespace {

using Json = nlohmann::json;

// Finds the vocabulary and the merges in a tokenizer.json, and reads their usual contents itself. Passes the rest to
// the JSON library: rare values in these tables, strings with escapes, and the text around the tables; errors in these
// parts are ignored here.
class Reader {
 public:
  Reader(const std::string &text, ModelTables &tables) : text_(text), tables_(tables) {
    if (text.compare(0, 3, "\xEF\xBB\xBF") == 0) place_ = 3;  // skips a byte order mark, which JSON may have
  }

  // Reads the tables of the text; returns false for invalid JSON. Sets `rest` to the text without the tables' entries.
  bool read(std::string &rest) {
    read_members([this](StringView key) {
      if (key == "model" && front() == '{') {
        return read_members([this](StringView name) { return read_model_member(name); });
      }
      return skip_value();
    });
    if (is_wrong_) return false;
    rest_.append(text_, copied_, std::string::npos);
    rest = std::move(rest_);
    return true;
  }

 private:
  char front() const { return place_ < text_.size() ? text_[place_] : '\0'; }
  const char *here() const { return text_.data() + place_; }

  static bool is_space(char one) { return one == ' ' || one == '\n' || one == '\r' || one == '\t'; }
  static bool ends_word(char one) { return one == ',' || one == ']' || one == '}' || is_space(one); }

  void skip_space() {
    while (is_space(front())) ++place_;
  }

  // If the next character is `wanted`, skips it and the white space around it, and returns true.
  bool take(char wanted) {
    skip_space();
    if (front() != wanted) return false;
    ++place_;
    skip_space();
    return true;
  }

  // Skips the rest of a JSON string, whose first quote has been read.
  bool skip_string() {
    for (; place_ < text_.size(); ++place_) {
      if (text_[place_] == '"') return ++place_, true;
      if (text_[place_] == '\\') ++place_;
    }
    return false;
  }

  bool skip_value() {
    size_t depth = 0;
    do {
      const char next = front();
      if (next == '\0') return false;
      ++place_;
      if (next == '"') {
        if (!skip_string()) return false;
      } else if (next == '{' || next == '[') {
        ++depth;
      } else if (next == '}' || next == ']') {
        if (depth-- == 0) return false;
      } else if (depth == 0) {  // a number, true, false or null
        while (front() != '\0' && !ends_word(front())) ++place_;
      }
    } while (depth > 0);
    return true;
  }

  // Reads a value with the JSON library. Used for values that are rare in the tables, such as strings with escapes.
  bool read_other(Json &value) {
    const size_t begin = place_;
    if (!skip_value()) return false;
    value = Json::parse(text_.data() + begin, here(), nullptr, false);
    return !value.is_discarded();
  }

  bool read_string(StringView &string) {
    if (front() != '"') return false;
    const size_t begin = place_++;
    while (place_ < text_.size()) {
      const auto next = static_cast<uint8_t>(text_[place_]);
      if (next == '"') {
        string = {text_.data() + begin + 1, place_++ - begin - 1};
        return true;
      }
      if (next == '\\') {
        place_ = begin;
        Json value;
        if (!read_other(value)) return false;
        tables_.unescaped.push_back(value.get<std::string>());
        string = {tables_.unescaped.back().data(), tables_.unescaped.back().size()};
        return true;
      }
      if (next < 0x20) return false;
      const Utf8Front front = next < 0x80 ? Utf8Front{1, true, false} : utf8_front({here(), text_.size() - place_});
      if (!front.is_valid) return false;
      place_ += front.size;
    }
    return false;
  }

  // Reads the object at the current place. Calls `read(key)` for each key; `read` must read the value of this key.
  // Returns false for invalid JSON.
  template <typename Read>
  bool read_members(const Read &read) {
    return read_list('{', '}', [&] {
      StringView key;
      return read_string(key) && take(':') && read(key);
    });
  }

  template <typename Read>
  bool read_list(char begin, char end, const Read &read) {
    if (!take(begin)) return false;
    if (front() == end) return ++place_, true;
    do {
      if (!read()) return false;
    } while (take(','));
    if (front() != end) return false;
    ++place_;
    return true;
  }

  bool read_model_member(StringView name) {
    const bool is_vocabulary = name == "vocab" && front() == '{';
    if (!is_vocabulary && !(name == "merges" && front() == '[')) return skip_value();
    rest_.append(text_, copied_, place_ - copied_).append(is_vocabulary ? "{}" : "[]");
    const bool is_read = is_vocabulary ? read_members([this](StringView key) { return read_entry(key); })
                                       : read_list('[', ']', [this] { return read_merge(); });
    copied_ = place_;
    is_wrong_ = !is_read;
    return is_read;
  }

  bool read_entry(StringView spelling) {
    const size_t begin = place_;
    int32_t id = 0;
    while (place_ < text_.size() && place_ - begin < 9 && text_[place_] >= '0' && text_[place_] <= '9') {
      id = 10 * id + (text_[place_++] - '0');
    }
    const bool is_plain = place_ > begin && (text_[begin] != '0' || place_ == begin + 1);
    if (!is_plain || !ends_word(front())) {
      place_ = begin;
      Json value;
      if (!read_other(value)) return false;
      id = token_of(value);
    }
    tables_.vocabulary.emplace_back(spelling, id);
    return true;
  }

  bool read_merge() {
    StringView text, right;
    if (front() == '"') {
      if (!read_string(text)) return false;
      const char *end = text.data() + text.size(), *space = std::find(text.data(), end, ' ');
      if (space == end || std::find(space + 1, end, ' ') != end) {
        tables_.has_wrong_merge = true;
      } else {
        tables_.merges.push_back({{text.data(), static_cast<size_t>(space - text.data())},
                                  {space + 1, static_cast<size_t>(end - space - 1)}});
      }
      return true;
    }
    const size_t begin = place_;
    if (take('[') && read_string(text) && take(',') && read_string(right) && take(']')) {
      tables_.merges.push_back({text, right});
      return true;
    }
    tables_.has_wrong_merge = true;
    place_ = begin;
    Json value;
    return read_other(value);
  }

  const std::string &text_;
  ModelTables &tables_;
  size_t place_ = 0;
  std::string rest_;
  size_t copied_ = 0;  // offset in text_: the text before it was either copied to rest_ or read into the tables
  bool is_wrong_ = false;
};

}  // namespace

Json read_tokenizer_json(const std::string &text, ModelTables &tables) {
  std::string rest;
  if (!Reader(text, tables).read(rest)) return Json(Json::value_t::discarded);
  return Json::parse(rest.begin(), rest.end(), nullptr, false);
}

}  // namespace edgecore::llm
