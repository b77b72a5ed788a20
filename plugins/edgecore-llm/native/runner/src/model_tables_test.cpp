#include "model_tables.h"

#include <gtest/gtest.h>

namespace edgecore::llm {
namespace {

std::string text_of(StringView text) { return {text.data(), text.size()}; }

TEST(ModelTables, VocabularyAndMergesLeaveTheObject) {
  ModelTables tables;
  const std::string text =
      R"({"a": {"vocab": {"x": 1}}, "model": {"type": "BPE", "vocab": {"b": 2, "\u0120\"" : -1, "b":3 },)"
      R"( "merges": [ "d e", ["f" , "g h"] ], "unk_token": "b"}, "z": [1]})";
  const nlohmann::json json = read_tokenizer_json(text, tables);
  EXPECT_EQ(json.dump(),
            R"({"a":{"vocab":{"x":1}},"model":{"merges":[],"type":"BPE","unk_token":"b","vocab":{}},"z":[1]})");
  std::string found;
  for (const auto &[spelling, id] : tables.vocabulary) found += text_of(spelling) + "=" + std::to_string(id) + " ";
  for (const auto &[left, right] : tables.merges) found += text_of(left) + "+" + text_of(right) + " ";
  EXPECT_EQ(found, "b=2 \u0120\"=-1 b=3 d+e f+g h ");
  EXPECT_FALSE(tables.has_wrong_merge);
}

TEST(ModelTables, EntriesOfOtherKindsAreNoticed) {
  for (const char *merges : {"[1]", "[\"ab\"]", "[\"a b c\"]", "[[\"a\"]]", "[[\"a\", 1]]", "[{}]", "[[[]]]"}) {
    ModelTables tables;
    const std::string text = std::string(R"({"model": {"merges": )") + merges + "}}";
    EXPECT_TRUE(read_tokenizer_json(text, tables).is_object()) << merges;
    EXPECT_TRUE(tables.has_wrong_merge) << merges;
  }
  for (const char *vocabulary :
       {R"({"a": "b"})", R"({"a": {}})", R"({"a": [1]})", R"({"a": 1.5})", R"({"a": 3000000000})"}) {
    ModelTables tables;
    const std::string text = std::string(R"({"model": {"vocab": )") + vocabulary + "}}";
    EXPECT_TRUE(read_tokenizer_json(text, tables).is_object()) << vocabulary;
    ASSERT_FALSE(tables.vocabulary.empty()) << vocabulary;
    EXPECT_EQ(tables.vocabulary[0].second, -1) << vocabulary;
  }
}

TEST(ModelTables, ATextThatIsNoJsonIsNoObject) {
  for (const char *vocabulary : {"{", R"({"a")", R"({"a"})", R"({"a":})", R"({"a": 01})", R"({"a": 1,})",
                                 R"({"a": 1 2})", R"({"a": 1]})", "{\"\xFF\": 1}", "{\"\n\": 1}", R"({"\x": 1})",
                                 R"({"a": tru})", R"({1: 2})", R"({"a": "\)", R"({"a": [1})", "[1] 2", ""}) {
    for (const char *end : {"}}", "}", "}} x", "]}"}) {
      ModelTables tables;
      const std::string text = std::string(R"({"model": {"vocab": )") + vocabulary + end;
      EXPECT_FALSE(read_tokenizer_json(text, tables).is_object()) << text;
    }
  }
  for (const char *merges : {R"(["a b)", R"(["a b",])", R"([["a", "b"})", R"([["a" "b"]])", R"([["a", tru]])", "[{]"}) {
    ModelTables tables;
    const std::string text = std::string(R"({"model": {"merges": )") + merges + "}}";
    EXPECT_FALSE(read_tokenizer_json(text, tables).is_object()) << merges;
  }
  ModelTables tables;
  const std::string with_nul("{\"model\": {\"vocab\": {\"a\": 1\0}}}", 31);  // NUL ends a text in the JSON library
  EXPECT_FALSE(read_tokenizer_json(with_nul, tables).is_object());
  EXPECT_FALSE(read_tokenizer_json(R"({"model": {"vocab": {"a": "\)", tables).is_object());
  EXPECT_FALSE(read_tokenizer_json("{", tables).is_object());
  EXPECT_FALSE(read_tokenizer_json("", tables).is_object());
}

}  // namespace
}  // namespace edgecore::llm
