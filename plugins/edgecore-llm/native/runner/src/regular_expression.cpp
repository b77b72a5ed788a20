#include "regular_expression.h"

#include <pcre2.h>

#include "utf8.h"

namespace edgecore::llm {
namespace {

constexpr const char *kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

struct FreeMatch {
  void operator()(pcre2_match_data *data) const { pcre2_match_data_free(data); }
};

// Replaces \s and \S by lists of characters. Within a class \S stays as it is.
std::string with_spaces(const std::string &pattern) {
  std::string changed;
  bool is_in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] == '\\' && next != '\0') {
      if (next == 's') {
        changed += is_in_class ? kSpaces : std::string("[") + kSpaces + "]";
      } else if (next == 'S' && !is_in_class) {
        changed += std::string("[^") + kSpaces + "]";
      } else {
        changed.append(pattern, i, 2);
      }
      ++i;
      continue;
    }
    if (pattern[i] == '[') is_in_class = true;
    if (pattern[i] == ']') is_in_class = false;
    changed.push_back(pattern[i]);
  }
  return changed;
}

}  // namespace

void Regex::Free::operator()(void *code) const { pcre2_code_free(static_cast<pcre2_code *>(code)); }

Status Regex::compile(const std::string &pattern, Error &error) {
  const std::string changed = with_spaces(pattern);
  int code = 0;
  PCRE2_SIZE place = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(changed.data()), changed.size(), PCRE2_UTF | PCRE2_UCP, &code,
                            &place, nullptr));
  if (code_ == nullptr) {
    char reason[200] = "";
    pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR *>(reason), sizeof reason);
    return fail(error, EDGECORE_NOT_SUPPORTED, "the pattern ", pattern.c_str(), " cannot be used: ", reason);
  }
  pcre2_jit_compile(static_cast<pcre2_code *>(code_.get()), PCRE2_JIT_COMPLETE);  // without it the search is slower
  return {};
}

Status Regex::find_all(const std::string &text, std::vector<Range> &matches, Error &error) const {
  const auto *code = static_cast<const pcre2_code *>(code_.get());
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(pcre2_match_data_create_from_pattern(code, nullptr));
  if (data == nullptr) return fail(error, EDGECORE_MEMORY_ALLOCATION_FAILED, "Memory for a search does not suffice.");
  for (size_t place = 0; place < text.size();) {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), place,
                                  PCRE2_NO_UTF_CHECK, data.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) return {};
    if (found < 0) {
      return fail(error, EDGECORE_NOT_SUPPORTED, "The search for the pattern of the tokenizer exceeds its limits.");
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data.get());
    if (range[1] > range[0]) {
      matches.push_back({range[0], range[1]});
      place = range[1];
    } else {
      if (range[1] >= text.size()) return {};
      place = range[1] + utf8_size(text[range[1]]);
    }
  }
  return {};
}

}  // namespace edgecore::llm
