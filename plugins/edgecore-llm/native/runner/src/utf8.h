// Characters in UTF-8.
#ifndef EDGECORE_LLM_UTF8_H_
#define EDGECORE_LLM_UTF8_H_

#include <string>

#include "edgecore/span.h"

namespace edgecore::llm {

// The bytes at the front of some text: a character, or bytes that are none, which one U+FFFD replaces.
struct Utf8Front {
  size_t size = 0;
  bool is_valid = false;
  bool is_cut = false;  // the text ends within the character
};
Utf8Front utf8_front(StringView text);  // which is not empty

// Appends bytes with U+FFFD for those that are no UTF-8, as Python's bytes.decode("utf-8", "replace") does.
void append_valid_utf8(StringView bytes, std::string &text);

// Returns the number of bytes of a character of valid UTF-8 from its first byte.
size_t utf8_size(char first);

// Returns the code point of the character of valid UTF-8 at `text`, or appends the character of a code point.
uint32_t utf8_code(const char *text);
void append_utf8(uint32_t code, std::string &text);

constexpr const char *kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_UTF8_H_
