#include "unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "regular_expression.h"
#include "utf8.h"

namespace edgecore::llm {
namespace {

constexpr int32_t kNoTrail = 0x11A7;  // the code point before the first trailing consonant of Hangul (Korean syllables)

int combining_class(int32_t code) { return utf8proc_get_property(code)->combining_class; }

void decompose(uint32_t code, std::vector<int32_t> &codes) {
  int32_t parts[8];  // 8 is enough for the code points into which any single character decomposes
  const auto count =
      utf8proc_decompose_char(static_cast<int32_t>(code), parts, std::size(parts), UTF8PROC_DECOMPOSE, nullptr);
  if (count < 1 || count > static_cast<utf8proc_ssize_t>(std::size(parts))) {
    codes.push_back(static_cast<int32_t>(code));
  } else {
    codes.insert(codes.end(), parts, parts + count);
  }
}

// Appends `count` code points, which are in canonical order, to `text`. Composes them where a composed character
// exists.
void compose(int32_t *codes, std::ptrdiff_t count, std::string &text) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t left = utf8proc_normalize_utf32(codes, count, options);
  for (utf8proc_ssize_t i = 0; i < left; ++i) append_utf8(static_cast<uint32_t>(codes[i]), text);
}

}  // namespace

bool is_space(uint32_t code) {
  return (code >= 0x9 && code <= 0xD) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

bool is_word(uint32_t code) {
  static const Regex *const word = [] {
    auto *regex = new Regex();
    Error error;
    // As in Hugging Face's library, symbols that show a letter, such as U+24B6, count as word characters.
    (void)regex
        ->compile(R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149})"
                  R"(\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}])",
                  error)
        .ok();
    return regex;
  }();
  std::string text;
  append_utf8(code, text);
  std::vector<Range> matches;
  Error error;
  return word->find_all(text, matches, error).ok() && !matches.empty();
}

std::string composed(const std::string &text) {
  // Characters below U+0300 neither combine nor change in normal form C.
  if (std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<uint8_t>(byte) < 0xCC; })) return text;
  std::vector<int32_t> codes;
  for (size_t place = 0; place < text.size(); place += utf8_size(text[place])) {
    decompose(utf8_code(text.data() + place), codes);
  }
  // Sort each run of combining characters by class. Characters of combining class 0 separate the runs. utf8proc_map is
  // not used, because it takes quadratic time (2.8.0: 6 s for 80 kB of marks).
  for (size_t begin = 0; begin < codes.size();) {
    size_t end = begin + 1;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    const size_t first = combining_class(codes[begin]) == 0 ? begin + 1 : begin;
    std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(first),
                     codes.begin() + static_cast<std::ptrdiff_t>(end),
                     [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
  // U+11A7 composes with nothing, but utf8proc 2.8.0 drops it after a syllable, so compose the text before and after it
  // separately.
  std::string result;
  for (auto begin = codes.begin(); begin != codes.end();) {
    auto end = std::find(begin, codes.end(), kNoTrail);
    compose(&*begin, end - begin, result);
    if (end != codes.end()) append_utf8(static_cast<uint32_t>(*end++), result);
    begin = end;
  }
  return result;
}

}  // namespace edgecore::llm
