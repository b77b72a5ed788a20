#include "unicode.h"

#include <algorithm>
#include <vector>

#include "byte_table.h"
#include "regular_expression.h"
#include "utf8.h"

namespace edgecore::llm {
namespace {

struct Decomposition {
  uint32_t code, first, second;  // second is 0 if there is none
  bool composes;                 // the two become `code` again
};

struct CombiningClass {
  uint32_t first, last;
  uint8_t value;
};

#include "composition.inc"

// Syllables of Hangul are computed: a leading consonant, a vowel, and a trailing consonant or none.
constexpr uint32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTrails = 28, kSyllables = kLeads * kVowels * kTrails;

uint8_t combining_class(uint32_t code) {
  const auto found = std::upper_bound(std::begin(kClasses), std::end(kClasses), code,
                                      [](uint32_t value, const CombiningClass &range) { return value < range.first; });
  return found != std::begin(kClasses) && code <= (found - 1)->last ? (found - 1)->value : 0;
}

void decompose(uint32_t code, std::vector<uint32_t> &codes) {
  if (code - kSyllable < kSyllables) {
    const uint32_t index = code - kSyllable, trail = index % kTrails;
    codes.push_back(kLead + index / (kVowels * kTrails));
    codes.push_back(kVowel + index / kTrails % kVowels);
    if (trail != 0) codes.push_back(kTrail + trail);
    return;
  }
  const auto found = std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), code,
                                      [](const Decomposition &row, uint32_t value) { return row.code < value; });
  if (found == std::end(kDecompositions) || found->code != code) {
    codes.push_back(code);
    return;
  }
  decompose(found->first, codes);
  if (found->second != 0) decompose(found->second, codes);
}

PairTable make_compositions() {
  PairTable table;
  for (const Decomposition &row : kDecompositions) {
    if (!row.composes || row.second == 0) continue;
    table.add(static_cast<int32_t>(row.first), static_cast<int32_t>(row.second), {0, static_cast<int32_t>(row.code)});
  }
  return table;
}

// Returns the character that two become, or 0.
uint32_t compose(uint32_t first, uint32_t second) {
  if (first - kLead < kLeads && second - kVowel < kVowels) {
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTrails;
  }
  const bool is_open = first - kSyllable < kSyllables && (first - kSyllable) % kTrails == 0;
  if (is_open && second - kTrail - 1 < kTrails - 1) return first + (second - kTrail);
  static const PairTable table = make_compositions();
  const Merge found = table.find(static_cast<int32_t>(first), static_cast<int32_t>(second));
  return found.token < 0 ? 0 : static_cast<uint32_t>(found.token);
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
    // As the library has it: besides letters, marks and digits also symbols of letters, such as U+24B6.
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
  // Characters below U+0300 neither combine nor change.
  if (std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<uint8_t>(byte) < 0xCC; })) return text;
  std::vector<uint32_t> codes;
  for (size_t place = 0; place < text.size(); place += utf8_size(text[place])) {
    decompose(utf8_code(text.data() + place), codes);
  }
  // Between characters of class 0 the others are ordered by their classes.
  for (size_t begin = 0; begin < codes.size();) {
    size_t end = begin + 1;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    const size_t first = combining_class(codes[begin]) == 0 ? begin + 1 : begin;
    std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(first),
                     codes.begin() + static_cast<std::ptrdiff_t>(end),
                     [](uint32_t a, uint32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
  // Each character joins the last one of class 0, unless one between them has no lower class.
  size_t kept = 0, starter = codes.size();
  int last = -1;  // the class of the last character that was kept after the starter; -1: none was
  for (const uint32_t code : codes) {
    const int value = combining_class(code);
    const uint32_t joined = starter < kept && last < value ? compose(codes[starter], code) : 0;
    if (joined != 0) {
      codes[starter] = joined;
      continue;
    }
    if (value == 0) {
      starter = kept;
      last = -1;
    } else {
      last = value;
    }
    codes[kept++] = code;
  }
  std::string result;
  for (size_t i = 0; i < kept; ++i) append_utf8(codes[i], result);
  return result;
}

}  // namespace edgecore::llm
