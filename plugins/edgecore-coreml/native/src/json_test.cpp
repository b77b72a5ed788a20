// Tests the JSON parser: values, escapes, and damaged texts.
#include "json.h"

#include "test_support.h"

namespace edgecore::coreml {
namespace {

using test::expect_failure;

Json parse(std::string_view text) {
  size_t end = 0;
  return parse_json(text, &end);
}

TEST(Json, ValuesKeepTheirKindsAndContents) {
  const Json value = parse(R"( {"a": [1, -2, "x", {}, []], "b": 9223372036854775807, "c": true, "d": 1.5} )");
  const std::vector<Json> &items = value.at("a", Json::Kind::kArray).items;
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[0].integer, 1);
  EXPECT_EQ(items[1].integer, -2);
  EXPECT_EQ(items[2].text, "x");
  EXPECT_EQ(items[3].kind, Json::Kind::kObject);
  EXPECT_EQ(value.size_at("b"), 9223372036854775807u);
  EXPECT_EQ(value.at("c", Json::Kind::kOther).kind, Json::Kind::kOther);
  EXPECT_EQ(value.at("d", Json::Kind::kOther).integer, 0);
  EXPECT_EQ(value.find("e"), nullptr);
}

TEST(Json, EscapesBecomeUtf8) {
  const Json value = parse(R"({"a": "\"\\\/\b\f\n\r\t\u00e9\u20AC\ud83d\ude00"})");
  EXPECT_EQ(value.text_at("a"), "\"\\/\b\f\n\r\t\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
}

TEST(Json, TheEndOfTheValueIsReported) {
  size_t end = 0;
  parse_json("[1]rest", &end);
  EXPECT_EQ(end, 3u);
}

TEST(Json, MembersOfAnotherKindAreNamed) {
  const Json value = parse(R"({"a": 1, "b": -1, "c": [1]})");
  expect_failure("lacks the member 'x', or it has another type", [&] { value.text_at("x"); });
  expect_failure("lacks the member 'a', or it has another type", [&] { value.text_at("a"); });
  expect_failure("a negative number for 'b'", [&] { value.size_at("b"); });
  expect_failure("no text in 'c'", [&] { value.texts_at("c"); });
}

TEST(Json, DamagedTextsAreRefused) {
  for (const char *text : {"", "{", "[1", "[1,", "{\"a\"", "{\"a\":", "{1:2}", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"",
                           "\"\\uZZZZ\"", "]", "nul"}) {
    expect_failure("JSON lacks", [&] { parse(text); });
  }
  expect_failure("nested more than 16 times", [] { parse(std::string(100000, '[')); });
  std::string objects;
  for (int depth = 0; depth < 100000; ++depth) objects += R"({"a":)";
  expect_failure("nested more than 16 times", [&] { parse(objects); });
  expect_failure("has two members 'b'", [] { parse(R"([{"a":1,"b":2,"c":3,"b":{}}])"); });
  expect_failure("has two members 'a'", [] { parse(R"({"a":1,"\u0061":2})"); });
}

}  // namespace
}  // namespace edgecore::coreml
