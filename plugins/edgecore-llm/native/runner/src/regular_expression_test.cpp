#include "regular_expression.h"

#include <gtest/gtest.h>

namespace edgecore::llm {
namespace {

std::vector<std::string> found(const std::string &pattern, const std::string &text) {
  Regex regex;
  Error error;
  std::vector<Range> matches;
  EXPECT_TRUE(regex.compile(pattern, error).ok()) << std::string(error.text, error.size);
  EXPECT_TRUE(regex.find_all(text, matches, error).ok()) << std::string(error.text, error.size);
  std::vector<std::string> texts;
  for (const Range &match : matches) texts.push_back(text.substr(match.begin, match.end - match.begin));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Regex, FindsAllMatchesOfLookAheadsAndClasses) {
  EXPECT_EQ(found(R"(\p{L}+|\s+(?!\S)|\s+)", "Größe  und\n"), (Texts{"Größe", " ", " ", "und", "\n"}));
  EXPECT_EQ(found(R"((?i:'s|'t)|[^\s\p{L}]+)", "it'S 12"), (Texts{"'S", "12"}));
  EXPECT_EQ(found("x*", "axxb"), Texts{"xx"});
}

TEST(Regex, WhiteSpaceIsThatOfUnicode) {
  EXPECT_EQ(found(R"(\s)", "\u0085\u180E\u3000"), (Texts{"\u0085", "\u3000"}));
  EXPECT_EQ(found(R"([\s]+)", "\u2003\u180E"), Texts{"\u2003"});
  EXPECT_EQ(found(R"(\S)", " \u180E"), Texts{"\u180E"});
}

TEST(Regex, AClassMayHaveClassesWithNamesAndBeginWithABracket) {
  EXPECT_EQ(found(R"([[:punct:]\s]+)", "a.\u3000!b"), Texts{".\u3000!"});
  EXPECT_EQ(found(R"([]\s]+|[^]\s]+)", "a]\u3000b"), (Texts{"a", "]\u3000", "b"}));
  EXPECT_EQ(found(R"([\[&]+)", "a[&b"), Texts{"[&"});
}

TEST(Regex, ASearchThatTheStackOfTheCompiledPatternDoesNotHoldGoesOnWithoutIt) {
  const std::string lines(5000, '\n');
  EXPECT_EQ(found(R"((?:\r?\n)+(?!\r?\n))", lines), Texts{lines});
}

TEST(Regex, APatternThatCannotBeUsedIsAnError) {
  Regex regex;
  Error error;
  for (const char *pattern : {"[a-c&&[^b]]", "[a&&b]", "[a[bc]]", R"(\h+)", R"([\H])", R"(\v)"}) {
    EXPECT_EQ(regex.compile(pattern, error).code(), EDGECORE_NOT_SUPPORTED) << pattern;
    EXPECT_NE(std::string(error.text, error.size).find("several meanings"), std::string::npos);
  }
  EXPECT_EQ(regex.compile("(", error).code(), EDGECORE_NOT_SUPPORTED);
  EXPECT_NE(std::string(error.text, error.size).find("the pattern ( cannot be used: "), std::string::npos);
}

}  // namespace
}  // namespace edgecore::llm
