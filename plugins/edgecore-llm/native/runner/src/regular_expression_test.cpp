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
}

TEST(Regex, WhiteSpaceIsThatOfUnicode) {
  EXPECT_EQ(found(R"(\s)", "\u0085\u180E\u3000"), (Texts{"\u0085", "\u3000"}));
  EXPECT_EQ(found(R"([\s]+)", "\u2003\u180E"), Texts{"\u2003"});
  EXPECT_EQ(found(R"(\S)", " \u180E"), Texts{"\u180E"});
}

TEST(Regex, AClassMayBeginWithABracket) {
  EXPECT_EQ(found(R"([]\s]+|[^]\s]+)", "a]\u3000b"), (Texts{"a", "]\u3000", "b"}));
  EXPECT_EQ(found(R"([\[&]+)", "a[&b"), Texts{"[&"});
}

TEST(Regex, WhatOnigurumaReadsOtherwiseMeansTheSame) {
  EXPECT_EQ(found("^a|b$", "a\na\nb\nb"), (Texts{"a", "a", "b", "b"}));
  EXPECT_EQ(found("a.", "a\nab a\r"), (Texts{"ab", "a\r"}));
  EXPECT_EQ(found("a{,2}b", "aaab b a{,2}b"), (Texts{"aab", "b", "b"}));
  EXPECT_EQ(found(R"([-\s]+|[\s\-\S-])", "- a"), (Texts{"- ", "a"}));
  EXPECT_EQ(found(R"([^\S\n]+)", "a \u180E\n\t"), (Texts{" ", "\t"}));
  EXPECT_EQ(found(R"(\x{4F60}|\p{Han}+)", "\u4F60\u3001\u597D"), (Texts{"\u4F60", "\u597D"}));
  EXPECT_EQ(found(R"(\p{Yi}+)", "\uA000\u3001\uA001"), (Texts{"\uA000", "\uA001"}));
  EXPECT_EQ(found(R"(\p{^L}+)", "a1b"), Texts{"1"});
  EXPECT_EQ(found("(?i:'[sd]|\u2019ll)", "it'S \u2019LL"), (Texts{"'S", "\u2019LL"}));
}

TEST(Regex, ASearchThatTheStackOfTheCompiledPatternDoesNotHoldGoesOnWithoutIt) {
  const std::string lines(5000, '\n');
  EXPECT_EQ(found(R"((?:\r?\n)+(?!\r?\n))", lines), Texts{lines});
}

TEST(Regex, APatternThatCannotBeUsedIsAnError) {
  Regex regex;
  Error error;
  for (const char *pattern : {"[a-c&&[^b]]",
                              "[a&&b]",
                              "[a[bc]]",
                              R"(\h+)",
                              R"([\H])",
                              R"(\v)",
                              R"(\w)",
                              R"(\b)",
                              R"(\pL)",
                              R"(\x41)",
                              R"(\1)",
                              "(?m:a)",
                              "(?s)a",
                              "a(?i)b|c",
                              "(?i:[^a])",
                              "(?i:ss)",
                              "(?i:a.)",
                              "(*FAIL)",
                              R"([\s-\x{4E00}])",
                              R"([a-\s])",
                              "(?#a)",
                              "{",
                              "a{1,2}+",
                              "a{2}?",
                              "a{,}",
                              "a{ 1}",
                              R"(\p{alpha})",
                              "[[:word:]]",
                              "[[:punct:]]"}) {
    EXPECT_EQ(regex.compile(pattern, error).code(), EDGECORE_NOT_SUPPORTED) << pattern;
    EXPECT_NE(std::string(error.text, error.size).find("several meanings"), std::string::npos) << pattern;
  }
  for (const char *pattern : {"x*", "^$|.", R"(\p{N}{,3})", "(?=a)", ""}) {
    EXPECT_EQ(regex.compile(pattern, error).code(), EDGECORE_NOT_SUPPORTED) << pattern;
  }
  EXPECT_EQ(regex.compile("(", error).code(), EDGECORE_NOT_SUPPORTED);
  EXPECT_NE(std::string(error.text, error.size).find("the pattern ( cannot be used: "), std::string::npos);
}

}  // namespace
}  // namespace edgecore::llm
