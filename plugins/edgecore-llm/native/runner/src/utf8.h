// Reads, validates and writes characters in UTF-8.
#ifndef EDGECORE_LLM_UTF8_H_
#define EDGECORE_LLM_UTF8_H_

#include <string>

#include "edgecore/span.h"

namespace edgecore::llm {

// The first character of a text, or the invalid bytes at its start that one U+FFFD replaces.
struct Utf8Front {
  size_t size = 0;
  bool is_valid = false;
  bool is_cut = false;  // true if the text ends within the character
};
Utf8Front utf8_front(StringView text);  // `text` is not empty

// Appends bytes and replaces invalid UTF-8 by U+FFFD, like Python's bytes.decode("utf-8", "replace").
void append_valid_utf8(StringView bytes, std::string &text);

// Returns the number of bytes of a valid UTF-8 character that begins with the byte `first`.
size_t utf8_size(char first);

// utf8_code returns the code point of the valid UTF-8 character at `text`; append_utf8 appends a code point's
// character.
uint32_t utf8_code(const char *text);
void append_utf8(uint32_t code, std::string &text);

constexpr const char *kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace edgecore::llm

#endif  // EDGECORE_LLM_UTF8_H_
