#include "host/flat_json.h"

#include <gtest/gtest.h>

#include "error_text.h"

namespace edgecore {
namespace {

const std::string kAbi = std::to_string(EDGECORE_ABI_MAJOR) + "." + std::to_string(EDGECORE_ABI_MINOR);

bool says(const Error &error, const std::string &part) { return text_of(error).find(part) != std::string::npos; }

Status read(const std::string &text, std::vector<JsonItem> &items, Error &error) {
  return read_flat_json({text.data(), text.size()}, items, error);
}

std::string manifest_of(const std::string &abi, const std::string &id, const std::string &library,
                        const std::string &rest = "") {
  return "{\"abi\": \"" + abi + "\", \"backend_id\": \"" + id + "\", \"library\": \"" + library + "\"" + rest + "}\n";
}

TEST(FlatJson, ReadsStringsIntegersAndBooleans) {
  std::vector<JsonItem> items;
  Error error;
  const std::string text =
      "\t{\"a\":\"x\\\"\\\\\\/\\n\\u00e9\\ud83d\\ude00\", \"b\" : -9223372036854775808,\r\n"
      "\"c\": {\"d\":true, \"e\":false ,\"f\":{}, \"g\": 0}}\n";
  ASSERT_FALSE(read(text, items, error).ok());  // f: an object within an object within an object
  ASSERT_TRUE(read("{\"c\": {}, \"d\": {\"c\": 1}}", items, error).ok()) << text_of(error);
  ASSERT_TRUE(read(text.substr(0, text.find("\"f\"")) + "\"g\": 0}}", items, error).ok()) << text_of(error);
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(items[0].text, "x\"\\/\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(items[1].number, INT64_MIN);
  EXPECT_EQ(items[2].type, JsonType::kObject);
  EXPECT_EQ(items[3].section, "c");
  EXPECT_EQ(items[3].number, 1);
  EXPECT_EQ(items[4].type, JsonType::kBool);
  EXPECT_EQ(items[5].type, JsonType::kInt);
}

TEST(FlatJson, RefusesEverythingElseWithItsLine) {
  const struct {
    std::string text;
    const char *sentence;
  } cases[] = {
      {"", "line 1: expected '{'"},
      {"\xef\xbb\xbf{}", "expected '{'"},
      {"[]", "expected '{'"},
      {"{", "expected '\"'"},
      {"{}{}", "expected nothing after the object"},
      {"{\n\n\"a\" 1}", "line 3: expected ':'"},
      {"{\"a\": 1 \"b\": 2}", "expected ',' or '}'"},
      {"{\"a\": 1,}", "expected '\"'"},
      {"{\"a\": 1, \"a\": 2}", "expected each key once"},
      {"{\"\": 1}", "expected a key that is not empty"},
      {"{\"a\": [1]}", "expected a string, an integer, true or false"},
      {"{\"a\": null}", "expected a string, an integer, true or false"},
      {"{\"a\": tru}", "expected a string, an integer, true or false"},
      {"{\"a\": 0.3}", "expected an integer"},
      {"{\"a\": 1e3}", "expected an integer"},
      {"{\"a\": 01}", "expected an integer"},
      {"{\"a\": -}", "expected an integer"},
      {"{\"a\": 9223372036854775808}", "expected an integer of 64 bits"},
      {"{\"a\": \"x", "expected the end of a string"},
      {"{\"a\": \"x\n\"}", "expected no control character in a string"},
      {"{\"a\": \"\\x\"}", "expected an escape of JSON"},
      {"{\"a\": \"\\u12g4\"}", "expected an escape of JSON"},
      {"{\"a\": \"\\ud800x\"}", "expected two surrogates"},
      {"{\"a\": \"\\udc00\"}", "expected two surrogates"},
      {"{\"a\": \"\\u0000\"}", "expected no NUL"},
      {std::string("{\"a\": \"\0\"}", 9), "expected no control character"},
      {std::string(60000, '{'), "expected '\"'"},
  };
  std::vector<JsonItem> items;
  Error error;
  for (const auto &test_case : cases) {
    EXPECT_EQ(read(test_case.text, items, error).code(), EDGECORE_INVALID_EXTERNAL_DATA) << test_case.text;
    EXPECT_TRUE(says(error, test_case.sentence)) << test_case.text << ": " << text_of(error);
  }
  std::string many = "{";
  for (int i = 0; i < 101; ++i) many += "\"" + std::to_string(i) + "\":1,";
  many.back() = '}';
  EXPECT_FALSE(read(many, items, error).ok());
  EXPECT_TRUE(says(error, "at most 100"));
}

TEST(FlatJson, SurvivesEveryChangedByte) {
  const std::string valid =
      manifest_of(kAbi, "ToyBackend", "/a\\u00e9/\\ud83d\\ude00.so", ", \"options\": {\"a\": -12}");
  Error error;
  const auto try_it = [&](const std::string &text) {  // exact size: a sanitizer then detects reads past its end
    const std::vector<char> exact(text.begin(), text.end());
    std::vector<JsonItem> items;
    return read_flat_json({exact.data(), exact.size()}, items, error).ok();
  };
  ASSERT_TRUE(try_it(valid));
  for (size_t size = 0; size + 1 < valid.size(); ++size) EXPECT_FALSE(try_it(valid.substr(0, size)));
  for (size_t at = 0; at < valid.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string damaged = valid;
      damaged[at] = static_cast<char>(byte);
      (void)try_it(damaged);
    }
  }
}

}  // namespace
}  // namespace edgecore
