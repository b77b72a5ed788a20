#include "added_tokens.h"

#include <gtest/gtest.h>

namespace edgecore::llm {
namespace {

AddedToken token(const char *content, int32_t id) {
  AddedToken token;
  token.content = content;
  token.id = id;
  return token;
}

std::string split(const AddedTokens &tokens, const std::string &text, bool specials = true) {
  std::vector<TextPart> parts;
  tokens.split(text, specials, parts);
  std::string shown;
  for (const TextPart &part : parts) {
    const std::string piece = text.substr(part.range.begin, part.range.end - part.range.begin);
    shown += part.token < 0 ? "(" + piece + ")" : "[" + std::to_string(part.token) + ":" + piece + "]";
  }
  return shown;
}

TEST(AddedTokens, TheFirstAndOfThoseTheLongestIsFound) {
  AddedTokens tokens;
  tokens.add(token("<a>", 1), "<a>");
  tokens.add(token("<a>b", 2), "<a>b");
  tokens.add(token("b<", 3), "b<");
  EXPECT_EQ(split(tokens, ""), "");
  EXPECT_EQ(split(tokens, "x<a>y"), "(x)[1:<a>](y)");
  EXPECT_EQ(split(tokens, "<a>b<a>"), "[2:<a>b][1:<a>]");
  EXPECT_EQ(split(tokens, "xb<a>"), "(x)[3:b<](a>)");
}

TEST(AddedTokens, SpecialTokensAreTextUnlessTheyAreWanted) {
  AddedTokens tokens;
  AddedToken special = token("<s>", 1);
  special.is_special = true;
  tokens.add(special, special.content);
  tokens.add(token("s", 2), "s");
  EXPECT_EQ(split(tokens, "<s>s", true), "[1:<s>][2:s]");
  EXPECT_EQ(split(tokens, "<s>s", false), "(<s>)[2:s]");  // like the Python library: skipped text is not searched again
}

TEST(AddedTokens, WhiteSpaceAndWordsAroundThemCount) {
  AddedTokens tokens;
  AddedToken eater = token("<m>", 1), word = token("dog", 2);
  eater.eats_left = eater.eats_right = word.is_single_word = true;
  tokens.add(eater, eater.content);
  tokens.add(word, word.content);
  EXPECT_EQ(split(tokens, "a \u3000<m> \n<m>b"), "(a)[1: \u3000<m> \n][1:<m>](b)");
  EXPECT_EQ(split(tokens, "dog dogs Üdog (dog)"), "[2:dog]( dogs Üdog ()[2:dog]())");
}

}  // namespace
}  // namespace edgecore::llm
