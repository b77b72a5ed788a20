#include "utf8.h"

#include <gtest/gtest.h>

namespace edgecore::llm {
namespace {

TEST(Utf8, CodesComeBackFromTheirBytes) {
  for (const uint32_t code : {0x24u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFDu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(code, text);
    EXPECT_EQ(utf8_size(text[0]), text.size());
    EXPECT_EQ(utf8_code(text.data()), code);
    EXPECT_TRUE(utf8_front({text.data(), text.size()}).is_valid) << code;
  }
}

TEST(Utf8, BytesThatAreNoUtf8AreReplacedAsByPython) {
  const char *cases[][2] = {
      {"a\xC3\xA9", "a\xC3\xA9"},
      {"\x80z", "\xEF\xBF\xBDz"},
      {"\xF0\x9F\x92z", "\xEF\xBF\xBDz"},                        // an incomplete character
      {"\xE0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // an overlong form
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // a surrogate
      {"\xF4\x90\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // beyond U+10FFFF
      {"\xC1\xBF\xF5\xFF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
  };
  for (const auto &[bytes, expected] : cases) {
    std::string text;
    append_valid_utf8(bytes, text);
    EXPECT_EQ(text, expected);
  }
}

}  // namespace
}  // namespace edgecore::llm
