#include "unicode.h"

#include <gtest/gtest.h>

namespace edgecore::llm {
namespace {

TEST(Unicode, CharactersAreComposed) {
  EXPECT_EQ(composed("plain \xC3\xA9"), "plain \u00E9");
  EXPECT_EQ(composed("e\u0301"), "\u00E9");
  EXPECT_EQ(composed("a\u0323\u0302"), "\u1EAD");
  EXPECT_EQ(composed("a\u0302\u0323"), "\u1EAD");        // sorted by class first
  EXPECT_EQ(composed("a\u0300\u0301"), "\u00E0\u0301");  // no character combines both
  EXPECT_EQ(composed("\u1112\u1161\u11AB\u1100"), "\uD55C\u1100");
  EXPECT_EQ(composed("\uAC00\u11A7e\u0301"), "\uAC00\u11A7\u00E9");       // not a trailing consonant
  EXPECT_EQ(composed("\u2126\uF900"), "\u03A9\u8C48");                    // replaced by other characters
  EXPECT_EQ(composed("\u0958\u0301\u0301"), "\u0915\u093C\u0301\u0301");  // excluded from composition
}

TEST(Unicode, ManyMarksAreOrdered) {
  std::string text = "a", expected = "\u1EA1";
  for (int i = 0; i < 100000; ++i) text += "\u0301", expected += i == 0 ? "" : "\u0323";
  for (int i = 0; i < 100000; ++i) text += "\u0323", expected += "\u0301";
  EXPECT_EQ(composed(text), expected);
}

TEST(Unicode, SpacesAndWords) {
  EXPECT_TRUE(is_space('\n') && is_space(0x3000) && !is_space(0x180E) && !is_space('a'));
  EXPECT_TRUE(is_word('a') && is_word('_') && is_word(0x301) && is_word(0x4E00) && !is_word('-'));
  EXPECT_TRUE(is_word(0x24B6) && is_word(0x2160) && !is_word(0x215D));  // a circled letter, a numeral, a fraction
}

}  // namespace
}  // namespace edgecore::llm
