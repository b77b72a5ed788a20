#include "model_tables.h"

#include <gtest/gtest.h>

namespace edgecore::llm {
namespace {

TEST(ModelTables, VocabularyAndMergesLeaveTheObject) {
  ModelTables tables;
  const nlohmann::json json =
      read_tokenizer_json(R"({"a": {"vocab": {"x": 1}}, "model": {"type": "BPE", "vocab": {"b": 2, "c": -1, "b": 3},)"
                          R"( "merges": ["d e", ["f", "g h"]], "unk_token": "b"}, "z": [1]})",
                          tables);
  EXPECT_EQ(json.dump(),
            R"({"a":{"vocab":{"x":1}},"model":{"merges":[],"type":"BPE","unk_token":"b","vocab":{}},"z":[1]})");
  const std::vector<std::pair<std::string, int32_t>> vocabulary = {{"b", 2}, {"c", -1}, {"b", 3}};
  const std::vector<std::pair<std::string, std::string>> merges = {{"d", "e"}, {"f", "g h"}};
  EXPECT_EQ(tables.vocabulary, vocabulary);
  EXPECT_EQ(tables.merges, merges);
  EXPECT_FALSE(tables.has_wrong_merge);
}

TEST(ModelTables, EntriesOfOtherKindsAreNoticed) {
  for (const char *merges : {"[1]", "[\"ab\"]", "[\"a b c\"]", "[[\"a\"]]", "[[\"a\", 1]]", "[{}]", "[[[]]]"}) {
    ModelTables tables;
    read_tokenizer_json(std::string(R"({"model": {"merges": )") + merges + "}}", tables);
    EXPECT_TRUE(tables.has_wrong_merge) << merges;
  }
  for (const char *vocabulary : {R"({"a": "b"})", R"({"a": {}})", R"({"a": [1]})", R"({"a": 1.5})", "[1]"}) {
    ModelTables tables;
    read_tokenizer_json(std::string(R"({"model": {"vocab": )") + vocabulary + "}}", tables);
    ASSERT_FALSE(tables.vocabulary.empty()) << vocabulary;
    EXPECT_EQ(tables.vocabulary[0].second, -1) << vocabulary;
  }
  ModelTables tables;
  EXPECT_FALSE(read_tokenizer_json("{", tables).is_object());
}

}  // namespace
}  // namespace edgecore::llm
