#include "regular_expression.h"

#include <pcre2.h>

#include <algorithm>
#include <cstring>

#include "utf8.h"

namespace edgecore::llm {
namespace {

constexpr const char *kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

struct FreeMatch {
  void operator()(pcre2_match_data *data) const { pcre2_match_data_free(data); }
};

// Returns the size of a class with a name, such as [:punct:], which begins at `place`; 0 if none does.
size_t named_class_size(const std::string &pattern, size_t place) {
  if (pattern.compare(place, 2, "[:") != 0) return 0;
  const size_t end = pattern.find_first_not_of("^abcdefghijklmnopqrstuvwxyz", place + 2);
  return end != std::string::npos && pattern.compare(end, 2, ":]") == 0 ? end + 2 - place : 0;
}

// Replaces \s and \S by lists of characters. Within a class \S stays as it is. Returns why the pattern cannot be used
// if it has what Oniguruma, which tokenizers are made for, and PCRE2 read in two ways, and NULL otherwise.
const char *with_spaces(const std::string &pattern, std::string &changed) {
  bool is_in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] == '\\' && next != '\0') {
      if (std::strchr("hHvVC", next) != nullptr) return R"(\h, \H, \v, \V and \C have several meanings)";
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
    size_t size = 1;
    if (is_in_class) {
      size = std::max(named_class_size(pattern, i), size);
      if (pattern[i] == '[' && size == 1) return "a class within a class has several meanings";
      if (pattern[i] == '&' && next == '&') return "&& within a class has several meanings";
      is_in_class = pattern[i] != ']';
    } else if (pattern[i] == '[') {
      is_in_class = true;
      if (next == '^') ++size;
      if (pattern.compare(i + size, 1, "]") == 0) ++size;  // the first one does not end the class
    }
    changed.append(pattern, i, size);
    i += size - 1;
  }
  return nullptr;
}

}  // namespace

void Regex::Free::operator()(void *code) const { pcre2_code_free(static_cast<pcre2_code *>(code)); }

Status Regex::compile(const std::string &pattern, Error &error) {
  std::string changed;
  if (const char *reason = with_spaces(pattern, changed); reason != nullptr) {
    return fail(error, EDGECORE_NOT_SUPPORTED, "the pattern ", pattern.c_str(), " cannot be used: ", reason);
  }
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
    const auto match = [&](uint32_t options) {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), place,
                         options | PCRE2_NO_UTF_CHECK, data.get(), nullptr);
    };
    int found = match(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);  // slower, with memory from the heap
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
