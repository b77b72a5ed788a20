#include "utf8.h"

namespace edgecore::llm {

Utf8Front utf8_front(StringView text) {
  const auto at = [&](size_t index) { return static_cast<uint8_t>(text.data()[index]); };
  const uint8_t first = at(0);
  if (first < 0x80) return {1, true, false};
  const size_t size = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (size == 0) return {1, false, false};
  // In UTF-8, the range of the second byte excludes overlong forms, surrogates, and codes beyond U+10FFFF.
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {i, false, true};
    if (at(i) < (i == 1 ? low : 0x80) || at(i) > (i == 1 ? high : 0xBF)) return {i, false, false};
  }
  return {size, true, false};
}

void append_valid_utf8(StringView bytes, std::string &text) {
  for (size_t place = 0; place < bytes.size();) {
    const Utf8Front front = utf8_front({bytes.data() + place, bytes.size() - place});
    if (front.is_valid) {
      text.append(bytes.data() + place, front.size);
    } else {
      text += kReplacement;
    }
    place += front.size;
  }
}

size_t utf8_size(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

uint32_t utf8_code(const char *text) {
  const size_t size = utf8_size(*text);
  uint32_t code = static_cast<uint8_t>(*text) & (size == 1 ? 0x7Fu : 0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) code = code << 6 | (static_cast<uint8_t>(text[i]) & 0x3Fu);
  return code;
}

void append_utf8(uint32_t code, std::string &text) {
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  text.push_back(static_cast<char>((0xFF00u >> (more + 1) & 0xFFu) | code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) text.push_back(static_cast<char>(0x80u | (code >> (6 * i) & 0x3Fu)));
}

}  // namespace edgecore::llm
